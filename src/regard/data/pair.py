"""One example of a sequence-to-sequence task."""

from dataclasses import dataclass

from regard.maps.links import Links


@dataclass(frozen=True)
class Pair:
    """A source text and the text it should become.

    `place` says where it came from (`file:line`), for error messages. Pairs of one `group` may be scored apart from
    the others; the empty group is the usual one. `links` are its word alignment, where that is known. `others` are
    outputs that would be as right as the target; they count in scores alone.
    """

    source: str
    target: str
    place: str
    group: str = ""
    links: Links | None = None
    others: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """All outputs that are right, the target first."""
        return (self.target, *self.others)
