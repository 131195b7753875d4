"""Paths: ways to compute a read. Each serves some lookups, the last one serves all, and all give the same result.

A path that bypasses the code of a score or an alignment serves only modules whose `forward` it knows. A subclass with
its own `forward` or a module with hooks is called instead.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.align import Align, Aligned, Draw, Softmax, softmax
from regard.attention.align.local import Local
from regard.attention.align.protocol import reaching
from regard.attention.history import History
from regard.attention.masks import Mask
from regard.attention.memory import Memory
from regard.attention.observer import Chosen, LookupRecord, chosen_of
from regard.attention.scores.protocol import Product, Score, Sides, TanhSum
from regard.kernels.additive import can_fuse, fused_additive
from regard.kernels.product import Masked, fused, fused_is_faster, part, shared_part
from regard.kernels.windows import pays, picked, windowed
from regard.shapes import Context, Weights

A = TypeVar("A")


class Lookup(NamedTuple):
    """Queries `(*batch, query, query_width)`, a prepared memory, and the score, alignment and history that read it.
    `state` is the alignment's.

    observed: an observer records the lookup.
    needs_weights: the weights of all queries are needed.
    """

    score: Score
    align: Align
    history: History | None
    query: Tensor
    memory: Memory
    state: Any = None
    observed: bool = False
    needs_weights: bool = False


class Read(NamedTuple):
    """The result of a lookup: context `(*batch, query, value_width)` and the alignment's state. Weights, scores before
    the mask and draws are present if the path computes them."""

    context: Context
    state: Any = None
    weights: Weights | None = None
    scores: Tensor | None = None
    draws: tuple[Draw, ...] = ()


class Path(ABC):
    """A way to compute a read."""

    @abstractmethod
    def serves(self, lookup: Lookup) -> bool:
        """Whether it can do this lookup and is the fastest path that can."""

    @abstractmethod
    def read(self, lookup: Lookup) -> Read:
        """Do a lookup that it serves."""


def runs(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a call of the module runs exactly the code of `kind`: no subclass overrides `forward`, and there are no
    hooks."""
    if not isinstance(module, kind) or module._forward_hooks or module._forward_pre_hooks:
        return False
    return getattr(module.forward, "__func__", None) is kind.forward


def weigh(
    query: Tensor, key: Tensor, mask: Mask | None, score: Callable[..., Tensor], align: Callable[..., A]
) -> tuple[Tensor, A]:
    """Score the prepared keys, e_ti = score(q_t, k_i), and align, a_t = align(e_t) -> scores and weights."""
    scores = score(query, key)
    return scores, align(scores, mask)


def mixture(weights: Weights, value: Tensor) -> Context:
    """c_t = sum_i a_ti v_i, in the dtype of the values."""
    return weights.to(value.dtype) @ value


def sides_of(score: Score, query: Tensor, key: Tensor) -> Sides | None:
    """The score's two sides; None for a score without sides or with a `forward` of its own."""
    return score.sides(query, key) if runs(score, Product) or runs(score, TanhSum) else None


def masked(mask: Mask | None) -> Masked:
    """The kind of mask, for the choice of a kernel."""
    if mask is None:
        return "none"
    return "causal" if mask.is_causal else "keys"


class Fused(Path):
    """A softmax of products by PyTorch's fused attention. It uses the mask's structure and does not keep weights."""

    def serves(self, lookup: Lookup) -> bool:
        if lookup.needs_weights or not _is_softmax_of_products(lookup):
            return False
        return fused_is_faster(lookup.query, lookup.memory.key, masked(lookup.memory.mask))

    def read(self, lookup: Lookup) -> Read:
        mask = lookup.memory.mask
        if mask is None or mask.is_causal:
            return Read(_mixed(lookup, partial(fused, causal=mask is not None)))
        return Read(_mixed(lookup, partial(fused, allowed=mask.dense())))


class Windowed(Fused):
    """A fused softmax of products for queries that read keys near their own position, in blocks of these keys only."""

    def serves(self, lookup: Lookup) -> bool:
        mask, queries = lookup.memory.mask, lookup.query.shape[-2]
        if mask is None or mask.near is None or not super().serves(lookup):
            return False
        return pays(queries, lookup.memory.key.shape[-2], mask.near.before, mask.near.after)

    def read(self, lookup: Lookup) -> Read:
        mask = lookup.memory.mask
        assert mask is not None
        assert mask.near is not None
        near, keys = mask.near[:3], mask.near.keys
        return Read(_mixed(lookup, partial(windowed, near=near, allowed=None if keys is None else keys.dense())))


class Plain(Path):
    """Score every query against every key."""

    def serves(self, lookup: Lookup) -> bool:
        return True

    def read(self, lookup: Lookup) -> Read:
        scores, aligned = _weighed(lookup)
        draws = () if aligned.draw is None else (aligned.draw,)
        return Read(mixture(aligned.weights, lookup.memory.value), aligned.state, aligned.weights, scores, draws)


class Picked(Path):
    """Local alignment: score each query against the keys in its window only."""

    def serves(self, lookup: Lookup) -> bool:
        if lookup.observed or lookup.needs_weights or lookup.history is not None or lookup.score.by_place:
            return False
        align = lookup.align
        return isinstance(align, Local) and runs(align, Local) and align.picks(lookup.query, lookup.memory.key)

    def read(self, lookup: Lookup) -> Read:
        memory, query, align = lookup.memory, lookup.query, lookup.align
        assert isinstance(align, Local)
        like = memory.key[..., 0].unsqueeze(-2).expand(*query.shape[:-1], memory.key.shape[-2])
        near = align.near(like, memory.mask, query, lookup.state)
        pick = partial(picked, places=near.places.movedim(-2, 0))
        ready = None if memory.exponentials is None else pick(memory.exponentials)
        windows = Memory(pick(memory.key), pick(memory.value), exponentials=ready)
        score = _scorer(lookup.score, windows)
        scores = score(query.movedim(-2, 0).unsqueeze(-2), windows.key)  # (query, *batch, 1, near)
        weights = near.weigh(scores.squeeze(-2).movedim(0, -2)).movedim(-2, 0).unsqueeze(-2)
        return Read(mixture(weights, windows.value).squeeze(-2).movedim(0, -2), near.state)


class InTurn(Path):
    """Read with one query after another, each with the history of those before it. The state is the history and the
    alignment's own state."""

    def serves(self, lookup: Lookup) -> bool:
        return lookup.history is not None

    def read(self, lookup: Lookup) -> Read:
        query, memory, history = lookup.query, lookup.memory, lookup.history
        assert history is not None
        keys = memory.key.shape[-2]
        past, inner = (query.new_zeros(memory.key.shape[:-1]), None) if lookup.state is None else lookup.state
        past = reaching(past, keys)
        rows = [query.new_zeros(*query.shape[:-2], 0, keys)]
        scores, draws = rows.copy(), []
        for place, one in enumerate(query.split(1, -2) if query.shape[-2] else ()):
            mask = None if memory.mask is None else memory.mask.of_query(place)
            moved = replace(memory, key=memory.key + history(past), mask=mask, clean=False)
            found, aligned = _weighed(lookup._replace(query=one, memory=moved, state=inner))
            past, inner = history.after(past, aligned.weights[..., 0, :]), aligned.state
            rows.append(aligned.weights)
            scores.append(found)
            draws += [] if aligned.draw is None else [aligned.draw]
        weights = torch.cat(rows, -2)
        kept = torch.cat(scores, -2) if lookup.observed else None
        return Read(mixture(weights, memory.value), (past, inner), weights, kept, tuple(draws))


