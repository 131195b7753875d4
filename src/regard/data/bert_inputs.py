"""One text or two as one row of tokens, with the marks that BERT reads (Devlin 2019, section 3)."""

from collections.abc import Sequence

from torch import Tensor

from regard.data.batch import padded
from regard.shapes import Int
from regard.text.special import END, START

Ids = list[int]


def marked(first: Sequence[int], second: Sequence[int] | None = None) -> tuple[Ids, Ids]:
    """START A END, or START A END B END, and the segment of each token: 0, and from B on 1."""
    ids = [START, *first, END]
    segments = [0] * len(ids)
    if second is None:
        return ids, segments
    return [*ids, *second, END], segments + [1] * (len(second) + 1)


def marked_rows(
    texts: Sequence[Sequence[Ids]],
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"], Int[Tensor, "batch position"]]:
    """One text or two a row with its marks: tokens, padded on the right, how many each row has, and their segments."""
    rows = [marked(*each) for each in texts]
    tokens, lengths = padded([ids for ids, _ in rows])
    segments, _ = padded([parts for _, parts in rows])
    return tokens, lengths, segments
