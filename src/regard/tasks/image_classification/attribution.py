"""The attribution of an image's class to its patches, in each kind, and its figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.record import Maps, record
from regard.attribution.aggregation import ValueNorms, rollout_of
from regard.attribution.gradients import contributions, log_probabilities_of
from regard.attribution.kinds import Kind
from regard.images import Pixels
from regard.maps import average_heads
from regard.maps.heads import HeadMaps
from regard.models.vit import Vit
from regard.pictures.multiples import multiples
from regard.pictures.overlay import overlay, overlays
from regard.pictures.views import entropy_of
from regard.tasks.attribution import OwnView
from regard.tasks.options import ViewName

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class PatchWeights:
    """The attribution of an image's class to its patches.

    photo: the part of the photograph that the model reads, in its own colours and resolution.
    weights: of the first kind; they sum to 1 unless all are 0. last_layer: the attention of the last layer.
    heads: the lookups of every position, layer and head. patches: the weights of the class on the patches, as shares.
    """

    photo: Pixels
    weights: Float[np.ndarray, "row column"]
    last_layer: Float[np.ndarray, "row column"]
    heads: HeadMaps
    patches: Float[np.ndarray, "map row column"]

    def figure(self, title: str) -> "Figure":
        """The image beside its overlay of weights."""
        return overlay(self.photo, self.weights, title=title)

    def views(self, title: str) -> dict[ViewName, OwnView]:
        """The views of a picture of all heads, where `weights` are rolled out."""
        heads, pair = self.heads, np.stack([self.weights, self.last_layer])
        return {
            "heads": OwnView(
                lambda options: multiples(
                    self.patches,
                    heads.names,
                    heads.layers,
                    most=options.scale,
                    title=title,
                ),
                frozenset({"scale", "width"}),
            ),
            "rollout": OwnView(
                lambda options: overlays(
                    self.photo,
                    pair,
                    ["all layers", "last layer"],
                    title=title,
                    notes=[ROLLED],
                )
            ),
            "entropy": OwnView(lambda options: entropy_of(heads)),
        }


ROLLED = "all layers: attention rollout; last layer: the mean of its heads"


class Recorded(NamedTuple):
    """A forward pass over one image.

    probabilities: of the classes. maps: the weights of all layers.
    norms: of what the last layer's heads write, `(1, head, query, key)`; None where they are not needed.
    """

    probabilities: list[float]
    maps: Maps
    norms: Tensor | None


@torch.no_grad()
def recorded(model: Vit, image: Tensor, *, norms: bool) -> Recorded:
    """Record a forward pass over an image `(1, channel, height, width)`, with norms if needed."""
    layers: list[Tensor] = []

    def weights_and_norms(module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        layers[:] = [measured(module, weights, value)]  # the last layer's remain
        return weights

    measured = ValueNorms(model)
    with record(
        model, only=model.self_attention, measure=weights_and_norms if norms else None
    ) as maps:
        (row,) = model(image).softmax(-1).tolist()
    return Recorded(row, maps, *layers or [None])


PatchAttribution = Callable[[Vit, Tensor, Recorded], np.ndarray]
"""From a model, an image `(1, channel, height, width)` and a pass over it to the weight of each position, the patches
last."""


def by_rollout(model: Vit, image: Tensor, found: Recorded) -> np.ndarray:
    """The attention of all layers, rolled out."""
    return read_by_class(model, rollout_of(found.maps))


def by_weights(model: Vit, image: Tensor, found: Recorded) -> np.ndarray:
    """The weights of the last layer, its heads averaged."""
    return read_by_class(model, mean_of_heads(list(found.maps.values())[-1]))


def by_norms(model: Vit, image: Tensor, found: Recorded) -> np.ndarray:
    """The norms of what the last layer's heads write, averaged."""
    assert found.norms is not None
    return read_by_class(model, mean_of_heads(found.norms))


def by_gradient(model: Vit, image: Tensor, found: Recorded) -> np.ndarray:
    """Gradient x input of the most likely class's log-probability, at the vectors of the patches."""
    place = [found.probabilities.index(max(found.probabilities))]
    (contribution,) = contributions(
        [model.encoder.patches], lambda: log_probabilities_of(model(image), place)
    )
    return contribution.shares()[0]


def mean_of_heads(layer: Tensor) -> np.ndarray:
    """The map of a layer, `(1, head, query, key)`, averaged over its heads."""
    return average_heads(layer[0].double().cpu().numpy())


def read_by_class(
    model: Vit, read: Float[np.ndarray, "*map query key"]
) -> Float[np.ndarray, "*map key"]:
    """The row of the position that the class is predicted from: the first token, or the mean over all."""
    return read.mean(-2) if model.config.pooling == "mean" else read[..., 0, :]


KINDS: dict[Kind, PatchAttribution] = {
    "weights": by_weights,
    "gradient": by_gradient,
    "norms": by_norms,
    "rollout": by_rollout,
}
