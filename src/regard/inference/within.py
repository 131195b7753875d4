"""What the tokens of one text read of each other, as an alignment of the text with itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inference.gradients import check_no_maps, contributions, embeddings
from regard.inference.joining import JOININGS
from regard.inference.kinds import Kind
from regard.maps.alignment import Alignment
from regard.recording import record
from regard.shapes import Float


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
    kind: Kind = "weights",
    before: str = "",
) -> tuple[Any, Alignment]:
    """What `call` gives, which reads the tokens of one text with the model, and what they read of each other: a `kind`
    of `JOININGS`, of all layers and heads, or of those whose numbers, layer x heads + head, are given. `names` are the
    modules that read, as `record` takes them; `before` is what a key stands for that has its place before the first
    token.

    Raises:
        InputError: the model's tokens do not read each other, or it has no such map, or none that make a rollout.
    """
    if names is None:
        raise InputError("the run's model carries a state from token to token and reads none again: nothing to draw")
    joining = JOININGS[kind]
    with record(model, only=names, measure=joining.measure(model)) as found:
        said = call()
    weights = joining.joined(found, maps)
    more = weights.shape[-1] - len(tokens)
    weights = np.pad(weights, ((0, 0), (0, max(0, -more))))  # a tape has no place for the last token yet
    keys = [before] * more + list(tokens)
    return said, Alignment(weights, tuple(keys), tuple(tokens))


def contributed(
    model: nn.Module,
    tokens: Sequence[str],
    targets: Sequence[str],
    scores: Callable[[], Float[Tensor, " target"]],
    maps: Sequence[int] | None = None,
) -> Alignment:
    """How much each of the tokens of one text, which the model embeds at its first call, contributes to each of some
    scores: the shares of gradient x input. Raises InputError where maps are chosen."""
    check_no_maps(maps)
    first = contributions(embeddings(model), scores)[0]
    return Alignment(first.shares(), tuple(tokens), tuple(targets))
