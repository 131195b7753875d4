"""Heads of attention whose score and alignment a run file names."""

from typing import Annotated, Protocol, runtime_checkable

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.config.registry import RegisteredName
from regard.models.aligns import (
    ALIGNS,
    AlignChoice,
    MonotonicSettings,
    StraightThroughSettings,
    chosen_align,
)
from regard.models.positions import PositionsName, relative_positions
from regard.models.scores import SCORES, ContentScoreName

SelfAlignName = Annotated[str, RegisteredName(ALIGNS, without=("hard",))]
SelfAlignChoice = SelfAlignName | StraightThroughSettings | MonotonicSettings
"""The alignments of self-attention. Hard ones learn by REINFORCE, which is computed for reads of a source only."""


@runtime_checkable
class HeadSizes(Protocol):
    """The sizes of heads in a model's configuration, with the names of their score and alignment. `window` is that of a
    local alignment, `attention_dropout` the dropout of weights."""

    @property
    def width(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def score(self) -> ContentScoreName: ...

    @property
    def align(self) -> AlignChoice: ...

    @property
    def window(self) -> int: ...

    @property
    def attention_dropout(self) -> float: ...


def named_heads(
    config: HeadSizes, longest: int, positions: PositionsName = "none"
) -> MultiHead:
    """Heads with a score, an alignment and relative positions by name, `width / heads` wide; they share the parameters
    of all three.

    Args:
        longest: the most keys that there are.
        positions: names of absolute positions change nothing here.
    """
    width = config.width // config.heads
    relative = relative_positions(positions, config.heads, width)
    attend = named_attend(
        width, config.score, config.align, window=config.window, longest=longest
    )
    attend.dropout = config.attention_dropout
    return MultiHead(config.width, config.heads, attend=attend, positions=relative)


def named_attend(
    width: int,
    score: ContentScoreName,
    align: AlignChoice,
    *,
    window: int,
    longest: int,
) -> Attend:
    """The lookup of heads of this width over at most `longest` keys, with a score and an alignment by name; `window` is
    that of a local alignment."""
    return Attend(SCORES[score](width, longest), chosen_align(align, width, window))
