"""The KV cache of causal self-attention.

New positions read the prepared keys and values of earlier ones. Layers on top of each
other have one each.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, window
from regard.attention.memory import Memory, index_batch
from regard.attention.observer import current_observer
from regard.errors import InputError
from regard.nn.decoders import State
from regard.shapes import Rows, States

LEAST_ROOM = 16
"""Fewest positions to allocate when a cache grows."""


@dataclass(frozen=True, eq=False)
class KVCache:
    """Prepared keys and values of the positions read so far.

    Without a gradient, new positions are written into the room behind them, and the
    room doubles when it is full: a step does not copy earlier positions. Caches that
    grew from one share its tensors; if another one has written there, this one moves to
    tensors of its own.

    Attributes:
        key: `(batch, [head,] room, width)`, of which the first `length` positions are
            stored.
        value: `(batch, [head,] room, value_width)`, likewise.
        length: Number of positions stored.
        written: A list of one number: how many positions the caches that share the
            tensors have written into them.
        alignment: The alignment's state, if any.
        forgotten: Number of positions behind the sinks that a sliding window has
            dropped; position ids stay absolute.
        sinks: Number of first positions that a sliding window keeps.
    """

    key: Tensor
    value: Tensor
    length: int
    written: list[int]
    alignment: Any = None
    forgotten: int = 0
    sinks: int = 0

    @classmethod
    def of(cls, key: Tensor, value: Tensor) -> "KVCache":
        """Return the cache of these positions."""
        return cls(
            key,
            value,
            key.shape[-2],
            [key.shape[-2]],
        )

    @property
    def position(self) -> int:
        """Number of positions read so far, the forgotten ones included."""
        return self.length + self.forgotten

    def memory(self, mask: Mask | None = None) -> Memory:
        """Return the stored positions, under a mask."""
        position_ids = None
        if self.forgotten:
            stored = torch.arange(self.length, device=self.key.device)
            later = stored + self.forgotten
            position_ids = torch.where(stored < self.sinks, stored, later)
        key, value = self.positions()
        return Memory(
            key,
            value,
            mask,
            position_ids=position_ids,
            zero_masked=False,
        )

    def forget(self, before: int, sinks: int) -> "KVCache":
        """Return the cache without the positions that no later one reads.

        These are all but the last `before` and the first `sinks`. They are copied once
        there are twice as many, so that most steps copy nothing and memory is bounded.
        """
        keep = before + sinks
        if self.length <= 2 * keep + LEAST_ROOM:
            return self
        first = self.length - before
        parts = []
        for tensor in self.positions():
            ends = [tensor[..., :sinks, :], tensor[..., first:, :]]
            parts.append(torch.cat(ends, -2))
        forgotten = self.forgotten + self.length - keep
        cache = KVCache.of(*parts)
        return replace(
            cache, alignment=self.alignment, forgotten=forgotten, sinks=sinks
        )

    def append(self, key: Tensor, value: Tensor) -> "KVCache":
        """Return the cache with more positions at its end."""
        end = self.length + key.shape[-2]
        if torch.is_grad_enabled() or not self.length:
            pairs = zip(self.positions(), (key, value), strict=True)
            key, value = (torch.cat(pair, -2) for pair in pairs)
            return replace(
                self,
                key=key,
                value=value,
                length=end,
                written=[end],
            )
        cache = self
        if self.written != [self.length] or end > self.key.shape[-2]:
            room = max(LEAST_ROOM, 2 * end) - self.length
            keys, values = (
                functional.pad(part, (0, 0, 0, room)) for part in self.positions()
            )
            cache = replace(
                self,
                key=keys,
                value=values,
                written=[0],
            )
        new = slice(self.length, end)
        cache.key[..., new, :] = key
        cache.value[..., new, :] = value
        cache.written[0] = end
        return replace(cache, length=end)

    def select(self, rows: Rows) -> "KVCache":
        """Return the cache of the batch rows `rows`, in this order; rows may repeat."""
        key, value = (part.index_select(0, rows) for part in self.positions())
        alignment = index_batch(self.alignment, rows)
        written = [self.length]
        return replace(
            self,
            key=key,
            value=value,
            written=written,
            alignment=alignment,
        )

    def positions(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values without the room behind them."""
        return self.key[..., : self.length, :], self.value[..., : self.length, :]


def check_causal(attention: MultiHead) -> None:
    """Raise InputError for an alignment that cannot read a growing sequence."""
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
    return KVCache.of(prepared.key, prepared.value)


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
    query = attention.project_queries(states, cache.position)
    new = attention.prepare(Memory(states, states, position_ids=cache.position))
    grown = cache.append(new.key, new.value)
    slides = before is not None and grown.position > before + 1
    mask = None  # a single query reads its whole cache
    if count > 1 or slides:
        reach = before if slides else None
        sizes = count, grown.length
        mask = window(
            *sizes,
            before=reach,
            after=0,
            sinks=sinks,
            device=states.device,
        )
    memory = grown.memory(mask)
    read = attention.read_queries(
        query,
        memory,
        cache.alignment,
        cache.position,
    )
    grown = replace(grown, alignment=read.state)
    if before is None or read.state is not None or torch.is_grad_enabled():
        return read.context, grown
    if current_observer() is None:
        grown = grown.forget(before, sinks)
    return read.context, grown


@dataclass(frozen=True, eq=False)
class CausalState(State):
    """The KV cache of each layer."""

    caches: tuple[KVCache, ...]

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.caches[0].position


class Blocks(nn.ModuleList):
    """Blocks on top of each other.

    A block has a `self_attention`, and maps the states of positions and the cache of
    those before them to its states and the cache that includes them.
    """

    def start(self, like: Tensor) -> CausalState:
        """Return the state before the first token, for as many texts as `like (batch, ...)` has rows."""
        blocks: Any = self
        return CausalState(
            tuple(empty_cache(block.self_attention, like) for block in blocks)
        )

    def forward(self, states: States, state: CausalState) -> tuple[States, CausalState]:
        """Return the last block's states of the next positions, and the state after them."""
        caches = []
        for block, cache in zip(self, state.caches, strict=True):
            states, grown = block(states, cache)
            caches.append(grown)
        return states, replace(state, caches=tuple(caches))
