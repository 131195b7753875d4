"""What a user demands of the answers to a text."""

from dataclasses import dataclass

from regard.decoding.constrained import missing

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Demand:
    """`n_best` outputs, each of which begins with the tokens of `prefix` and contains all `phrases`."""

    n_best: int = 1
    prefix: Tokens = ()
    phrases: tuple[Tokens, ...] = ()

    def check(self, limit: int) -> None:
        """Raises ValueError where an output of at most `limit` tokens, END included, is too short for it."""
        outside = {phrase for phrase in self.phrases if missing(self.prefix, phrase)}
        needed = len(self.prefix) + sum(map(len, outside)) + 1
        if needed > limit:
            raise ValueError(
                f"what the output must contain has {needed} tokens with its end, more than its limit of {limit}; "
                "ask for less, or raise length_ratio or length_extra"
            )
