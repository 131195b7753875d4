"""Kinds of attribution maps and roles of attention.

The command line uses this module, so it imports nothing heavy.
"""

from typing import Literal

Kind = Literal["weights", "gradient", "integrated", "norms", "rollout", "effect"]
"""weights: the attention weights.
gradient: the first-order effect of each input on the output's log-probability.
integrated: the mean of such effects on the way from no input to the input.
norms: the norms of the weighted, transformed values.
rollout: the product of the weights of all layers, each with its residual.
effect: what the output's log-probability loses where attention to an input is cut.
"""

KIND_NAMES: dict[Kind, str] = {
    "weights": "attention weights",
    "gradient": "gradient × input",
    "integrated": "integrated gradients",
    "norms": "norms of weight × value",
    "rollout": "attention rollout, all layers multiplied",
    "effect": "effect of cutting the attention to an input",
}
"""The name of each kind in a picture."""

KINDS_WITH_UNIT: frozenset[Kind] = frozenset({"norms", "effect"})
"""Kinds with a unit; the others are shares of a row."""

KIND_VERBS: dict[Kind, tuple[str, str]] = {
    "gradient": ("depends on", "is depended on"),
    "integrated": ("depends on", "is depended on"),
    "effect": ("needs", "is needed"),
}
"""Verbs from row to column and back, for kinds that are no attention."""

WHOLE_MODEL = frozenset(KIND_VERBS)
"""The kinds of the model as a whole, which no single layer or head has."""

GRADIENTS: dict[Kind, int] = {"gradient": 1, "integrated": 32}
"""The kinds of gradients, with the number of steps from no input to the input."""


Role = Literal["cross", "encoder", "decoder"]
"""The attention of an encoder-decoder (Vaswani 2017, section 3.2.3).

cross: the output attends to its source.
encoder: positions of the source attend to each other.
decoder: tokens of the output attend to earlier tokens and themselves.
"""

ROLES: dict[Role, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}
"""The name of each role."""
