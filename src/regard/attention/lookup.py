"""The operation: a soft dictionary lookup.

`attend` says what it is; `Attend` is the same as a module, which chooses the fused kernel where one serves. That choice
happens here and nowhere else.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.align import Align, Aligned, Softmax, softmax
from regard.attention.align.extent import reaching
from regard.attention.breakdown import Working, asked, tell
from regard.attention.history import History
from regard.attention.masks import Mask, as_mask
from regard.attention.memory import Memory
from regard.attention.record import chosen_from, give, give_chosen, give_draw, wanted
from regard.attention.scores import Score
from regard.kernels.fused_additive import can_fuse, exponentials, fused_additive
from regard.kernels.near import picked
from regard.kernels.product import Masked, fused, fused_is_faster, scaled
from regard.kernels.selected import part, shared_part
from regard.kernels.windows import pays, windowed
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
    if any(want is not None and want != width for want, width in zip(widths, given, strict=True)):
        wanted = ", ".join("any" if want is None else str(want) for want in widths)
        raise ValueError(f"query, key and value need widths {wanted}; got shapes {shapes(query, key, value)}")
    if mask is not None:
        check_mask(as_mask(mask), query, key)


def check_mask(mask: Mask, query: Tensor, key: Tensor) -> None:
    """Refuse a mask for other shapes than these, or on another device. Raises ValueError."""
    full = (*query.shape[:-1], key.shape[-2])
    aligned = zip(mask.shape[::-1], full[::-1], strict=False)
    if len(mask.shape) > len(full) or any(size not in (1, other) for size, other in aligned):
        raise ValueError(f"the mask has shape {tuple(mask.shape)}; it must broadcast to (*batch, query, key) = {full}")
    if mask.lies_on != query.device:
        raise ValueError(f"the mask lies on {mask.lies_on}, the query on {query.device}; they need one device")


def shapes(query: Tensor, key: Tensor, value: Tensor) -> str:
    """The three shapes, for a message."""
    return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"


def masked(mask: Mask | None) -> Masked:
    """What is masked, for the choice of a kernel."""
    if mask is None:
        return "none"
    return "causal" if mask.is_causal else "keys"


def without_weights(product: Tensor, memory: Memory, scale: float) -> Context:
    """softmax(scale product . key) value, by the kernel that knows the mask's structure."""
    mask, sides = memory.mask, (product, memory.key, memory.value)
    if mask is None:
        return fused(*sides, scale=scale)
    if mask.near is not None and pays(product.shape[-2], memory.key.shape[-2], mask.near.before, mask.near.after):
        near, keys = mask.near[:3], mask.near.keys
        return windowed(*sides, near, None if keys is None else keys.dense(), scale=scale)
    if mask.is_causal:
        return fused(*sides, causal=True, scale=scale)
    return fused(*sides, mask.dense(), scale=scale)


