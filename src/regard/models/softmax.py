"""How training tells a word among all of a vocabulary; what else is done with a model is exact either way."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from regard.models.sizes import Size
from regard.nn.large_vocabulary import AdaptiveOutput, SampledOutput
from regard.nn.output import Output


@dataclass(frozen=True)
class FullSoftmax:
    """Training tells a word among all."""

    kind: Literal["full"] = "full"


@dataclass(frozen=True)
class SampledSoftmax:
    """Training tells a word among `samples` others, drawn anew for each batch; all else is exact. Best where the
    tokenizer's ids go by how frequent words are."""

    kind: Literal["sampled"] = "sampled"
    samples: Size = 8192


@dataclass(frozen=True)
class AdaptiveSoftmax:
    """A word is told among the frequent ones and the clusters of others, and then within its cluster: exact, and quick
    where the tokenizer's ids go by how frequent words are. Ids below the first of `cutoffs` are frequent, and each
    further one ends a cluster."""

    kind: Literal["adaptive"] = "adaptive"
    cutoffs: tuple[Size, ...] = (4000, 12000)

    def __post_init__(self) -> None:
        if not self.cutoffs or list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise ValueError(f"cutoffs are {list(self.cutoffs)}; expected at least one id, each above the one before")


Softmax = FullSoftmax | SampledSoftmax | AdaptiveSoftmax
FULL = FullSoftmax()


def output_kind(softmax: Softmax) -> Callable[..., Output]:
    """The output layer to make."""
    match softmax:
        case SampledSoftmax(samples=samples):
            return partial(SampledOutput, samples=samples)
        case AdaptiveSoftmax(cutoffs=cutoffs):
            return partial(AdaptiveOutput, cutoffs=cutoffs)
        case _:
            return Output


def check_smoothing(softmax: Softmax, smoothing: float) -> None:
    """Raises ValueError for label smoothing where most words have no logit."""
    if smoothing and not isinstance(softmax, FullSoftmax):
        raise ValueError("training.label_smoothing is for a full softmax; set it to 0 or model.softmax.kind to full")
