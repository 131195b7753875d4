"""Pictures of what every head of a run reads of an image."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.cli.drawing import Asking
from regard.cli.viewing import View, Viewing
from regard.errors import InputError
from regard.maps.entropy import entropies
from regard.pictures.entropy import entropy
from regard.pictures.multiples import multiples
from regard.pictures.overlay import overlays
from regard.pictures.write import write_figure
from regard.tasks.image_classification.run import ImageClassificationRun

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
    figure = VIEWS[viewing.view](run, asking.text, viewing.scale)
    answer = run.look(asking.text).found
    path = write_figure(figure, asking.out, title=asking.text, width=viewing.width)
    return f"{answer.label}\t{answer.probability:.4f}", [path]


def _heads(run: ImageClassificationRun, image: str, scale: float | None) -> "Figure":
    """Of every head the weights of the patches that the class was told by."""
    found = run.heads(image)
    return multiples(found.patches, found.maps.names, found.maps.layers, most=scale, title=str(found.found))


def _rollout(run: ImageClassificationRun, image: str, scale: float | None) -> "Figure":
    rolled, last = run.look(image), run.look(image, kind="weights")
    return overlays(rolled.pixels, np.stack([rolled.weights, last.weights]), ["rolled out", "last layer"])


def _entropy(run: ImageClassificationRun, image: str, scale: float | None) -> "Figure":
    maps = run.heads(image).maps
    return entropy([entropies(each) for each in maps.by_layer()], len(maps.source.pieces))


VIEWS: dict[View, Callable[[ImageClassificationRun, str, float | None], "Figure"]] = {
    "heads": _heads,
    "rollout": _rollout,
    "entropy": _entropy,
}
USES: dict[View, set[str]] = {"heads": {"scale", "width"}, "rollout": {"width"}, "entropy": {"width"}}
"""The options that each view of an image knows."""
