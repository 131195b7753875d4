"""Kernels that do a lookup faster than its definition and give the same context, without the weights.

A kernel that bypasses the code of a score or an alignment serves only modules whose `forward` it knows. A subclass with
its own `forward` or a module with hooks is called instead.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from regard.attention.align import Softmax
from regard.attention.align.local import Local
from regard.attention.align.sampled import Hard, StraightThrough, best_value
from regard.attention.lookup import Lookup, Read, mix
from regard.attention.masks import Mask
from regard.attention.memory import Memory
from regard.attention.scores.pairwise import SoftCapped
from regard.attention.scores.protocol import Product, Sides, score_memory, unmodified
from regard.kernels.flex import blocks, flexible
from regard.kernels.flex import pays as flex_pays
from regard.kernels.product import Masked, fused, fused_is_faster, shares
from regard.kernels.windows import by_document, pays, picked, windowed


def masked(mask: Mask | None) -> Masked:
    """The kind of mask, for the choice of a kernel."""
    return "none" if mask is None else "causal" if mask.is_causal else "keys"


class Path(ABC):
    """A way to do a lookup."""

    @abstractmethod
    def serves(self, lookup: Lookup) -> bool:
        """Whether it can do this lookup and is the fastest path that can."""

    @abstractmethod
    def read(self, lookup: Lookup) -> Read:
        """Do a lookup that it serves."""


class Fused(Path):
    """A softmax of products by PyTorch's fused attention. It uses the mask's structure."""

    def serves(self, lookup: Lookup) -> bool:
        if lookup.dropout or not is_softmax_of_products(lookup):
            return False
        return fused_is_faster(
            lookup.query, lookup.memory.key, masked(lookup.memory.mask)
        )

    def read(self, lookup: Lookup) -> Read:
        mask, bias = (
            lookup.memory.mask,
            None if lookup.bias is None else lookup.bias(None, None),
        )
        if mask is None or (mask.is_causal and bias is None):
            return Read(
                mixed(lookup, partial(fused, bias=bias, causal=mask is not None))
            )
        return Read(mixed(lookup, partial(fused, bias=bias, allowed=mask.dense())))


class Windowed(Fused):
    """A fused softmax of products for queries that read keys near their own position, in blocks of these keys only."""

    def serves(self, lookup: Lookup) -> bool:
        mask, queries, keys = (
            lookup.memory.mask,
            lookup.query.shape[-2],
            lookup.memory.key.shape[-2],
        )
        if (
            mask is None
            or mask.near is None
            or lookup.bias is not None
            or not super().serves(lookup)
        ):
            return False
        return shares(lookup.query, lookup.memory.key) == 1 and pays(
            queries, keys, mask.near.before, mask.near.after
        )

    def read(self, lookup: Lookup) -> Read:
        assert lookup.memory.mask is not None
        assert lookup.memory.mask.near is not None
        near, keys = lookup.memory.mask.near[:3], lookup.memory.mask.near.keys
        return Read(
            mixed(
                lookup,
                partial(
                    windowed, near=near, allowed=None if keys is None else keys.dense()
                ),
            )
        )


class ByDocument(Fused):
    """A fused softmax of products for documents one behind the other, document by document."""

    def serves(self, lookup: Lookup) -> bool:
        mask = lookup.memory.mask
        if mask is None or mask.within is None or lookup.bias is not None:
            return False
        return lookup.query.shape[-2] == sum(mask.within.lengths) and super().serves(
            lookup
        )

    def read(self, lookup: Lookup) -> Read:
        assert lookup.memory.mask is not None
        assert lookup.memory.mask.within is not None
        lengths, causal = lookup.memory.mask.within
        return Read(mixed(lookup, partial(by_document, lengths=lengths, causal=causal)))


class Flex(Path):
    """A softmax of products by FlexAttention (Dong 2024, 2412.05496), where a GPU compiles it: capped scores, and masks
    beyond padding and causality, of which no tensor of the size of the scores is built."""

    def serves(self, lookup: Lookup) -> bool:
        served = lookup.query.is_cuda and expressible(lookup)
        return served and flex_pays(
            lookup.query, lookup.memory.key, lookup.memory.value
        )

    def read(self, lookup: Lookup) -> Read:
        mask, score, cap = lookup.memory.mask, lookup.score, None
        if isinstance(score, SoftCapped):
            score, cap = score.score, score.cap
        allowed = (
            None
            if mask is None
            else blocks(mask.rule(), mask.shape, lookup.query, lookup.memory.key)
        )
        return Read(
            mixed(
                lookup._replace(score=score), partial(flexible, blocks=allowed, cap=cap)
            )
        )


class Picked(Path):
    """Local alignment: score each query against the keys in its window only."""

    def serves(self, lookup: Lookup) -> bool:
        align, key = lookup.align, lookup.memory.key
        if (
            not isinstance(align, Local)
            or not unmodified(align, Local)
            or lookup.score.by_place
        ):
            return False
        return not (
            lookup.dropout or lookup.bias or shares(lookup.query, key) > 1
        ) and align.picks(lookup.query, key)

    def read(self, lookup: Lookup) -> Read:
        memory, query, align = lookup.memory, lookup.query, lookup.align
        assert isinstance(align, Local)
        like = (
            memory.key[..., 0]
            .unsqueeze(-2)
            .expand(*query.shape[:-1], memory.key.shape[-2])
        )
        near = align.near(like, memory.mask, query, lookup.state)
        pick = partial(picked, places=near.places.movedim(-2, 0))
        ready = None if memory.exponentials is None else pick(memory.exponentials)
        windows = Memory(pick(memory.key), pick(memory.value), exponentials=ready)
        scores = score_memory(
            lookup.score, query.movedim(-2, 0).unsqueeze(-2), windows
        )  # (query, *batch, 1, near)
        weights = (
            near.weigh(scores.squeeze(-2).movedim(0, -2)).movedim(-2, 0).unsqueeze(-2)
        )
        return Read(mix(weights, windows.value).squeeze(-2).movedim(0, -2), near.state)


class OneValue(Path):
    """Hard alignment at inference: the value of the best key is read, and no other."""

    def serves(self, lookup: Lookup) -> bool:
        align, key = lookup.align, lookup.memory.key
        ours = unmodified(align, Hard) or unmodified(align, StraightThrough)
        if not ours or align.training or torch.is_grad_enabled() or lookup.dropout:
            return False
        return key.shape[-2] > 0 and shares(lookup.query, key) == 1

    def read(self, lookup: Lookup) -> Read:
        assert isinstance(lookup.align, Hard | StraightThrough)
        memory = lookup.memory
        scores = score_memory(lookup.score, lookup.query, memory)
        scores = scores if lookup.bias is None else scores + lookup.bias(None, None)
        return Read(
            best_value(
                lookup.align.soft(scores, memory.mask), memory.mask, memory.value
            ),
            lookup.state,
        )


FAST: tuple[Path, ...] = (
    Windowed(),
    ByDocument(),
    Flex(),
    Fused(),
    Picked(),
    OneValue(),
)
"""All of them, in the order in which they are tried."""


def first_that_serves(paths: Sequence[Path], lookup: Lookup) -> Path | None:
    """The first path that serves the lookup; None if there is none."""
    return next((path for path in paths if path.serves(lookup)), None)


def is_softmax_of_products(lookup: Lookup) -> bool:
    """Whether it is a softmax of products, by exactly our code."""
    return unmodified(lookup.score, Product) and unmodified(lookup.align, Softmax)


def expressible(lookup: Lookup) -> bool:
    """Whether FlexAttention can do the lookup, and PyTorch's other fused kernels cannot without a dense mask."""
    mask, score = lookup.memory.mask, lookup.score
    if (
        lookup.dropout
        or lookup.bias is not None
        or lookup.query.ndim != 4
        or not unmodified(lookup.align, Softmax)
    ):
        return False
    if isinstance(score, SoftCapped):
        return unmodified(score, SoftCapped) and unmodified(score.score, Product)
    return (
        unmodified(score, Product)
        and mask is not None
        and not mask.is_causal
        and mask.shape[-2] > 1
    )


def product_of(lookup: Lookup) -> Sides:
    """The two sides of a lookup by products."""
    sides = lookup.score.sides(lookup.query, lookup.memory.key)
    assert sides is not None
    return sides


def mixed(lookup: Lookup, kernel: Callable[..., Tensor]) -> Tensor:
    """The context by a fused kernel. The sides of an exact product are not rounded to the dtype of the values."""
    sides, value = product_of(lookup), lookup.memory.value
    if not sides.exact:
        return kernel(sides.query, sides.key, value, scale=sides.scale)
    with torch.autocast(value.device.type, enabled=False):
        return kernel(
            sides.query, sides.key, value.to(sides.query.dtype), scale=sides.scale
        ).to(value.dtype)
