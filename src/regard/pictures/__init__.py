"""Attention weights with their labels, drawn: png and svg through matplotlib, html with nothing but a browser."""

from regard.pictures.heatmap import heatmap
from regard.pictures.view import View
from regard.pictures.write import write, write_view

__all__ = ["View", "heatmap", "write", "write_view"]
