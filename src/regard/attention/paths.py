"""Paths: ways to compute a read. Each serves some lookups, the last one serves all, and all give the same result.

A path that bypasses the code of a score or an alignment serves only modules whose `forward` it knows. A subclass with
its own `forward` or a module with hooks is called instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.attention.align import Aligned, Softmax
from regard.attention.align.local import Local
from regard.attention.align.protocol import reaching
from regard.attention.align.sampled import Hard, StraightThrough, best_value
from regard.attention.biases import TensorBias
from regard.attention.masks import Mask
from regard.attention.memory import Memory
from regard.attention.path_protocol import Lookup, Path, Read
from regard.attention.scores.pairwise import SoftCapped
from regard.attention.scores.protocol import Product, Score, Sides, TanhSum
from regard.kernels.additive import can_fuse, fused_additive
from regard.kernels.dropout import dropout
from regard.kernels.flex import blocks, flexible
from regard.kernels.flex import pays as flex_pays
from regard.kernels.product import Masked, by_group, fused, fused_is_faster, shares
from regard.kernels.windows import by_document, pays, picked, windowed
from regard.shapes import Context, Weights

A = TypeVar("A")


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


def mixture(weights: Weights, value: Tensor, rate: float = 0.0) -> Context:
    """c_t = sum_i a_ti v_i, in the dtype of the values, with dropout of the weights at this rate. Several heads may
    share a head of values."""
    weights = (dropout(weights, rate) if rate else weights).to(value.dtype)
    return weights @ value if weights.ndim < 4 else by_group(weights, value)


def sides_of(score: Score, query: Tensor, key: Tensor) -> Sides | None:
    """The score's two sides; None for a score without sides or with a `forward` of its own."""
    return score.sides(query, key) if runs(score, Product) or runs(score, TanhSum) else None


def masked(mask: Mask | None) -> Masked:
    """The kind of mask, for the choice of a kernel."""
    return "none" if mask is None else "causal" if mask.is_causal else "keys"


class Fused(Path):
    """A softmax of products by PyTorch's fused attention. It uses the mask's structure and does not keep weights."""

    def serves(self, lookup: Lookup) -> bool:
        if lookup.needs_weights or lookup.dropout or not is_softmax_of_products(lookup):
            return False
        return fused_is_faster(lookup.query, lookup.memory.key, masked(lookup.memory.mask))

    def read(self, lookup: Lookup) -> Read:
        mask, bias = lookup.memory.mask, None if lookup.bias is None else lookup.bias.of()
        if mask is None or (mask.is_causal and bias is None):
            return Read(_mixed(lookup, partial(fused, bias=bias, causal=mask is not None)))
        return Read(_mixed(lookup, partial(fused, bias=bias, allowed=mask.dense())))


class Windowed(Fused):
    """A fused softmax of products for queries that read keys near their own position, in blocks of these keys only."""

    def serves(self, lookup: Lookup) -> bool:
        mask, queries = lookup.memory.mask, lookup.query.shape[-2]
        if mask is None or mask.near is None or lookup.bias is not None or not super().serves(lookup):
            return False
        if shares(lookup.query, lookup.memory.key) > 1:
            return False
        return pays(queries, lookup.memory.key.shape[-2], mask.near.before, mask.near.after)

    def read(self, lookup: Lookup) -> Read:
        mask = lookup.memory.mask
        assert mask is not None
        assert mask.near is not None
        near, keys = mask.near[:3], mask.near.keys
        return Read(
            mixed(
                product_of(lookup),
                lookup.memory.value,
                partial(windowed, near=near, allowed=None if keys is None else keys.dense()),
            )
        )


class ByDocument(Fused):
    """A fused softmax of products for documents one behind the other, document by document."""

    def serves(self, lookup: Lookup) -> bool:
        mask = lookup.memory.mask
        if mask is None or mask.within is None or lookup.bias is not None:
            return False
        return lookup.query.shape[-2] == sum(mask.within.lengths) and super().serves(lookup)

    def read(self, lookup: Lookup) -> Read:
        mask = lookup.memory.mask
        assert mask is not None
        assert mask.within is not None
        lengths, causal = mask.within
        return Read(_mixed(lookup, partial(by_document, lengths=lengths, causal=causal)))


class Flex(Path):
    """A softmax of products by FlexAttention (Dong 2024, 2412.05496), where a GPU compiles it: capped scores, and masks
    beyond padding and causality, of which no tensor of the size of the scores is built."""

    def serves(self, lookup: Lookup) -> bool:
        if not lookup.query.is_cuda or not expressible(lookup):
            return False
        return flex_pays(lookup.query, lookup.memory.key, lookup.memory.value)

    def read(self, lookup: Lookup) -> Read:
        mask, score, cap = lookup.memory.mask, lookup.score, None
        if isinstance(score, SoftCapped):
            score, cap = score.score, score.cap
        query, key, value = lookup.query, lookup.memory.key, lookup.memory.value
        allowed = None if mask is None else blocks(mask.rule(), mask.shape, query, key)
        return Read(mixed(product_of(lookup._replace(score=score)), value, partial(flexible, blocks=allowed, cap=cap)))


