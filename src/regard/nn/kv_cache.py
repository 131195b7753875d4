"""The KV cache of causal self-attention: new positions read the prepared keys and values of earlier ones. Layers on top
of each other have one each."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, window
from regard.attention.masks import prefix as prefix_mask
from regard.attention.memory import Memory, selected
from regard.attention.observer import current
from regard.errors import InputError
from regard.nn.decoders.protocol import State
from regard.shapes import Lengths, Rows, States

LEAST_ROOM = 16
"""Fewest positions to allocate when a past grows."""


@dataclass
class WriteCounter:
    """Number of positions written in tensors that several pasts may share."""

    count: int


@dataclass(frozen=True, eq=False)
class Past:
    """Prepared keys and values of the positions read so far: the first `length` positions of `key` and `value`, `(row,
    [head,] room, width)`. `alignment` is the alignment's state, if any.

    Without a gradient, new positions are written into the room behind them, and the room doubles when it is full: a
    step does not copy earlier positions. Pasts that grew from one share its tensors; if another past has written there,
    this one moves to tensors of its own. Selecting rows copies nothing either: `rows (batch, chosen)` are then the rows
    of the tensors that hold the first positions of each text. Later positions are in the text's own row.

    Of a sliding window, `forgotten` positions behind the first `sinks` are no longer stored; places stay absolute. Of a
    past without positions, `prefix (batch,)` are the numbers of the first positions of each text that will read each
    other in both directions.
    """

    key: Tensor
    value: Tensor
    length: int
    filled: WriteCounter = field(repr=False)
    alignment: Any = None
    rows: Tensor | None = None
    forgotten: int = 0
    sinks: int = 0
    prefix: Tensor | None = None

    @property
    def position(self) -> int:
        """Number of positions read so far, the forgotten ones included."""
        return self.length + self.forgotten

    def memory(self, mask: Mask | None = None) -> Memory:
        """The stored positions, under a mask."""
        places = None
        if self.forgotten:
            stored = torch.arange(self.length, device=self.key.device)
            places = torch.where(stored < self.sinks, stored, stored + self.forgotten)
        return Memory(
            self._read(self.key),
            self._read(self.value),
            mask,
            places=places,
            clean=False,
        )

    def forget(self, before: int, sinks: int) -> "Past":
        """The past without the positions that no later one reads, but the last `before` and the first `sinks`. They are
        copied once there are twice as many, so that most steps copy nothing, and memory is bounded."""
        kept = before + sinks
        if self.length <= 2 * kept + LEAST_ROOM:
            return self
        first = self.length - before
        key, value = (
            torch.cat([each[..., :sinks, :], each[..., first:, :]], -2)
            for each in (self._read(self.key), self._read(self.value))
        )
        forgotten = self.forgotten + self.length - kept
        return Past(
            key,
            value,
            kept,
            WriteCounter(kept),
            self.alignment,
            forgotten=forgotten,
            sinks=sinks,
        )

    def append(self, key: Tensor, value: Tensor) -> "Past":
        """The past with more positions `(batch, [head,] more, width)` at its end."""
        more = key.shape[-2]
        end = self.length + more
        if not self.length:
            return Past(key, value, end, WriteCounter(end))
        if torch.is_grad_enabled():
            own = self.memory()
            key, value = (
                torch.cat([own.key, key], -2),
                torch.cat([own.value, value], -2),
            )
            return replace(
                self,
                key=key,
                value=value,
                length=end,
                filled=WriteCounter(end),
                rows=None,
            )
        past = (
            self.with_room(more) if self.rows is None else self._moved(more)
        )  # copy once here, not at each read
        past.key[: len(key), ..., self.length : end, :] = key
        past.value[: len(key), ..., self.length : end, :] = value
        return past.filled_up(more)

    def with_room(self, more: int) -> "Past":
        """The same past with room for `more` positions that no other past writes to."""
        rows, *_, room, _ = self.key.shape
        mine = self.filled.count == self.length and (
            self.rows is None or len(self.rows) <= rows
        )
        return self if mine and self.length + more <= room else self._moved(more)

    def filled_up(self, more: int) -> "Past":
        """The past including `more` positions that were written into its room."""
        self.filled.count = self.length + more
        return replace(self, length=self.filled.count)

    def select(self, rows: Rows) -> "Past":
        """The past of the batch rows `rows`, in this order; rows may repeat."""
        chosen = self._rows().index_select(0, rows)
        return replace(
            self,
            rows=chosen,
            alignment=selected(self.alignment, rows),
            prefix=selected(self.prefix, rows),
        )

    def _rows(self) -> Tensor:
        """The row of the tensors that holds each position, `(batch, length)`."""
        known = 0 if self.rows is None else self.rows.shape[1]
        own = torch.arange(
            len(self.key if self.rows is None else self.rows), device=self.key.device
        )
        own = own[:, None].expand(-1, self.length - known)
        return own if self.rows is None else torch.cat([self.rows, own], 1)

    def _read(self, tensor: Tensor) -> Tensor:
        """The positions read so far, `(batch, [head,] length, width)`."""
        if self.rows is None:
            return tensor[..., : self.length, :]
        places = torch.arange(self.length, device=tensor.device)
        return tensor.movedim(-2, 1)[self._rows(), places].movedim(1, -2)

    def _moved(self, more: int) -> "Past":
        """The same past in tensors of its own, with room."""
        room = max(LEAST_ROOM, 2 * (self.length + more))
        key, value = (_moved(self._read(each), room) for each in (self.key, self.value))
        return replace(
            self, key=key, value=value, filled=WriteCounter(self.length), rows=None
        )


def _moved(tensor: Tensor, room: int) -> Tensor:
    """Copy the positions into a tensor with room behind them."""
    moved = tensor.new_empty(*tensor.shape[:-2], room, tensor.shape[-1])
    moved[..., : tensor.shape[-2], :] = tensor
    return moved


def check_growing(attention: MultiHead) -> None:
    """Raise InputError for self-attention whose alignment cannot read a growing sequence."""
    align = attention.attend.align
    if not align.over_growing:
        raise InputError(
            f"{type(align).__name__} depends on masked keys, so it cannot read a sequence that grows step by step; "
            "choose another alignment"
        )


@torch.no_grad()  # no position has a gradient
def empty_past(attention: MultiHead, like: Tensor) -> Past:
    """A past of no positions, for as many sequences as `like (batch, ...)` has rows."""
    nothing = like.new_zeros(like.shape[0], 0, attention.query.in_features)
    prepared = attention.prepare(Memory(nothing, nothing))
    return Past(prepared.key, prepared.value, 0, WriteCounter(0))


def read_past(
    attention: MultiHead,
    states: States,
    past: Past,
    before: int | None = None,
    sinks: int = 0,
) -> tuple[States, Past]:
    """Causal self-attention of positions `(batch, position, width)` that follow `past` -> their contexts, and the past
    including them. Each reads its own position, at most `before` earlier ones (None: all) and the first `sinks`; those
    of the past's `prefix` also read later positions of it. Of a window, the past forgets what later positions cannot
    read, except while gradients or weights are recorded. Raises InputError for a part of the prefix only."""
    count = states.shape[1]
    query, new = (
        attention.queries(states, past.position),
        attention.prepare(Memory(states, states, places=past.position)),
    )
    grown = past.append(new.key, new.value)
    slides = before is not None and grown.position > before + 1
    mask = None  # a single query reads its whole past
    if count > 1 or slides:
        reach = before if slides else None
        after = 0 if past.prefix is None else None
        mask = window(
            count,
            grown.length,
            before=reach,
            after=after,
            sinks=sinks,
            device=states.device,
        )
    if past.prefix is not None:
        mask = checked_prefix(past.prefix, count).over_heads() & (
            mask if slides else None
        )
    read = attention.read_projected(
        query, grown.memory(mask), past.alignment, past.position
    )
    grown = replace(grown, alignment=read.state)
    if (
        before is None
        or read.state is not None
        or torch.is_grad_enabled()
        or current() is not None
    ):
        return read.context, grown
    return read.context, grown.forget(before, sinks)


def checked_prefix(lengths: Tensor, count: int) -> Mask:
    """The mask of the first `count` positions with prefixes of these lengths. Raises InputError for longer prefixes."""
    most = int(lengths.max())
    if most > count:
        raise InputError(
            f"the first {most} positions read each other, so they are read in one pass; it has {count}, give all"
        )
    return prefix_mask(lengths, count)


@dataclass(frozen=True, eq=False)
class CausalState(State):
    """The KV cache of each layer."""

    pasts: tuple[Past, ...]

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.pasts[0].position

    def with_prefix(self, lengths: Lengths) -> "CausalState":
        """The state, before the first token, of texts whose first `lengths (batch,)` tokens read each other in both
        directions, as a prefix language model reads its prompt (Raffel 2020, 1910.10683, section 3.2.1). The first pass
        reads them all. Raises InputError behind the first token."""
        if self.position:
            raise InputError(
                f"a prefix begins a text, but {self.position} tokens were read; give it to a new state"
            )
        return replace(
            self, pasts=tuple(replace(past, prefix=lengths) for past in self.pasts)
        )


@runtime_checkable
class CausalBlock(Protocol):
    """A layer with heads that read earlier positions."""

    @property
    def self_attention(self) -> MultiHead: ...

    def empty_past(self, like: Tensor, /) -> Past:
        """The past of no positions, for as many texts as `like (batch, ...)` has rows."""
        ...

    def __call__(self, states: States, past: Past, /) -> tuple[States, Past]:
        """Positions that follow `past` -> their states, and the past including them."""
        ...


class Blocks(nn.ModuleList):
    """Blocks on top of each other."""

    def start(self, like: Tensor) -> CausalState:
        """The state before the first token, for as many texts as `like (batch, ...)` has rows."""
        blocks = cast("Sequence[CausalBlock]", self)
        return CausalState(tuple(block.empty_past(like) for block in blocks))

    def forward(self, states: States, state: CausalState) -> tuple[States, CausalState]:
        """The last block's states of the next positions, and the state after them."""
        pasts = []
        for block, past in zip(self, state.pasts, strict=True):
            states, grown = block(states, past)
            pasts.append(grown)
        return states, replace(state, pasts=tuple(pasts))
