"""What can be shown of what an output depended on. This file imports nothing heavy: the command line names them too."""

from typing import Literal

Kind = Literal["weights", "gradient", "norms", "rollout"]
"""weights: how much of each value a lookup took.
gradient: how much the log-probability of what was said would change with each input, to first order: gradient x input.
norms: the lengths of the vectors that these amounts of the values write.
rollout: the weights of all layers, each with its residual, one after the other."""
