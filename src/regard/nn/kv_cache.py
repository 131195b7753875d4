"""Self-attention that goes on: new positions read those before them, which are kept prepared."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, causal
from regard.attention.memory import Memory, selected
from regard.shapes import Rows, States

LEAST_ROOM = 16
"""Positions there is room for, at least, once a past grows."""


@dataclass
class WriteCounter:
    """How many positions of some tensors are written, whoever wrote them."""

    count: int


@dataclass(frozen=True, eq=False)
class Past:
    """The keys and values of what was read, prepared: the first `length` positions of `key` and `value`, `(row, [head,]
    room, width)`. `alignment` is what the alignment of those who read it carries on, if anything.

    Without a gradient, more is written into the room behind them, which doubles when it is full, so that a step does
    not copy what came before. Pasts that grew from one share its tensors: where another has written, this one moves.
    Nor does choosing rows copy anything: `rows (batch, chosen)` are then the rows of the tensors in which the first
    positions of each text lie; what follows lies in the text's own row.
    """

    key: Tensor
    value: Tensor
    length: int
    filled: WriteCounter = field(repr=False)
    alignment: Any = None
    rows: Tensor | None = None

    def memory(self, mask: Mask | None = None) -> Memory:
        """What was read, under a mask."""
        return Memory(self._read(self.key), self._read(self.value), mask, clean=False)

    def append(self, key: Tensor, value: Tensor) -> "Past":
        """The past with more positions `(batch, [head,] more, width)` behind it."""
        more = key.shape[-2]
        end = self.length + more
        if not self.length:
            return Past(key, value, end, WriteCounter(end))
        if torch.is_grad_enabled():
            own = self.memory()
            return Past(torch.cat([own.key, key], -2), torch.cat([own.value, value], -2), end, WriteCounter(end))
        past = self.with_room(more) if self.rows is None else self._moved(more)  # once, not whenever it is read
        past.key[: len(key), ..., self.length : end, :] = key
        past.value[: len(key), ..., self.length : end, :] = value
        return past.filled_up(more)

    def with_room(self, more: int) -> "Past":
        """The same with room for so many positions more behind it, into which nobody else writes."""
        rows, *_, room, _ = self.key.shape
        mine = self.filled.count == self.length and (self.rows is None or len(self.rows) <= rows)
        return self if mine and self.length + more <= room else self._moved(more)

    def filled_up(self, more: int) -> "Past":
        """The past with so many positions more, once they are written into its room."""
        self.filled.count = self.length + more
        return replace(self, length=self.filled.count)

    def select(self, rows: Rows) -> "Past":
        """The past of the batch rows `rows`, in that order, repeats allowed."""
        chosen = self._rows().index_select(0, rows)
        return replace(self, rows=chosen, alignment=selected(self.alignment, rows))

    def _rows(self) -> Tensor:
        """Of every position that was read the row in which it lies, `(batch, length)`."""
        known = 0 if self.rows is None else self.rows.shape[1]
        own = torch.arange(len(self.key if self.rows is None else self.rows), device=self.key.device)
        own = own[:, None].expand(-1, self.length - known)
        return own if self.rows is None else torch.cat([self.rows, own], 1)

    def _read(self, tensor: Tensor) -> Tensor:
        """The positions that were read, `(batch, [head,] length, width)`."""
        if self.rows is None:
            return tensor[..., : self.length, :]
        places = torch.arange(self.length, device=tensor.device)
        return tensor.movedim(-2, 1)[self._rows(), places].movedim(1, -2)

    def _moved(self, more: int) -> "Past":
        """The same in tensors of its own, with room."""
        room = max(LEAST_ROOM, 2 * (self.length + more))
        key, value = (_moved(self._read(each), room) for each in (self.key, self.value))
        return Past(key, value, self.length, WriteCounter(self.length), self.alignment)


def _moved(tensor: Tensor, room: int) -> Tensor:
    """The positions, with room behind them."""
    moved = tensor.new_empty(*tensor.shape[:-2], room, tensor.shape[-1])
    moved[..., : tensor.shape[-2], :] = tensor
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
    return Past(prepared.key, prepared.value, 0, WriteCounter(0))


def read_past(attention: MultiHead, states: States, past: Past) -> tuple[States, Past]:
    """Each of the positions `states (batch, position, width)`, which follow `past`, reads it, those before itself and
    itself -> what it read, and the past with all of them in it."""
    count = states.shape[1]
    new = attention.prepare(Memory(states, states))
    grown = past.append(new.key, new.value)
    mask = causal(count, grown.length, device=states.device) if count > 1 else None
    read = attention.read(states, grown.memory(mask), past.alignment)
    return read.context, replace(grown, alignment=read.state)
