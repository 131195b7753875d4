"""What run files name of attention: scores, alignments, positions and heads."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Literal

from pydantic import NonNegativeFloat, PositiveFloat
from torch import nn

from regard.attention import Attend
from regard.attention.align import (
    Align,
    Entmax15,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Monotonic,
    Softmax,
    Sparsemax,
    StraightThrough,
)
from regard.attention.heads import MultiHead
from regard.attention.history import (
    Coverage,
    History,
    LocationAware,
    SequentialAttend,
)
from regard.attention.positions import (
    Alibi,
    BucketedBias,
    RelativeKeys,
    Rotary,
)
from regard.attention.scores import (
    Additive,
    Cosine,
    Distance,
    Dot,
    General,
    InverseDistance,
    LearnedSharpness,
    Location,
    ScaledDot,
    Score,
)
from regard.config.loader import RegisteredName, Registry
from regard.models.sizes import Probability, Share, Size, check_heads
from regard.nn.layers import (
    Learned,
    LinearPositions,
    NoPositions,
    SinesThenCosines,
    Sinusoidal,
)

ActivationName = Literal["gelu", "gelu-tanh", "relu", "silu"]
ACTIVATIONS: Mapping[ActivationName, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu-tanh": partial(nn.GELU, approximate="tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}
"""Activations of feed-forward networks; gelu-tanh approximates gelu by tanh."""


SCORES = Registry(
    "regard.models",
    {
        "dot": lambda width, max_keys: Dot(),
        "general": lambda width, max_keys: General(width, width),
        "concat": lambda width, max_keys: Additive(width, width, width),
        "normalized-concat": lambda width, max_keys: Additive(
            width, width, width, bias=True, normalized=True
        ),
        "location": lambda width, max_keys: Location(width, max_keys),
        "scaled-dot": lambda width, max_keys: ScaledDot(),
        "cosine": lambda width, max_keys: Cosine(LearnedSharpness(width**0.5)),
        "distance": lambda width, max_keys: Distance(width**0.5),
        "inverse-distance": lambda width, max_keys: InverseDistance(),
    },
    group="regard.scores",
)
"""Functions of the width of queries and keys, and of the largest number of keys."""
ScoreName = Annotated[str, RegisteredName(SCORES)]
ContentScoreName = Annotated[str, RegisteredName(SCORES, without=("location",))]
"""Scores that depend on the keys."""


ALIGNS = Registry(
    "regard.models",
    {
        "softmax": lambda width, window: Softmax(),
        "sparsemax": lambda width, window: Sparsemax(),
        "entmax": lambda width, window: Entmax15(),
        "local-m": lambda width, window: LocalMonotonic(window),
        "local-p": lambda width, window: LocalPredictive(width, width, window),
        "straight-through": lambda width, window: StraightThrough(),
        "hard": lambda width, window: Hard(),
        "monotonic": lambda width, window: Monotonic(),
    },
    group="regard.aligns",
)
"""Functions of the width of queries, and of the window of local alignments."""
AlignName = Annotated[str, RegisteredName(ALIGNS)]


@dataclass(frozen=True)
class HardSettings:
    """Hard alignment with the share of sequences that read softly in training."""

    name: Literal["hard"] = "hard"
    soft_share: Probability = 0.0


@dataclass(frozen=True)
class StraightThroughSettings:
    """Gumbel straight-through alignment with its temperature."""

    name: Literal["straight-through"] = "straight-through"
    temperature: PositiveFloat = 1.0


@dataclass(frozen=True)
class MonotonicSettings:
    """Monotonic alignment with its initial offset and training noise."""

    name: Literal["monotonic"] = "monotonic"
    offset: float = -1.0
    noise: NonNegativeFloat = 1.0


AlignChoice = AlignName | HardSettings | StraightThroughSettings | MonotonicSettings
"""A name, or a name with its settings."""
ALIGN_CLASSES: Mapping[str, Callable[..., Align]] = {
    "hard": Hard,
    "straight-through": StraightThrough,
    "monotonic": Monotonic,
}
"""Alignments that have settings."""
SelfAlignName = Annotated[str, RegisteredName(ALIGNS, without=("hard",))]
SelfAlignChoice = SelfAlignName | StraightThroughSettings | MonotonicSettings
"""Alignments of self-attention.

