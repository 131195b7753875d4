"""One example of a sequence-to-sequence task, and the three sets a run needs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A source text and the text it should become.

    `place` says where it came from (`file:line`), for error messages. Pairs of one `group` may be scored apart from
    the others; the empty group is the usual one.
    """

    source: str
    target: str
    place: str
    group: str = ""


@dataclass(frozen=True)
class Splits:
    """What a run trains on, chooses its best checkpoint by, and is finally measured on. `test` may be empty."""

    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair] = ()
