"""Self-attention that goes on: new positions read those before them, which are kept prepared."""

from dataclasses import replace

from torch import Tensor

from regard.heads import MultiHead
from regard.masks import causal
from regard.memory import Memory
from regard.shapes import States


def empty_past(attention: MultiHead, like: Tensor) -> Memory:
    """Nothing read yet, for as many sequences as the tensor `like (batch, ...)` has rows."""
    nothing = like.new_zeros(len(like), 0, attention.query.in_features)
    return attention.prepare(Memory(nothing, nothing))


def read_past(attention: MultiHead, states: States, past: Memory) -> tuple[States, Memory]:
    """Each of the positions `states (batch, position, width)`, which follow `past`, reads it, those before itself and
    itself -> what it read, and the past with all of them in it."""
    count = states.shape[1]
    new = attention.prepare(Memory(states, states))
    grown = past.append(new.key, new.value) if past.key.shape[-2] else new
    mask = causal(count, grown.key.shape[-2], device=states.device) if count > 1 else None
    return attention.read(states, replace(grown, mask=mask, clean=False)).context, grown
