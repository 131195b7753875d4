"""The operation: a soft dictionary lookup.

`attend` says what it is; `Attend` is the same as a module, which chooses the fused kernel where one serves. That choice
happens here and nowhere else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.align import Align, Aligned, Softmax, softmax
from regard.history import History
from regard.kernels.product import fused, fused_is_faster
from regard.masks import Mask, as_mask
from regard.memory import Memory
from regard.recording import give, give_draw, wanted
from regard.scores import Score
from regard.shapes import Context, Float, Weights


def attend(
    query: Float[Tensor, "..."],
    key: Float[Tensor, "..."],
    value: Float[Tensor, "..."],
    *,
    score: Score,
    mask: Mask | Tensor | None = None,
    align: Callable[[Tensor, Mask | None], Tensor] = softmax,
) -> tuple[Context, Weights]:
    """Read a memory: score every key, turn the scores into weights, mix the values.

        e_ti = score(q_t, k_i)      a_t = align(e_t)      c_t = sum_i a_ti v_i

    Args:
        query: `(*batch, query, query_width)`.
        key, value: `(*batch, key, key_width)` and `(*batch, key, value_width)`.
        mask: True where a query may read a key, broadcastable to `(*batch, query, key)`. A query that may read nothing
            gets context 0 and weights 0; what no query may read has no influence, NaN included.

    Returns:
        context `(*batch, query, value_width)` and weights `(*batch, query, key)`.

    Raises:
        ValueError: shapes, dtypes or devices do not fit together.
        TypeError: the mask is not boolean.
    """
    check(query, key, value, mask, score.widths)
    memory = Memory(key, value, None if mask is None else as_mask(mask))
    weights = align(score(query, score.prepare(memory.key)), memory.mask)
    return weights @ memory.value, weights


Widths = tuple[int | None, int | None, int | None]


def check(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None = None, widths: Widths = (None, None, None)
) -> None:
    """Refuse what would broadcast silently or fail late. `widths` are those wanted of query, key and value; None: any,
    for queries equal to the keys'. Raises ValueError, or TypeError for a mask that is not boolean."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            f"query, key and value need a position and a width axis; got shapes {shapes(query, key, value)}"
        )
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(f"query, key and value need the same leading axes; got shapes {shapes(query, key, value)}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"every key needs one value; got key {tuple(key.shape)} and value {tuple(value.shape)}")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(f"query, key and value need one dtype; got {query.dtype}, {key.dtype}, {value.dtype}")
    if not query.device == key.device == value.device:
        raise ValueError(f"query, key and value need one device; got {query.device}, {key.device}, {value.device}")
    given = query.shape[-1], key.shape[-1], value.shape[-1]
    if widths[0] is None and given[0] != given[1]:
        raise ValueError(f"query and key need one width; got shapes {shapes(query, key, value)}")
    if any(want not in (None, width) for want, width in zip(widths, given, strict=True)):
        wanted = ", ".join("any" if want is None else str(want) for want in widths)
        raise ValueError(f"query, key and value need widths {wanted}; got shapes {shapes(query, key, value)}")
    if mask is not None:
        check_mask(as_mask(mask).dense(), query, key)


def check_mask(mask: Tensor, query: Tensor, key: Tensor) -> None:
    """Refuse a mask for other shapes than these, or on another device. Raises ValueError."""
    full = (*query.shape[:-1], key.shape[-2])
    aligned = zip(mask.shape[::-1], full[::-1], strict=False)
    if mask.ndim > len(full) or any(size not in (1, other) for size, other in aligned):
        raise ValueError(f"the mask has shape {tuple(mask.shape)}; it must broadcast to (*batch, query, key) = {full}")
    if mask.device != query.device:
        raise ValueError(f"the mask lies on {mask.device}, the query on {query.device}; they need one device")


def shapes(query: Tensor, key: Tensor, value: Tensor) -> str:
    """The three shapes, for a message."""
    return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"


class Read(NamedTuple):
    """What a read gives: context `(*batch, query, value_width)`, the alignment's state, and weights if asked for."""

    context: Tensor
    state: Any = None
    weights: Tensor | None = None


class Attend(nn.Module):
    """One score and one alignment, as a module: `attend(query, memory) -> context`. With a `history` the score also
    sees how each key was read before (see `regard.history`), so that queries are read in turn.

    Where the same memory is read again and again, prepare it once: `read(query, prepare(memory))`.
    """

    def __init__(self, score: Score, align: Align | None = None, history: History | None = None):
        super().__init__()
        self.score, self.history = score, history
        self.align = Softmax() if align is None else align

    @property
    def widths(self) -> Widths:
        """The widths of queries, keys and values it takes; None: any, for queries as for keys."""
        return self.score.widths

    def prepare(self, memory: Memory) -> Memory:
        """The memory with the score's key side computed. Needed once a memory, not once a query."""
        return replace(memory, key=self.score.prepare(memory.key), clean=False)

    def read(self, query: Tensor, memory: Memory, state: Any = None, *, weights: bool = False) -> Read:
        """Read a prepared memory with queries `(*batch, query, query_width)`; `state` is the alignment's, if any. The
        read has its weights where they are asked for."""
        listened = wanted(self)
        plain = listened or weights or self.history is not None or not self.align.is_softmax
        if not plain and fused_is_faster(query, memory.key):
            product = self.score.as_product(query)
            if product is not None:
                causal = memory.mask is not None and memory.mask.is_causal
                allowed = None if memory.mask is None or causal else memory.mask.dense()
                return Read(fused(product, memory.key, memory.value, allowed, causal=causal))
        aligned = self.weigh(query, memory, state) if self.history is None else self.in_turn(query, memory, state)
        if listened:
            give(self, aligned.weights, memory.value)
        return Read(aligned.weights @ memory.value, aligned.state, aligned.weights if weights else None)

    def weigh(self, query: Tensor, memory: Memory, state: Any) -> Aligned:
        """Weights of all queries at once. What was drawn is handed over here."""
        aligned = self.align(self.score(query, memory.key), memory.mask, query, state)
        if aligned.draw is not None:
            give_draw(self, aligned.draw)
        return aligned

    def in_turn(self, query: Tensor, memory: Memory, state: tuple[Tensor, Any] | None) -> Aligned:
        """Weights of one query after the other, each with the past that those before it made. The state is that past
        and the alignment's own."""
        assert self.history is not None
        past, inner = (query.new_zeros(memory.key.shape[:-1]), None) if state is None else state
        rows = [query.new_zeros(*query.shape[:-2], 0, memory.key.shape[-2])]
        for place, one in enumerate(query.split(1, -2) if query.shape[-2] else ()):
            mask = None if memory.mask is None else memory.mask.of_query(place)
            moved = replace(memory, key=memory.key + self.history(past), mask=mask, clean=False)
            aligned = self.weigh(one, moved, inner)
            past, inner = self.history.after(past, aligned.weights[..., 0, :]), aligned.state
            rows.append(aligned.weights)
        return Aligned(torch.cat(rows, -2), (past, inner))

    def forward(self, query: Float[Tensor, "..."], memory: Memory) -> Context:
        """Queries `(*batch, query, query_width)` -> context `(*batch, query, value_width)`. Raises as `attend` does."""
        check(query, memory.key, memory.value, memory.mask, self.widths)
        return self.read(query, self.prepare(memory)).context
