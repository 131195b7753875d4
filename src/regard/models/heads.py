"""Heads of attention whose score and alignment a run file names."""

from typing import Annotated

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.config.registry import RegisteredName
from regard.models.aligns import ALIGNS, AlignChoice, MonotonicSettings, StraightThroughSettings, chosen_align
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
    key_value_heads: int | None = None,
) -> MultiHead:
    """Heads with a score and an alignment by name, `width / heads` wide; they share the parameters of both.

    Args:
        window: that of a local alignment.
        longest: the most keys that there are.
        key_value_heads: as those of `MultiHead`.
    """
    attend = named_attend(width // heads, score, align, window=window, longest=longest)
    return MultiHead(width, heads, attend=attend, key_value_heads=key_value_heads)


def named_attend(width: int, score: ContentScoreName, align: AlignChoice, *, window: int, longest: int) -> Attend:
    """The lookup of heads of this width, with a score and an alignment by name; further arguments as `named_heads`."""
    return Attend(SCORES[score](width, longest), chosen_align(align, width, window))
