"""Heads of attention whose score and alignment a run file names."""

from typing import Annotated

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.positions import RelativePositions
from regard.config.registry import RegisteredName
from regard.models.aligns import ALIGNS, AlignChoice, MonotonicSettings, StraightThroughSettings, chosen_align
from regard.models.positions import PositionsName, relative_positions
from regard.models.scores import SCORES, ContentScoreName

SelfAlignName = Annotated[str, RegisteredName(ALIGNS, without=("hard",))]
SelfAlignChoice = SelfAlignName | StraightThroughSettings | MonotonicSettings
"""The alignments of self-attention. Hard ones learn by REINFORCE, which is computed for reads of a source only."""


def named_heads(
    width: int,
    heads: int,
    score: ContentScoreName,
    align: AlignChoice = "softmax",
    *,
    window: int,
    longest: int,
    positions: PositionsName = "none",
) -> MultiHead:
    """Heads with a score, an alignment and relative positions by name, `width / heads` wide; they share the parameters
    of all three.

    Args:
        window: that of a local alignment.
        longest: the most keys that there are.
        positions: names of absolute positions change nothing here.
    """
    relative = relative_positions(positions, heads, width // heads)
    attend = named_attend(width // heads, score, align, window=window, longest=longest, positions=relative)
    return MultiHead(width, heads, attend=attend)


def named_attend(
    width: int,
    score: ContentScoreName,
    align: AlignChoice,
    *,
    window: int,
    longest: int,
    positions: RelativePositions | None = None,
) -> Attend:
    """The lookup of heads of this width, with a score and an alignment by name; further arguments as `named_heads`."""
    return Attend(SCORES[score](width, longest), chosen_align(align, width, window), positions=positions)