def some_weights(product: Tensor, memory: Memory, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Weights:
    """softmax(product . key) of the chosen heads and queries (None: all), of which alone scores are made."""
    heads = heads if product.ndim > 3 else None
    mask = memory.mask if memory.mask is None or rows is None else memory.mask.of_queries(rows)
    allowed = None if mask is None else mask.dense()
    if allowed is not None:
        allowed = shared_part(allowed, heads, None)
    return softmax(part(product, heads, rows) @ part(memory.key, heads, None).mT, allowed)


class Read(NamedTuple):
    """What a read gives: context `(*batch, query, value_width)`, the alignment's state, and weights if asked for."""

    context: Tensor
    state: Any = None
    weights: Tensor | None = None


class Attend(nn.Module):
    """One score and one alignment, as a module: `attend(query, memory) -> context`. With a `history` an additive score
    also sees how each key was read before (see `regard.attention.history`), so that queries are read in turn.

    Where the same memory is read again and again, prepare it once: `read(query, prepare(memory))`.

    Raises:
        ValueError: a history for another score, which has no sum inside to add to.
    """

    def __init__(self, score: Score, align: Align | None = None, history: History | None = None):
        super().__init__()
        if history is not None and not score.is_tanh_sum:
            raise ValueError(f"a history adds to the sum in an additive score; {type(score).__name__} has none")
        self.score, self.history = score, history
        self.align = Softmax() if align is None else align

    @property
    def widths(self) -> Widths:
        """The widths of queries, keys and values it takes; None: any, for queries as for keys."""
        return self.score.widths

    def prepare(self, memory: Memory) -> Memory:
        """The memory with the score's key side computed. Needed once a memory, not once a query."""
        key = self.score.prepare(memory.key)
        steady = self.score.is_tanh_sum and self.history is None and can_fuse(key)
        return replace(memory, key=key, exponentials=exponentials(key) if steady else None, clean=False)

    def read(self, query: Tensor, memory: Memory, state: Any = None, *, weights: bool = False) -> Read:
        """Read a prepared memory with queries `(*batch, query, query_width)`; `state` is the alignment's, if any. The
        read has its weights where they are asked for."""
        listened = wanted(self)
        whole = weights or asked(self) or (listened and not chosen_from(self))
        plain = whole or self.history is not None or not self.align.is_softmax
        if not plain and fused_is_faster(query, memory.key, masked(memory.mask)):
            product = self.score.as_product(query)
            if product is not None:
                scale = self.score.scale(product)
                if listened:
                    give_chosen(self, query.shape[-2], partial(some_weights, scaled(product, scale), memory))
                return Read(without_weights(product, memory, scale))
        if not (listened or whole) and self.picks(query, memory):
            return self.nearby(query, memory, state)
        aligned = self.weigh(query, memory, state) if self.history is None else self.in_turn(query, memory, state)
        if listened:
            give(self, aligned.weights, memory.value)
        return Read(aligned.weights @ memory.value, aligned.state, aligned.weights if weights else None)

    def picks(self, query: Tensor, memory: Memory) -> bool:
        """Whether these queries are faster read with the keys of their windows alone."""
        return self.history is None and not self.score.by_place and self.align.picks(query, memory.key)

    def nearby(self, query: Tensor, memory: Memory, state: Any) -> Read:
        """Queries of which each is scored against the keys in its window alone, a memory of its own."""
        like = memory.key[..., 0].unsqueeze(-2).expand(*query.shape[:-1], memory.key.shape[-2])
        near = self.align.near(like, memory.mask, query, state)
        pick = partial(picked, places=near.places.movedim(-2, 0))
        ready = None if memory.exponentials is None else pick(memory.exponentials)
        windows = Memory(pick(memory.key), pick(memory.value), exponentials=ready)
        scores = self.scores(query.movedim(-2, 0).unsqueeze(-2), windows)  # (query, *batch, 1, near)
        weights = near.weigh(scores.squeeze(-2).movedim(0, -2)).movedim(-2, 0).unsqueeze(-2)
        return Read((weights @ windows.value).squeeze(-2).movedim(0, -2), near.state)

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        """Of all queries against all prepared keys."""
        if not (self.score.is_tanh_sum and can_fuse(memory.key)):
            return self.score(query, memory.key)
        summand, energy = self.score.as_tanh_sum(query)
        return fused_additive(summand, memory.key, energy, memory.exponentials)

    def weigh(self, query: Tensor, memory: Memory, state: Any) -> Aligned:
        """Weights of all queries at once. What was drawn is handed over here, and what they are made of."""
        scores = self.scores(query, memory)
        aligned = self.align(scores, memory.mask, query, state)
        if aligned.draw is not None:
            give_draw(self, aligned.draw)
        if asked(self):
            sides = None if self.history is not None else self.score.sides(query, memory.key)
            tell(self, Working(aligned.weights, memory.value, memory.mask, scores if sides is None else sides))
        return aligned

    def in_turn(self, query: Tensor, memory: Memory, state: tuple[Tensor, Any] | None) -> Aligned:
        """Weights of one query after the other, each with the past that those before it made. The state is that past
        and the alignment's own."""
        assert self.history is not None
        past, inner = (query.new_zeros(memory.key.shape[:-1]), None) if state is None else state
        past = reaching(past, memory.key.shape[-2])
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
