"""Texts that end before a stop sequence, piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass

BROKEN = "\N{REPLACEMENT CHARACTER}"
"""How a character looks whose bytes have not all come."""


@dataclass
class Cut:
    """Adds what is new of a growing text, without the first of some stop sequences and what follows it; characters that
    may belong to one, or whose bytes have not all come, wait."""

    stops: Sequence[str]
    sent: int = 0
    stopped: bool = False

    def add(self, text: str, *, last: bool) -> str:
        """The whole text so far -> what is new of it."""
        ends = [
            place for place in (text.find(each) for each in self.stops) if place >= 0
        ]
        if ends:
            self.stopped, text = True, text[: min(ends)]
        elif not last:
            text = text.rstrip(BROKEN)
            text = text[
                : max(
                    0,
                    len(text) - max((len(each) - 1 for each in self.stops), default=0),
                )
            ]
        new = text[self.sent :]
        self.sent = max(self.sent, len(text))
        return new
