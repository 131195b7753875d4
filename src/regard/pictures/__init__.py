"""Pictures of attention weights: .png and .svg by matplotlib, .html without any library."""

from regard.pictures.heatmap import heatmap
from regard.pictures.page import View
from regard.pictures.write import write, write_view

__all__ = ["View", "heatmap", "write", "write_view"]
