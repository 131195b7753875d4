"""Perplexity."""

import math


def perplexity(loss: float) -> float:
    """exp of a mean loss, infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf
