"""Which kinds of maps there can be of a model."""

from collections.abc import Sequence

from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.record import named
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.nn.encoder_decoder import EncoderDecoder

LAYERED: tuple[Kind, ...] = ("weights", "gradient", "norms", "rollout")
"""Of layers of self-attention with residuals."""
PLAIN: tuple[Kind, ...] = ("weights", "gradient", "norms")
"""Of other lookups."""
BLIND: tuple[Kind, ...] = ("gradient",)
"""Of what attends to nothing."""


def kinds_of(model: EncoderDecoder) -> tuple[Kind, ...]:
    """What an output may have depended on of its source."""
    if model.decoder.source_attention is None:
        return BLIND
    return PLAIN if model.encoder.self_attention is None else LAYERED


def kinds_within(model: nn.Module, names: str | tuple[str, ...] | None) -> tuple[Kind, ...]:
    """What the tokens of one text may be read by, `names` being the modules that read, as `record` takes them."""
    if names is None:
        return BLIND
    chosen = named(model, names)
    heads = any(isinstance(each, MultiHead) for each in model.modules() if id(each) in chosen)
    return LAYERED if heads else PLAIN


def check_kinds(kinds: Sequence[Kind], possible: Sequence[Kind]) -> None:
    """Raises InputError for one that there is not."""
    for kind in kinds:
        if kind not in possible:
            raise InputError(f"there is no {kind} of this run's model; it has {', '.join(possible)}")
