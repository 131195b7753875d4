"""What the tokens of one text read of each other, as an alignment of the text with itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import InputError
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
        raise InputError("the run's model carries a state from token to token and reads none again: nothing to draw")
    with record(model, only=names) as found:
        said = call()
    weights = average_of(found.together()[0].double().cpu().numpy(), maps)
    more = weights.shape[-1] - len(tokens)
    weights = np.pad(weights, ((0, 0), (0, max(0, -more))))  # a tape has no place for the last token yet
    keys = [before] * more + list(tokens)
    return said, Alignment(weights, tuple(keys), tuple(tokens))
