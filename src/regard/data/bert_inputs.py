"""One or two texts as one row of tokens with BERT's special tokens (Devlin 2019, section 3)."""

from collections.abc import Sequence

from torch import Tensor

from regard.data.batching import padded
from regard.shapes import Int
from regard.text.special import SpecialTokens

Ids = list[int]


def bert_input(
    special: SpecialTokens, first: Sequence[int], second: Sequence[int] | None = None
) -> tuple[Ids, Ids]:
    """[start] A [end], or [start] A [end] B [end], and the segment of each token: 0, and from B on 1. A vocabulary may
    have two end tokens `between` texts."""
    ids = [special.start, *first, special.end]
    if second is None:
        return ids, [0] * len(ids)
    ids += [special.end] * (special.between - 1)
    return [*ids, *second, special.end], [0] * len(ids) + [1] * (len(second) + 1)


def marks(special: SpecialTokens, texts: int) -> int:
    """The number of special tokens in a row of one text or two."""
    return 2 if texts == 1 else 2 + special.between


def bert_inputs(
    special: SpecialTokens, texts: Sequence[Sequence[Ids]]
) -> tuple[
    Int[Tensor, "batch position"], Int[Tensor, " batch"], Int[Tensor, "batch position"]
]:
    """One text or two a row: tokens, padded on the right, how many each row has, and their segments."""
    rows = [bert_input(special, *each) for each in texts]
    tokens, lengths = padded([ids for ids, _ in rows])
    segments, _ = padded([parts for _, parts in rows])
    return tokens, lengths, segments
