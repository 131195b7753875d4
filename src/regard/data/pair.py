"""One example of a sequence-to-sequence task."""

from dataclasses import dataclass

from regard.maps.links import Links


@dataclass(frozen=True)
class Pair:
    """A source text and its target text.

    place: its origin (`file:line`) for error messages.
    group: a name under which pairs are scored separately; the empty group is the default.
    links: the word alignment, if known.
    others: further correct outputs, which count in scores only.
    """

    source: str
    target: str
    place: str
    group: str = ""
    links: Links | None = None
    others: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """All correct outputs, the target first."""
        return (self.target, *self.others)
