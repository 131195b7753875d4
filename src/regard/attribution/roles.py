"""Self-attention within each side of an encoder-decoder: of the source, and of the output."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from regard.attribution.kinds import ROLES, Kind, Role
from regard.attribution.self_attention import attribute_within
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.nn.encoder_decoder import EncoderDecoder


def attribute_self_attention(
    model: EncoderDecoder,
    role: Role,
    pair: tuple[list[int], list[int]],
    texts: tuple[Side, Side],
    maps: Sequence[int] | None = None,
    kind: Kind = "weights",
) -> tuple[Lookups, Alignment]:
    """Self-attention of the encoder or the decoder by forced decoding of an output: every layer and head, and one
    aggregated map, as in `within`. The texts are the inputs of both sides: the source with its end, the output with its
    start.

    Raises:
        InputError: as `within_part`.
    """
    batch = model.collate([pair]).to(next(model.parameters()).device)
    part, text = {
        "encoder": (model.encoder, texts[0]),
        "decoder": (model.decoder, texts[1]),
    }[role]
    return within_part(
        part,
        part.self_attention,
        role,
        text,
        lambda: model(batch.source, batch.source_lengths, batch.target_in),
        maps,
        kind,
    )


def within_part(
    part: nn.Module,
    names: str | tuple[str, ...] | None,
    role: Role,
    text: Side,
    call: Callable[[], object],
    maps: Sequence[int] | None,
    kind: Kind,
) -> tuple[Lookups, Alignment]:
    """Self-attention of one module while `call` runs the model. `names` are the modules that attend, as patterns for
    `record`.

    Raises:
        InputError: the module has no self-attention or no such map, or the kind is gradient, which belongs to the whole
            model.
    """
    if names is None:
        raise InputError(
            f"the {role} of this run's model has no self-attention, so there is none to draw"
        )
    if kind == "gradient":
        raise InputError(
            f"a gradient is of the whole model, not of its {ROLES[role]}; choose weights or norms"
        )
    lookups, attention = attribute_within(part, names, text, call, maps, kind=kind)
    return replace(
        lookups, name=f"{ROLES[role]}, {kind}" if kind == "rollout" else ROLES[role]
    ), attention
