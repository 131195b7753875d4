"""The output softmax in training. Evaluation and decoding are exact with each kind."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from regard.models.sizes import Size
from regard.nn.large_vocabulary import AdaptiveOutput, SampledOutput
from regard.nn.output import Output


@dataclass(frozen=True)
class FullSoftmax:
    """Train with the softmax over the whole vocabulary."""

    kind: Literal["full"] = "full"


@dataclass(frozen=True)
class SampledSoftmax:
    """Train with the softmax over the target and `samples` other words, drawn anew for each batch; all else is exact.
    It works best if ids are sorted by frequency."""

    kind: Literal["sampled"] = "sampled"
    samples: Size = 8192


@dataclass(frozen=True)
class AdaptiveSoftmax:
    """A softmax over frequent words and clusters of rarer ones, then within the cluster: exact, and fast if ids are
    sorted by frequency. Ids below the first of `cutoffs` are frequent, and each further cutoff ends a cluster."""

    kind: Literal["adaptive"] = "adaptive"
    cutoffs: tuple[Size, ...] = (4000, 12000)

    def __post_init__(self) -> None:
        if not self.cutoffs or list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise ValueError(
                f"cutoffs are {list(self.cutoffs)}; expected at least one id, each above the one before"
            )


Softmax = FullSoftmax | SampledSoftmax | AdaptiveSoftmax
FULL = FullSoftmax()


def output_kind(softmax: Softmax) -> Callable[..., Output]:
    """The class of the output layer, with its settings."""
    match softmax:
        case SampledSoftmax(samples=samples):
            return partial(SampledOutput, samples=samples)
        case AdaptiveSoftmax(cutoffs=cutoffs):
            return partial(AdaptiveOutput, cutoffs=cutoffs)
        case _:
            return Output


def check_smoothing(softmax: Softmax, smoothing: float) -> None:
    """Raises ValueError for label smoothing with a softmax in which most words have no logit."""
    if smoothing and not isinstance(softmax, FullSoftmax):
        raise ValueError(
            "training.label_smoothing needs a full softmax; set it to 0 or model.softmax.kind to full"
        )
