"""What each side of an encoder-decoder reads of itself: the source's positions each other, the output's tokens those
before them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from regard.attribution.kinds import ROLES, Kind, Role
from regard.attribution.self_attention import within
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.nn.encoder_decoder import EncoderDecoder


def read_itself(
    model: EncoderDecoder,
    role: Role,
    pair: tuple[list[int], list[int]],
    texts: tuple[Side, Side],
    maps: Sequence[int] | None = None,
    kind: Kind = "weights",
) -> tuple[Lookups, Alignment]:
    """What the encoder or the decoder reads of itself while the model is made to write a given output, in every layer
    and head and as one, as `within` gives it. The texts are what each is given: the source
    with the end last, the output with the start first.

    Raises:
        InputError: as `within_part`.
    """
    batch = model.collate([pair]).to(next(model.parameters()).device)
    part, text = {"encoder": (model.encoder, texts[0]), "decoder": (model.decoder, texts[1])}[role]
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
    call: Callable[[], Any],
    maps: Sequence[int] | None,
    kind: Kind,
) -> tuple[Lookups, Alignment]:
    """The same of a module and the names of what reads in it, while `call` runs the model.

    Raises:
        InputError: the module's positions do not read each other, it has no such map, or a gradient is asked for, which
            is that of the whole model.
    """
    if names is None:
        raise InputError(f"the {role} of this run's model has no self-attention, so there is none to draw")
    if kind == "gradient":
        raise InputError(f"a gradient is that of the whole model, not of its {ROLES[role]}; choose weights or norms")
    _, lookups, attention = within(part, names, text, call, maps, kind=kind)
    return replace(lookups, name=f"{ROLES[role]}, {kind}" if kind == "rollout" else ROLES[role]), attention
