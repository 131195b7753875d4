"""Pictures of what every head of a run reads of an image."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.cli.figure import Asking
from regard.cli.figure_options import View, Viewing
from regard.errors import InputError
from regard.maps.entropy import entropies
from regard.pictures.multiples import multiples
from regard.pictures.overlay import overlays
from regard.pictures.views import entropy
from regard.pictures.write import write_figure
from regard.tasks.image_classification.run import ImageClassificationRun, Looked

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def image_view(run: ImageClassificationRun, asking: Asking, viewing: Viewing) -> tuple[str, list[Path]]:
    """Writes the picture; returns the class with its probability, and where the picture is. Raises InputError for what
    images have not."""
    asking.looking.refuse("--beam", "--map", "--kind", what="tells classes of images")
    if viewing.view not in VIEWS:
        raise InputError(
            f"--view {viewing.view or 'matrix'} is of words, and an image has none; use {', '.join(VIEWS)}"
        )
    if others := sorted(viewing.given - USES[viewing.view]):
        raise InputError(f"--{others[0]} is given; --view {viewing.view} of an image takes none")
    looked = run.look(asking.text)
    figure = VIEWS[viewing.view](run, looked, viewing.scale)
    path = write_figure(figure, asking.out, title=asking.text, width=viewing.width)
    return looked.found.lines()[0], [path]


def _heads(run: ImageClassificationRun, looked: Looked, scale: float | None) -> "Figure":
    """Of every head the weights of the patches that the class was told by."""
    return multiples(looked.patches, looked.maps.names, looked.maps.layers, most=scale, title=str(looked.found))


def _rollout(run: ImageClassificationRun, looked: Looked, scale: float | None) -> "Figure":
    last = run.look(looked.pixels, kind="weights")
    return overlays(looked.pixels, np.stack([looked.weights, last.weights]), ["rolled out", "last layer"])


def _entropy(run: ImageClassificationRun, looked: Looked, scale: float | None) -> "Figure":
    return entropy([entropies(each) for each in looked.maps.by_layer()], len(looked.maps.source.pieces))


VIEWS: dict[View, Callable[[ImageClassificationRun, Looked, float | None], "Figure"]] = {
    "heads": _heads,
    "rollout": _rollout,
    "entropy": _entropy,
}
USES: dict[View, set[str]] = {"heads": {"scale", "width"}, "rollout": {"width"}, "entropy": {"width"}}
"""The options that each view of an image knows."""
