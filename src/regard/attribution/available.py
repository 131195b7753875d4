"""The kinds of maps that a model supports."""

from collections.abc import Sequence

from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.record import named
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.nn.encoder_decoder import EncoderDecoder

LAYERED: tuple[Kind, ...] = ("weights", "gradient", "norms", "rollout")
"""Kinds for layers of self-attention with residuals."""
PLAIN: tuple[Kind, ...] = ("weights", "gradient", "norms")
"""Kinds for other lookups."""
BLIND: tuple[Kind, ...] = ("gradient",)
"""Kinds for models without attention."""


def kinds_of(model: EncoderDecoder) -> tuple[Kind, ...]:
    """The kinds of maps from an output to its source."""
    if model.decoder.source_attention is None:
        return BLIND
    return PLAIN if model.encoder.self_attention is None else LAYERED


def kinds_within(
    model: nn.Module, names: str | tuple[str, ...] | None
) -> tuple[Kind, ...]:
    """The kinds of maps between the tokens of one text. `names` are the modules that attend, as patterns for
    `record`."""
    if names is None:
        return BLIND
    chosen = named(model, names)
    heads = any(
        isinstance(each, MultiHead) for each in model.modules() if id(each) in chosen
    )
    return LAYERED if heads else PLAIN


def check_kinds(kinds: Sequence[Kind], possible: Sequence[Kind]) -> None:
    """Raises InputError for a kind that the model does not support."""
    for kind in kinds:
        if kind not in possible:
            raise InputError(
                f"this run's model has no {kind}; it has {', '.join(possible)}"
            )
