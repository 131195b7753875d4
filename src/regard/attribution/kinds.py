"""Kinds of attribution maps and roles of attention. This module imports nothing heavy, because the command line uses
it."""

from typing import Literal

Kind = Literal["weights", "gradient", "norms", "rollout"]
"""weights: the attention weights.
gradient: the first-order effect of each input on the output's log-probability, gradient x input.
norms: the norms of the weighted, transformed values.
rollout: the product of the weights of all layers, each with its residual.
"""

KIND_NAMES: dict[Kind, str] = {
    "weights": "attention weights",
    "gradient": "gradient × input",
    "norms": "norms of weight × value",
    "rollout": "attention rollout, all layers multiplied",
}
"""The name of each kind in a picture."""

AMOUNTS: frozenset[Kind] = frozenset({"norms"})
"""Kinds with a unit; the others are shares of a row."""

VERBS: dict[Kind, tuple[str, str]] = {"gradient": ("depends on", "is depended on")}
"""Verbs from row to column and from column to row, for kinds other than reading."""

Role = Literal["cross", "encoder", "decoder"]
"""The attention of an encoder-decoder (Vaswani 2017, section 3.2.3).

cross: the output reads its source.
encoder: positions of the source read each other.
decoder: tokens of the output read earlier tokens and themselves.
"""

ROLES: dict[Role, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}
"""The name of each role."""
