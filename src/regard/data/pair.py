"""One example of a sequence-to-sequence task, and the three sets a run needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.maps.links import Links


@dataclass(frozen=True)
class Pair:
    """A source text and the text it should become.

    `place` says where it came from (`file:line`), for error messages. Pairs of one `group` may be scored apart from
    the others; the empty group is the usual one. `links` are its word alignment, where that is known.
    """

    source: str
    target: str
    place: str
    group: str = ""
    links: Links | None = None


@dataclass(frozen=True)
class Splits:
    """What a run trains on, chooses its best checkpoint by, and is finally measured on. `test` may be empty."""

    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair] = ()
