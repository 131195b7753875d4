"""One or two texts as one row of tokens with BERT's special tokens (Devlin 2019, section 3)."""

from collections.abc import Sequence

from torch import Tensor

from regard.data.batching import padded
from regard.shapes import Int
from regard.text.special import SpecialTokens

Ids = list[int]


def bert_input(special: SpecialTokens, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[Ids, Ids]:
    """[start] A [end], or [start] A [end] B [end], and the segment of each token: 0, and from B on 1."""
    ids = [special.start, *first, special.end]
    segments = [0] * len(ids)
    if second is None:
        return ids, segments
    return [*ids, *second, special.end], segments + [1] * (len(second) + 1)


def bert_inputs(
    special: SpecialTokens, texts: Sequence[Sequence[Ids]]
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"], Int[Tensor, "batch position"]]:
    """One text or two a row: tokens, padded on the right, how many each row has, and their segments."""
    rows = [bert_input(special, *each) for each in texts]
    tokens, lengths = padded([ids for ids, _ in rows])
    segments, _ = padded([parts for _, parts in rows])
    return tokens, lengths, segments
