"""What a user demands of the answers to a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.constrained_beam import missing

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Demand:
    """`n_best` outputs of each row, each of which begins with the row's prefix and contains all its phrases. There is
    one of both for all rows, or one for each."""

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    phrases: tuple[tuple[Tokens, ...], ...] = ((),)

    def prefixes_of(self, rows: int) -> Sequence[Tokens]:
        """The prefix of each row."""
        return self.prefixes * rows if len(self.prefixes) == 1 else self.prefixes

    def phrases_of(self, rows: int) -> Sequence[tuple[Tokens, ...]]:
        """The phrases of each row."""
        return self.phrases * rows if len(self.phrases) == 1 else self.phrases

    def of(self, rows: Sequence[int]) -> "Demand":
        """The demand of some rows alone."""
        most = max(rows, default=-1) + 1
        prefixes, phrases = self.prefixes_of(most), self.phrases_of(most)
        return Demand(self.n_best, tuple(prefixes[row] for row in rows), tuple(phrases[row] for row in rows))

    def check(self, limits: Sequence[int]) -> None:
        """Raises ValueError where an output of a row's most tokens, END included, is too short for it."""
        rows = len(limits)
        for prefix, phrases, limit in zip(self.prefixes_of(rows), self.phrases_of(rows), limits, strict=True):
            outside = {phrase for phrase in phrases if missing(prefix, phrase)}
            needed = len(prefix) + sum(map(len, outside)) + 1
            if needed <= limit:
                continue
            raise ValueError(
                f"what the output must contain has {needed} tokens with its end, more than its limit of {limit}; "
                "ask for less, or raise length_ratio or length_extra"
            )
