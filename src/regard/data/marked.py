"""One text or two as one row of tokens, with the marks that BERT reads (Devlin 2019, section 3)."""

from collections.abc import Sequence

from regard.text.special import END, START

Ids = list[int]


def marked(first: Sequence[int], second: Sequence[int] | None = None) -> tuple[Ids, Ids]:
    """START A END, or START A END B END, and the segment of each token: 0, and from B on 1."""
    ids = [START, *first, END]
    segments = [0] * len(ids)
    if second is None:
        return ids, segments
    return [*ids, *second, END], segments + [1] * (len(second) + 1)