Hard ones learn by REINFORCE, which is computed for reads of a source only.
"""


@dataclass(frozen=True, kw_only=True)
class AlignConfig:
    """The alignment of a model's attention, as run files name it.

    Attributes:
        name: The model's name, written first; each model has its own.
        align: The alignment.
        window: Positions before and after the center of a local alignment.
    """

    name: str
    align: AlignChoice = "softmax"
    window: Size = 10

    def build_align(self, query_width: int, choice: AlignChoice | None = None) -> Align:
        """Build `align`, or another choice, for queries of a width."""
        choice = choice or self.align
        if isinstance(choice, str):
            return ALIGNS[choice](query_width, self.window)
        settings = asdict(choice)
        return ALIGN_CLASSES[settings.pop("name")](**settings)


HistoryName = Literal["coverage", "location-aware"]
HISTORIES: dict[HistoryName | None, Callable[[int], History | None]] = {
    None: lambda width: None,
    "coverage": Coverage,
    "location-aware": LocationAware,
}
"""Functions of the hidden width of an additive score."""


POSITIONS = Registry(
    "regard.models",
    {
        "sinusoidal": lambda width, max_positions: Sinusoidal(),
        "sines-then-cosines": lambda width, max_positions: SinesThenCosines(),
        "learned": lambda width, max_positions: Learned(max_positions, width),
        "integers": lambda width, max_positions: LinearPositions(width),
        **dict.fromkeys(
            ("none", "rotary", "alibi", "bucketed", "relative-keys"),
            lambda width, max_positions: NoPositions(),
        ),
    },
    group="regard.positions",
)
"""Functions of the width of states and the largest number of positions."""
RELATIVE_POSITIONS = Registry(
    "regard.models",
    {
        "rotary": lambda heads, width: Rotary(width),
        "alibi": lambda heads, width: Alibi(heads),
        "bucketed": lambda heads, width: BucketedBias(heads),
        "relative-keys": lambda heads, width: RelativeKeys(width),
    },
    group="regard.relative_positions",
)
"""Functions of the number of heads and their width, for names that add no encoding."""
PositionsName = Annotated[str, RegisteredName(POSITIONS)]
UnboundedPositionsName = Annotated[str, RegisteredName(POSITIONS, without=("learned",))]
"""Positions that have no table, for sequences of any length."""


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(AlignConfig):
    """A model's multi-head attention, as run files name it.

    Attributes:
        width: Width of the states.
        heads: Number of heads, a divisor of `width`.
        score: The score of all heads.
        attention_dropout: Dropout of the weights.
    """

    width: Size = 256
    heads: Size = 4
    score: ContentScoreName = "scaled-dot"
    attention_dropout: Share = 0.0

    def __post_init__(self) -> None:
        check_heads(self.width, self.heads)

    def build_heads(
        self,
        max_keys: int,
        *,
        align: AlignChoice | None = None,
        positions: PositionsName = "none",
        memory_width: int | None = None,
        key_value_heads: int | None = None,
    ) -> MultiHead:
        """Build heads that share one score.

        Args:
            max_keys: The largest number of keys.
            align: Their alignment, if another than `self.align`.
            positions: Relative positions; names of absolute ones change nothing.
            memory_width: Width of what they read, if another than `width`.
            key_value_heads: Heads of keys and values, if fewer than heads of queries.
        """
        width = self.width // self.heads
        attend = Attend(
            SCORES[self.score](width, max_keys),
            self.build_align(width, align),
            dropout=self.attention_dropout,
        )
        relative = None
        if positions in RELATIVE_POSITIONS:
            relative = RELATIVE_POSITIONS[positions](self.heads, width)
        return MultiHead(
            self.width,
            self.heads,
            attend=attend,
            positions=relative,
            memory_width=memory_width,
            key_value_heads=key_value_heads,
        )


def make_attend(score: Score, align: Align | None, history: History | None) -> Attend:
    """Return the lookup of a score and an alignment, with a history if there is one."""
    if history is None:
        return Attend(score, align)
    return SequentialAttend(score, history, align)
