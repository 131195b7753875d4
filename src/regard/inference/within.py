"""What the tokens of one text read of each other, as an alignment of the text with itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.errors import InputError
from regard.inference.heads import NOTHING_READ, placed
from regard.maps.alignment import Alignment
from regard.maps.averages import average_of
from regard.recording import record


@dataclass(frozen=True)
class Reading:
    """What a run says of a text, and which token of the text read which."""

    answer: str
    attention: Alignment


@torch.no_grad()
def within(
    model: nn.Module,
    names: str | tuple[str, ...] | None,
    tokens: Sequence[str],
    call: Callable[[], Any],
    maps: Sequence[int] | None = None,
    *,
    before: str = "",
) -> tuple[Any, Alignment]:
    """What `call` gives, which reads the tokens of one text with the model, and the mean of the weights of all layers
    and heads, or of those whose numbers, layer x heads + head, are given. `names` are the modules that read, as
    `record` takes them; `before` is what a key stands for that has its place before the first token.

    Raises:
        InputError: the model's tokens do not read each other, or it has no such map.
    """
    if names is None:
        raise InputError(NOTHING_READ)
    with record(model, only=names) as found:
        said = call()
    weights = placed(average_of(found.together()[0].double().cpu().numpy(), maps), len(tokens))
    keys = [before] * (weights.shape[-1] - len(tokens)) + list(tokens)
    return said, Alignment(weights, tuple(keys), tuple(tokens))