PATHS: tuple[Path, ...] = (Windowed(), Fused(), Picked(), InTurn(), Plain())
"""All paths, in the order in which they are tried."""


def first_that_serves(paths: Sequence[Path], lookup: Lookup) -> Path:
    """The first path that serves the lookup. Raises LookupError if there is none."""
    for path in paths:
        if path.serves(lookup):
            return path
    raise LookupError(f"none of the paths {', '.join(type(each).__name__ for each in paths)} serves this lookup")


def record_of(lookup: Lookup, read: Read) -> LookupRecord:
    """The record of a lookup for an observer. Weights that the path did not compute are computed apart."""

    def scores() -> Sides | Tensor:
        sides = None if lookup.history is not None else sides_of(lookup.score, lookup.query, lookup.memory.key)
        if sides is not None:
            return sides
        return lookup.score(lookup.query, lookup.memory.key) if read.scores is None else read.scores

    memory = lookup.memory
    weights = some_weights(lookup) if read.weights is None else chosen_of(read.weights)
    return LookupRecord(lookup.query.shape[-2], weights, memory.value, memory.mask, scores, read.draws)


def some_weights(lookup: Lookup) -> Chosen:
    """A function that computes the weights of chosen heads and queries (None: all). For a softmax of products it
    computes the two sides once, and only the chosen scores."""
    if _is_softmax_of_products(lookup):
        return partial(softmax_of_products, _product(lookup), lookup.memory.mask)
    path = first_that_serves((InTurn(), Plain()), lookup)

    def choose(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Weights:
        read = path.read(lookup)
        assert read.weights is not None
        return chosen_of(read.weights)(heads, rows)

    return choose


def softmax_of_products(
    sides: Sides, mask: Mask | None, heads: Sequence[int] | None, rows: Sequence[int] | None
) -> Weights:
    """The weights of the chosen heads and queries (None: all)."""
    heads = heads if sides.query.ndim > 3 else None
    mask = mask if mask is None or rows is None else mask.of_queries(rows)
    allowed = None if mask is None else mask.dense()
    if allowed is not None:
        allowed = shared_part(allowed, heads, None)
    # The chosen queries have no name, so they are freed before the softmax, where a long read needs the most memory.
    return softmax(
        sides._replace(query=part(sides.query, heads, rows), key=part(sides.key, heads, None)).scores(), allowed
    )


def _is_softmax_of_products(lookup: Lookup) -> bool:
    return lookup.history is None and runs(lookup.score, Product) and runs(lookup.align, Softmax)


def _product(lookup: Lookup) -> Sides:
    sides = lookup.score.sides(lookup.query, lookup.memory.key)
    assert sides is not None
    return sides


def _mixed(lookup: Lookup, kernel: Callable[..., Tensor]) -> Context:
    """The context by a fused kernel. The sides of an exact product are not rounded to the dtype of the values."""
    sides, value = _product(lookup), lookup.memory.value
    if not sides.exact:
        return kernel(sides.query, sides.key, value, scale=sides.scale)
    with torch.autocast(value.device.type, enabled=False):
        return kernel(sides.query, sides.key, value.to(sides.query.dtype), scale=sides.scale).to(value.dtype)


def _weighed(lookup: Lookup) -> tuple[Tensor, Aligned]:
    align = partial(lookup.align, query=lookup.query, state=lookup.state)
    memory = lookup.memory
    return weigh(lookup.query, memory.key, memory.mask, _scorer(lookup.score, memory), align)


def _scorer(score: Score, memory: Memory) -> Callable[..., Tensor]:
    """The score, replaced by the additive kernel where that serves the memory's keys."""
    if not (runs(score, TanhSum) and can_fuse(memory.key)):
        return score

    def kernel(query: Tensor, key: Tensor) -> Tensor:
        sides = score.sides(query, key)
        assert sides is not None
        assert sides.energy is not None
        return fused_additive(sides.query, key, sides.energy, memory.exponentials)

    return kernel
