"""What the class of an image was told by, in each way that can be shown."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.record import Maps, record
from regard.attribution.aggregation import rolled_out
from regard.attribution.gradients import contributions, log_probabilities_of
from regard.attribution.kinds import Kind
from regard.attribution.norms import ValueNorms
from regard.maps import average_heads
from regard.models.vit import Vit

Look = Callable[[Vit, Tensor, list[float], Maps], np.ndarray]
"""Of a model, an image `(1, channel, height, width)`, and the probabilities and maps that were recorded of it, the
weight of each position, the patches' last."""


def by_rollout(model: Vit, image: Tensor, row: list[float], found: Maps) -> np.ndarray:
    """The attention of all layers, rolled out."""
    return read_by_class(model, rolled_out(found))


def by_weights(model: Vit, image: Tensor, row: list[float], found: Maps) -> np.ndarray:
    """The weights of the last layer, its heads averaged."""
    return read_by_class(model, last(found))


def by_norms(model: Vit, image: Tensor, row: list[float], found: Maps) -> np.ndarray:
    """The norms of what the last layer's heads write, averaged."""
    return read_by_class(model, last(recorded(model, image, ValueNorms(model))[1]))


def by_gradient(model: Vit, image: Tensor, row: list[float], found: Maps) -> np.ndarray:
    """Gradient x input of the most likely class's log-probability, at the vectors of the patches."""
    place = [row.index(max(row))]
    (owed,) = contributions([model.encoder.patches], lambda: log_probabilities_of(model(image), place))
    return owed.shares()[0]


@torch.no_grad()
def recorded(model: Vit, image: Tensor, measure: ValueNorms | None = None) -> tuple[list[float], Maps]:
    """The probabilities of the classes of an image `(1, channel, height, width)`, and the layers' maps."""
    with record(model, only=model.self_attention, measure=measure) as found:
        (row,) = model(image).softmax(-1).tolist()
    return row, found


def last(found: Maps) -> np.ndarray:
    """The map of the last layer, the mean over its heads."""
    return average_heads(list(found.values())[-1][0].double().cpu().numpy())


def read_by_class(model: Vit, read: Float[np.ndarray, "*map query key"]) -> Float[np.ndarray, "*map key"]:
    """What is read by what tells the class: the first token, or all of them in the mean."""
    return read.mean(-2) if model.config.pooling == "mean" else read[..., 0, :]


LOOKS: dict[Kind, Look] = {
    "weights": by_weights,
    "gradient": by_gradient,
    "norms": by_norms,
    "rollout": by_rollout,
}
