"""Claims about attention, each an experiment that trains, measures and writes its table and picture."""

from regard.experiments.catalog import EXPERIMENTS, ON_TEXT

__all__ = ["EXPERIMENTS", "ON_TEXT"]
