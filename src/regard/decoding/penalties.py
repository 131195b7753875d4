"""How a beam compares hypotheses of different lengths."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LengthPenalty:
    """Divides a log-probability by ((5 + length) / 6)^alpha (Wu 2016, equation 14); alpha 0 leaves it alone.

    The length counts END.
    """

    alpha: float = 0.0

    def __call__(self, log_probability: float, length: int) -> float:
        return log_probability / ((5 + length) / 6) ** self.alpha
