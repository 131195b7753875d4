"""Experiments on claims about attention. Each one trains, measures, and writes a table and a picture."""

from regard.experiments.catalog import EXPERIMENTS, ON_TEXT

__all__ = ["EXPERIMENTS", "ON_TEXT"]
