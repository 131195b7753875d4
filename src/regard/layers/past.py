"""Self-attention that goes on: new positions read those before them, which are kept prepared."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.heads import MultiHead
from regard.masks import Mask, causal
from regard.memory import Memory, selected
from regard.shapes import Rows, States

LEAST_ROOM = 16
"""Positions there is room for, at least, once a past grows."""


@dataclass
class Filled:
    """How many positions of some tensors are written, whoever wrote them."""

    count: int


@dataclass(frozen=True, eq=False)
class Past:
    """The keys and values of what was read, prepared: the first `length` positions of `key` and `value`, `(batch, head,
    room, width)`. `alignment` is what the alignment of those who read it carries on, if anything.

    Without a gradient, more is written into the room behind them, which doubles when it is full, so that a step does
    not copy what came before. Pasts that grew from one share its tensors: where another has written, this one moves.
    """

    key: Tensor
    value: Tensor
    length: int
    filled: Filled = field(repr=False)
    alignment: Any = None

    def memory(self, mask: Mask | None = None) -> Memory:
        """What was read, under a mask."""
        return Memory(self.key[..., : self.length, :], self.value[..., : self.length, :], mask, clean=False)

    def append(self, key: Tensor, value: Tensor) -> "Past":
        """The past with more positions `(batch, head, more, width)` behind it."""
        end = self.length + key.shape[-2]
        if not self.length:
            return Past(key, value, end, Filled(end))
        if torch.is_grad_enabled():
            own = self.memory()
            return Past(torch.cat([own.key, key], -2), torch.cat([own.value, value], -2), end, Filled(end))
        mine = self.filled.count == self.length and end <= self.key.shape[-2]
        past = self if mine else self._moved(max(LEAST_ROOM, 2 * end))
        past.key[..., self.length : end, :] = key
        past.value[..., self.length : end, :] = value
        past.filled.count = end
        return replace(past, length=end)

    def select(self, rows: Rows) -> "Past":
        """The past of the batch rows `rows`, in that order, repeats allowed."""
        key, value = self.key.index_select(0, rows), self.value.index_select(0, rows)
        return Past(key, value, self.length, Filled(self.length), selected(self.alignment, rows))

    def _moved(self, room: int) -> "Past":
        """The same with so much room."""
        key, value = _moved(self.key, self.length, room), _moved(self.value, self.length, room)
        return Past(key, value, self.length, Filled(self.length))


def _moved(tensor: Tensor, length: int, room: int) -> Tensor:
    """The first `length` positions, with room behind them."""
    moved = tensor.new_zeros(*tensor.shape[:-2], room, tensor.shape[-1])
    moved[..., :length, :] = tensor[..., :length, :]
    return moved


def check_growing(attention: MultiHead) -> None:
    """Raises ValueError for self-attention that cannot go on."""
    align = attention.attend.align
    if not align.over_growing:
        raise ValueError(
            f"{type(align).__name__} goes round all keys, so that it cannot read a text that is still being written; "
            "choose another alignment"
        )


def empty_past(attention: MultiHead, like: Tensor) -> Past:
    """Nothing read yet, for as many sequences as the tensor `like (batch, ...)` has rows."""
    nothing = like.new_zeros(like.shape[0], 0, attention.query.in_features)
    prepared = attention.prepare(Memory(nothing, nothing))
    return Past(prepared.key, prepared.value, 0, Filled(0))


def read_past(attention: MultiHead, states: States, past: Past) -> tuple[States, Past]:
    """Each of the positions `states (batch, position, width)`, which follow `past`, reads it, those before itself and
    itself -> what it read, and the past with all of them in it."""
    count = states.shape[1]
    new = attention.prepare(Memory(states, states))
    grown = past.append(new.key, new.value)
    mask = causal(count, grown.length, device=states.device) if count > 1 else None
    read = attention.read(states, grown.memory(mask), past.alignment)
    return read.context, replace(grown, alignment=read.state)
