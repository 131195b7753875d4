"""The KV cache of causal self-attention.

New positions read the prepared keys and values of earlier ones. Layers on top of each
other have one each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, window
from regard.attention.memory import Memory, index_batch
from regard.attention.observer import current_observer
from regard.errors import InputError
from regard.nn.decoders import State
from regard.shapes import Rows, States

LEAST_ROOM = 16
"""Fewest positions to allocate when a cache grows."""


@dataclass
class WriteCounter:
    """Number of positions written in tensors that several caches may share."""

    count: int


@dataclass(frozen=True, eq=False)
class KVCache:
    """Prepared keys and values of the positions read so far.

    The first `length` positions of `key` and `value`, `(row, [head,] room, width)`.
    `alignment` is the alignment's state, if any.

    Without a gradient, new positions are written into the room behind them, and the
    room doubles when it is full: a step does not copy earlier positions. Pasts that
    grew from one share its tensors; if another cache has written there, this one moves
    to tensors of its own. Selecting rows copies nothing either: `rows (batch, chosen)`
    are then the rows of the tensors that hold the first positions of each text. Later
    positions are in the text's own row.

    Of a sliding window, `forgotten` positions behind the first `sinks` are no longer
    stored; places stay absolute.
    """

    key: Tensor
    value: Tensor
    length: int
    filled: WriteCounter = field(repr=False)
    alignment: Any = None
    rows: Tensor | None = None
    forgotten: int = 0
    sinks: int = 0

    @property
    def position(self) -> int:
        """Number of positions read so far, the forgotten ones included."""
        return self.length + self.forgotten

    def memory(self, mask: Mask | None = None) -> Memory:
        """Return the stored positions, under a mask."""
        places = None
        if self.forgotten:
            stored = torch.arange(self.length, device=self.key.device)
            places = torch.where(stored < self.sinks, stored, stored + self.forgotten)
        return Memory(
            self._read(self.key),
            self._read(self.value),
            mask,
            position_ids=places,
            zero_masked=False,
        )

    def forget(self, before: int, sinks: int) -> "KVCache":
        """Return the cache without the positions that no later one reads, but the last `before` and the first `sinks`.

        They are copied once there are twice as many, so that most steps copy nothing,
        and memory is bounded.
        """
        keep = before + sinks
        if self.length <= 2 * keep + LEAST_ROOM:
            return self
        first = self.length - before
        key, value = (
            torch.cat([tensor[..., :sinks, :], tensor[..., first:, :]], -2)
            for tensor in (self._read(self.key), self._read(self.value))
        )
        forgotten = self.forgotten + self.length - keep
        return KVCache(
            key,
            value,
            keep,
            WriteCounter(keep),
            self.alignment,
            forgotten=forgotten,
            sinks=sinks,
        )

    def append(self, key: Tensor, value: Tensor) -> "KVCache":
        """Return the cache with more positions `(batch, [head,] more, width)` at its end."""
        count = key.shape[-2]
        end = self.length + count
        if not self.length:
            return KVCache(key, value, end, WriteCounter(end))
        if torch.is_grad_enabled():
            memory = self.memory()
            key, value = (
                torch.cat([memory.key, key], -2),
                torch.cat([memory.value, value], -2),
            )
            return replace(
                self,
                key=key,
                value=value,
                length=end,
                filled=WriteCounter(end),
                rows=None,
            )
        cache = (
            self.reserve(count) if self.rows is None else self._move(count)
        )  # copy once here, not at each read
        cache.key[: len(key), ..., self.length : end, :] = key
        cache.value[: len(key), ..., self.length : end, :] = value
        return cache.extend(count)

    def reserve(self, count: int) -> "KVCache":
        """Return the same cache with room for `count` positions that no other cache writes to."""
        rows, *_, room, _ = self.key.shape
        is_owner = self.filled.count == self.length and (
            self.rows is None or len(self.rows) <= rows
        )
        return self if is_owner and self.length + count <= room else self._move(count)

    def extend(self, count: int) -> "KVCache":
        """Return the cache including `count` positions that were written into its room."""
        self.filled.count = self.length + count
        return replace(self, length=self.filled.count)

    def select(self, rows: Rows) -> "KVCache":
        """Return the cache of the batch rows `rows`, in this order; rows may repeat."""
        chosen = self._rows().index_select(0, rows)
        return replace(
            self,
            rows=chosen,
            alignment=index_batch(self.alignment, rows),
        )

    def _rows(self) -> Tensor:
        """Return the row of the tensors that holds each position, `(batch, length)`."""
        shared_length = 0 if self.rows is None else self.rows.shape[1]
        rows = torch.arange(
            len(self.key if self.rows is None else self.rows), device=self.key.device
        )
        rows = rows[:, None].expand(-1, self.length - shared_length)
        return rows if self.rows is None else torch.cat([self.rows, rows], 1)

    def _read(self, tensor: Tensor) -> Tensor:
        """Return the positions read so far, `(batch, [head,] length, width)`."""
        if self.rows is None:
            return tensor[..., : self.length, :]
        places = torch.arange(self.length, device=tensor.device)
        return tensor.movedim(-2, 1)[self._rows(), places].movedim(1, -2)

    def _move(self, count: int) -> "KVCache":
        """Return the same cache in tensors of its own, with room."""
        room = max(LEAST_ROOM, 2 * (self.length + count))
        key, value = (
            _move(self._read(tensor), room) for tensor in (self.key, self.value)
        )
        return replace(
            self, key=key, value=value, filled=WriteCounter(self.length), rows=None
        )


def _move(tensor: Tensor, room: int) -> Tensor:
    """Copy the positions into a tensor with room behind them."""
    moved = tensor.new_empty(*tensor.shape[:-2], room, tensor.shape[-1])
    moved[..., : tensor.shape[-2], :] = tensor
    return moved


def check_causal(attention: MultiHead) -> None:
    """Check the arguments.

    Raises:
        InputError: Self-attention whose alignment cannot read a growing sequence.
    """
    align = attention.attend.align
    if not align.supports_growing:
        raise InputError(
            f"{type(align).__name__} depends on masked keys, so it cannot read a sequence that grows step by step; "
            "choose another alignment"
        )


@torch.no_grad()  # no position has a gradient
def empty_cache(attention: MultiHead, like: Tensor) -> KVCache:
    """Return a cache of no positions, for as many sequences as `like (batch, ...)` has rows."""
    nothing = like.new_zeros(like.shape[0], 0, attention.query.in_features)
    prepared = attention.prepare(Memory(nothing, nothing))
    return KVCache(prepared.key, prepared.value, 0, WriteCounter(0))


def causal_attention(
    attention: MultiHead,
    states: States,
    cache: KVCache,
    before: int | None = None,
    sinks: int = 0,
) -> tuple[States, KVCache]:
    """Compute causal self-attention of positions that follow `cache`.

    States `(batch, position, width)` give their contexts and the cache that includes
    them.

    Each reads its own position, at most `before` earlier ones (None: all) and the first
    `sinks`. Of a window, the cache forgets what later positions cannot read, except
    while gradients or weights are recorded.
    """
    count = states.shape[1]
    query, new = (
        attention.project_queries(states, cache.position),
        attention.prepare(Memory(states, states, position_ids=cache.position)),
    )
    grown = cache.append(new.key, new.value)
    slides = before is not None and grown.position > before + 1
    mask = None  # a single query reads its whole cache
    if count > 1 or slides:
        reach = before if slides else None
        mask = window(
            count,
            grown.length,
            before=reach,
            after=0,
            sinks=sinks,
            device=states.device,
        )
    read = attention.read_queries(
        query, grown.memory(mask), cache.alignment, cache.position
    )
    grown = replace(grown, alignment=read.state)
    if (
        before is None
        or read.state is not None
        or torch.is_grad_enabled()
        or current_observer() is not None
    ):
        return read.context, grown
    return read.context, grown.forget(before, sinks)


@dataclass(frozen=True, eq=False)
class CausalState(State):
    """The KV cache of each layer."""

    caches: tuple[KVCache, ...]

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.caches[0].position


@runtime_checkable
class CausalBlock(Protocol):
    """A layer with heads that read earlier positions."""

    @property
    def self_attention(self) -> MultiHead: ...

    def empty_cache(self, like: Tensor, /) -> KVCache:
        """Return the cache of no positions, for as many texts as `like (batch, ...)` has rows."""
        ...

    def __call__(self, states: States, cache: KVCache, /) -> tuple[States, KVCache]:
        """Process positions that follow `cache`.

        Returns:
            Their states, and the cache including them.
        """
        ...


class Blocks(nn.ModuleList):
    """Blocks on top of each other."""

    def start(self, like: Tensor) -> CausalState:
        """Return the state before the first token, for as many texts as `like (batch, ...)` has rows."""
        blocks = cast("Sequence[CausalBlock]", self)
        return CausalState(tuple(block.empty_cache(like) for block in blocks))

    def forward(self, states: States, state: CausalState) -> tuple[States, CausalState]:
        """Return the last block's states of the next positions, and the state after them."""
        caches = []
        for block, cache in zip(self, state.caches, strict=True):
            states, grown = block(states, cache)
            caches.append(grown)
        return states, replace(state, caches=tuple(caches))
