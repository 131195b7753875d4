"""How many tokens a model hesitates between."""

import math


def perplexity(loss: float) -> float:
    """exp of a mean loss, infinite where that is too large to be told."""
    return math.exp(loss) if loss < 700 else math.inf