class Plain(Path):
    """Score every query against every key."""

    def serves(self, lookup: Lookup) -> bool:
        return True

    def read(self, lookup: Lookup) -> Read:
        scores, aligned = _weighed(lookup)
        draws = () if aligned.draw is None else (aligned.draw,)
        context = mixture(aligned.weights, lookup.memory.value, lookup.dropout)
        return Read(context, aligned.state, aligned.weights, scores, draws)


class Picked(Path):
    """Local alignment: score each query against the keys in its window only."""

    def serves(self, lookup: Lookup) -> bool:
        if lookup.observed or lookup.needs_weights or lookup.history is not None or lookup.score.by_place:
            return False
        align, key = lookup.align, lookup.memory.key
        if lookup.dropout or lookup.bias is not None or not isinstance(align, Local) or shares(lookup.query, key) > 1:
            return False
        return runs(align, Local) and align.picks(lookup.query, key)

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


class OneValue(Path):
    """Hard alignment at inference: the value of the best key is read, and no other."""

    def serves(self, lookup: Lookup) -> bool:
        align, key = lookup.align, lookup.memory.key
        ours = runs(align, Hard) or runs(align, StraightThrough)
        if not ours or align.training or torch.is_grad_enabled() or shares(lookup.query, key) > 1 or not key.shape[-2]:
            return False
        return lookup.history is None and not (lookup.observed or lookup.needs_weights or lookup.dropout)

    def read(self, lookup: Lookup) -> Read:
        assert isinstance(lookup.align, Hard | StraightThrough)
        memory = lookup.memory
        _, soft = weigh(lookup.query, memory.key, memory.mask, _score(lookup), lookup.align.soft)
        return Read(best_value(soft, memory.mask, memory.value), lookup.state)


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
            bias = None if lookup.bias is None else TensorBias(lookup.bias.of(None, [place]))
            found, aligned = _weighed(lookup._replace(query=one, memory=moved, state=inner, bias=bias))
            past, inner = history.after(past, aligned.weights[..., 0, :]), aligned.state
            rows.append(aligned.weights)
            scores.append(found)
            draws += [] if aligned.draw is None else [aligned.draw]
        weights = torch.cat(rows, -2)
        kept = torch.cat(scores, -2) if lookup.observed else None
        return Read(mixture(weights, memory.value, lookup.dropout), (past, inner), weights, kept, tuple(draws))


PATHS: tuple[Path, ...] = (Windowed(), ByDocument(), Flex(), Fused(), Picked(), OneValue(), InTurn(), Plain())
"""All paths, in the order in which they are tried."""


def first_that_serves(paths: Sequence[Path], lookup: Lookup) -> Path:
    """The first path that serves the lookup. Raises LookupError if there is none."""
    for path in paths:
        if path.serves(lookup):
            return path
    raise LookupError(f"none of the paths {', '.join(type(each).__name__ for each in paths)} serves this lookup")


def is_softmax_of_products(lookup: Lookup) -> bool:
    """Whether it is a softmax of products, by exactly our code."""
    return lookup.history is None and runs(lookup.score, Product) and runs(lookup.align, Softmax)


def expressible(lookup: Lookup) -> bool:
    """Whether FlexAttention can do the lookup, and PyTorch's other fused kernels cannot without a dense mask."""
    if lookup.needs_weights or lookup.dropout or lookup.bias is not None or lookup.history is not None:
        return False
    mask, score = lookup.memory.mask, lookup.score
    if lookup.query.ndim != 4 or not runs(lookup.align, Softmax):
        return False
    if isinstance(score, SoftCapped):
        return runs(score, SoftCapped) and runs(score.score, Product)
    return runs(score, Product) and mask is not None and not mask.is_causal and mask.shape[-2] > 1


def product_of(lookup: Lookup) -> Sides:
    """The two sides of a lookup by products."""
    sides = lookup.score.sides(lookup.query, lookup.memory.key)
    assert sides is not None
    return sides


def _mixed(lookup: Lookup, kernel: Callable[..., Tensor]) -> Context:
    """The context by a fused kernel."""
    return mixed(product_of(lookup), lookup.memory.value, kernel)


def mixed(sides: Sides, value: Tensor, kernel: Callable[..., Tensor]) -> Context:
    """The context by a fused kernel. The sides of an exact product are not rounded to the dtype of the values."""
    if not sides.exact:
        return kernel(sides.query, sides.key, value, scale=sides.scale)
    with torch.autocast(value.device.type, enabled=False):
        return kernel(sides.query, sides.key, value.to(sides.query.dtype), scale=sides.scale).to(value.dtype)


def _weighed(lookup: Lookup) -> tuple[Tensor, Aligned]:
    align = partial(lookup.align, query=lookup.query, state=lookup.state)
    return weigh(lookup.query, lookup.memory.key, lookup.memory.mask, _score(lookup), align)


def _score(lookup: Lookup) -> Callable[..., Tensor]:
    """The score, with the bias of relative positions."""
    score, bias = _scorer(lookup.score, lookup.memory), lookup.bias
    return score if bias is None else lambda query, key: score(query, key) + bias.of()


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
