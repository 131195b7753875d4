"""What can be shown of what an output depended on. This file imports nothing heavy: the command line names them too."""

from typing import Literal

Kind = Literal["weights", "gradient", "norms", "rollout"]
"""weights: how much of each value a lookup took.
gradient: how much the log-probability of what was said would change with each input, to first order: gradient x input.
norms: the lengths of the vectors that these amounts of the values write.
rollout: the weights of all layers, each with its residual, one after the other."""

AMOUNTS: frozenset[Kind] = frozenset({"norms"})
"""Kinds that have a unit; those of the others are shares of a row."""

VERBS: dict[Kind, tuple[str, str]] = {"gradient": ("depends on", "is depended on")}
"""What a row of a kind does to a column, and what is done to that, where it does not read it."""

Role = Literal["cross", "encoder", "decoder"]
"""Which attention of an encoder-decoder (Vaswani 2017, section 3.2.3).
cross: what the output reads of its source.
encoder: what the positions of the source read of each other.
decoder: what the tokens of the output read of those before them, and of themselves."""

ROLES: dict[Role, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}
"""What each is called."""
