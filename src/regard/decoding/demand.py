"""What a user demands of the answers to a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.constrained import missing

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Demand:
    """`n_best` outputs, each of which begins with the tokens of `prefixes`, one for all rows or one for each, and
    contains all `phrases`."""

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    phrases: tuple[Tokens, ...] = ()

    def prefixes_of(self, rows: int) -> Sequence[Tokens]:
        """The prefix of each row."""
        return self.prefixes * rows if len(self.prefixes) == 1 else self.prefixes

    def check(self, limits: Sequence[int]) -> None:
        """Raises ValueError where an output of a row's most tokens, END included, is too short for it."""
        for prefix, limit in zip(self.prefixes_of(len(limits)), limits, strict=True):
            outside = {phrase for phrase in self.phrases if missing(prefix, phrase)}
            needed = len(prefix) + sum(map(len, outside)) + 1
            if needed <= limit:
                continue
            raise ValueError(
                f"what the output must contain has {needed} tokens with its end, more than its limit of {limit}; "
                "ask for less, or raise length_ratio or length_extra"
            )
