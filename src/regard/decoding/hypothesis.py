"""What a search finds and how it is scored, without PyTorch."""

from dataclasses import dataclass

from regard.errors import RunError


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without start and end, its score, and whether it ended with END or at the length limit.

    The score is a log-probability, with the penalties of the search; higher is better.
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool


@dataclass(frozen=True)
class LengthPenalty:
    """Divide a log-probability by ((offset + length) / (offset + 1))^alpha.

    Offset 0 divides by length^alpha, alpha 0 by 1. See Wu 2016, equation 14, with
    offset 5. The length counts END.
    """

    alpha: float = 0.0
    offset: float = 5.0

    def __call__(self, log_probability: float, length: int) -> float:
        """Return the score of a text of `length` tokens, at least 1."""
        relative = (self.offset + length) / (self.offset + 1)
        return log_probability / relative**self.alpha


class NoTokenError(RunError, ValueError):
    """The logits of a step allow no token."""

    def __init__(self) -> None:
        super().__init__(
            "no token is possible: all logits of a row but those of padding and start are minus infinity, "
            "or one is infinite or NaN"
        )
