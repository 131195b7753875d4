"""Attention as a soft dictionary lookup: scores, weights, a mixture of values.

`attend` is the definition. A `Lookup` is the same with the parts of a trained model: a
memory that is prepared once, an alignment that carries a state from query to query, a
bias, dropout. `Attend` is the module. Where nobody needs the weights, it takes one of
the fused forms in `FUSED_FORMS`, which give the same context.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.align import Align, Draw, Hard, Softmax, softmax
from regard.attention.masks import Mask, as_mask
from regard.attention.memory import (
    HEADS,
    Memory,
    Widths,
    check_inputs,
    expect_size,
)
from regard.attention.observer import (
    OBSERVERS,
    LookupEvent,
    find_changes,
    find_observer,
    select_from,
)
from regard.attention.scores import (
    Indices,
    Product,
    ScaledDot,
    Score,
    Select,
    Sides,
    TanhSum,
    expand_groups,
    group_size,
    index_broadcast,
    index_rows,
    is_unmodified,
    multiply_groups,
)
from regard.kernels.cpu import can_fuse, dropout, prepare_keys, score_additive
from regard.kernels.windows import attend_windows, windows_save_time
from regard.shapes import Context, Float, Scores, Weights

SCALED_DOT = ScaledDot()
"""The default score."""


def attend(
    query: Float[Tensor, "..."],
    key: Float[Tensor, "..."],
    value: Float[Tensor, "..."],
    *,
    score: Score = SCALED_DOT,
    mask: Mask | Tensor | None = None,
    align: Callable[[Tensor, Mask | None], Tensor] = softmax,
) -> tuple[Context, Weights]:
    """Read a memory: score every key, turn scores into weights, mix the values.

        e_ti = score(q_t, k_i)      a_t = align(e_t)      c_t = sum_i a_ti v_i

    Args:
        query: `(*batch, query, query_width)`.
        key: `(*batch, key, key_width)`.
        value: `(*batch, key, value_width)`.
        score: The score e; `regard.attention.scores` has the common ones. Default:
            q . k / sqrt(width).
        mask: True where a query may attend to a key, broadcastable to
            `(*batch, query, key)`. A query with no allowed key gets context 0 and
            weights 0. A key hidden from every query has no influence, NaN included.
        align: Function from scores and mask to weights.

    Returns:
        The context `(*batch, query, value_width)` and the weights `(*batch, query,
        key)`. Weights have the dtype of the scores: float32 for products in float16
        and for distances in half precision.

    Raises:
        ValueError: Shapes, dtypes or devices do not fit together.
        TypeError: The mask is not boolean.
    """
    check_inputs(query, key, value, mask, score.widths)
    if mask is not None:
        mask = as_mask(mask)
    memory = Memory(key, value, mask)
    weights = align(score(query, score.prepare(memory.key)), memory.mask)
    return mix(weights, memory.value), weights


def mix(weights: Weights, value: Tensor, dropout_rate: float = 0.0) -> Context:
    """Return c_t = sum_i a_ti v_i, in the dtype of the values.

    Several heads of weights may share a head of values.
    """
    if dropout_rate:
        weights = dropout(weights, dropout_rate)
    return multiply_groups(weights.to(value.dtype), value)


class Read(NamedTuple):
    """The result of a lookup.

    Attributes:
        context: `(*batch, query, value_width)`.
        state: The alignment's state after these queries.
        weights: The weights, if they were computed.
        scores: The scores before the mask, if they were computed.
        draws: The sampled keys, for REINFORCE.
    """

    context: Context
    state: Any = None
    weights: Weights | None = None
    scores: Scores | None = None
    draws: tuple[Draw, ...] = ()


class Lookup(NamedTuple):
    """Queries `(*batch, query, query_width)` that attend to a prepared memory.

    `state` is the alignment's, `bias` is added to the scores, `dropout` is the share of
    weights to set to 0.
    """

    score: Score
    align: Align
    query: Tensor
    memory: Memory
    state: Any = None
    bias: Select | None = None
    dropout: float = 0.0

    def read(self) -> Read:
        """Read the memory by definition.

        e_ti = score(q_t, k_i) + b_ti,   a_t = align(e_t),   c_t = sum_i a_ti v_i
        """
        scores = self.compute_scores()
        if self.bias is not None:
            scores = scores + self.bias(None, None)
        aligned = self.align(scores, self.memory.mask, self.query, self.state)
        context = mix(aligned.weights, self.memory.value, self.dropout)
        draws = () if aligned.draw is None else (aligned.draw,)
        return Read(
            context,
            aligned.state,
            aligned.weights,
            scores,
            draws,
        )

    def compute_scores(self) -> Scores:
        """Score the queries against the memory, by the additive kernel if it can."""
        key = self.memory.key
        if not (is_unmodified(self.score, TanhSum) and can_fuse(key)):
            return self.score(self.query, key)
        sides = self.sides()
        assert sides.energy is not None
        return score_additive(sides.query, key, sides.energy, self.memory.exponentials)

    def sides(self) -> Sides:
        """Return the two sides of a score that has them."""
        sides = self.score.sides(self.query, self.memory.key)
        assert sides is not None
        return sides


def is_softmax_of_products(lookup: Lookup) -> bool:
    """Return whether it is a softmax of products, by exactly this library's code."""
    return is_unmodified(lookup.score, Product) and is_unmodified(lookup.align, Softmax)


def can_read_products(lookup: Lookup) -> bool:
    """Return whether PyTorch's fused attention serves the lookup.

    Training in half precision on a CPU is left to plain products: the gradients of the
    fused form are three to ten times slower there.
    """
    query = lookup.query
    is_slow = query.is_cpu and query.dtype.itemsize < 4 and query.requires_grad
    return is_softmax_of_products(lookup) and not is_slow


def has_windows(lookup: Lookup) -> bool:
    """Return whether queries attend to nearby keys only, so that blocks save time."""
    query = lookup.query
    key = lookup.memory.key
    mask = lookup.memory.mask
    window = None if mask is None else mask.local_window
    if window is None or lookup.bias is not None or group_size(query, key) > 1:
        return False
    if not is_softmax_of_products(lookup):
        return False
    return windows_save_time(query.shape[-2], key.shape[-2], *window[:2])


def keep_precision(sides: Sides) -> AbstractContextManager[Any]:
    """Return a context in which autocast does not round the sides of exact products."""
    device = sides.query.device.type
    return torch.autocast(device, enabled=False) if sides.exact else nullcontext()


def read_windows(lookup: Lookup) -> Context:
    """Read block by block, without weights of all pairs."""
    sides = lookup.sides()
    value = lookup.memory.value
    mask = lookup.memory.mask
    inputs = sides.query, sides.key, value.to(sides.query.dtype)
    assert mask is not None
    assert mask.local_window is not None
    window = mask.local_window
    allowed = None if window.keys is None else window.keys.dense()
    with keep_precision(sides):
        context = attend_windows(*inputs, window[:3], allowed, scale=sides.scale)
    return context.to(value.dtype)


def read_products(lookup: Lookup) -> Context:
    """Read by PyTorch's fused attention, which stores no weights.

    A structured mask stays small: the causal one has a name in PyTorch, and broadcast
    axes of others are not expanded. A mask of keys alone lets the query heads of a
    group be rows of one head; PyTorch would copy the keys for each.
    """
    sides = lookup.sides()
    query, key, *_ = sides
    value = lookup.memory.value
    mask = lookup.memory.mask
    shape = (*query.shape[:-1], value.shape[-1])
    causal = mask is not None and mask.is_causal and lookup.bias is None
    added = None if causal else join_bias_and_mask(lookup, query)
    inputs = pad_heads(query, key, value.to(query.dtype))
    groups = group_size(query, key)
    same_for_queries = added is None or {1} == {*added.shape[-3:-1]}
    if groups > 1 and not causal and same_for_queries:
        heads = inputs[0].unflatten(-3, (key.shape[-3], groups))
        inputs[0] = heads.flatten(-3, -2)
        groups = 1
    with keep_precision(sides):
        context = functional.scaled_dot_product_attention(
            *inputs,
            attn_mask=added,
            is_causal=causal,
            scale=sides.scale,
            enable_gqa=groups > 1,
        )
    context = context[..., : shape[-1]].reshape(shape)
    return context.to(value.dtype)


def join_bias_and_mask(lookup: Lookup, query: Tensor) -> Tensor | None:
    """Return what PyTorch's fused attention adds to scores, or which it allows."""
    mask = lookup.memory.mask
    added = None if mask is None else mask.dense()
    if lookup.bias is not None:
        bias = lookup.bias(None, None).to(query.dtype)
        added = bias if added is None else bias.masked_fill(~added, -torch.inf)
    if added is not None and added.ndim == 3:
        added = added.unsqueeze(-3 if query.ndim == 3 else 0)
    return added


def pad_heads(*sides: Tensor) -> list[Tensor]:
    """Return sides with four axes and the same width, as the fused kernels need."""
    width = max(side.shape[-1] for side in sides)
    padded = []
    for side in sides:
        if side.shape[-1] < width:
            side = functional.pad(side, (0, width - side.shape[-1]))
        while side.ndim < 4:
            side = side.unsqueeze(-3)
        padded.append(side)
    return padded


def reads_one_key(lookup: Lookup) -> bool:
    """Return whether each query takes one value: hard attention at inference."""
    return is_unmodified(lookup.align, Hard) and not lookup.align.training


def read_one_key(lookup: Lookup) -> Context:
    """Fetch the value of the best key, without weights and a sum over all values."""
    scores = lookup.compute_scores()
    if lookup.bias is not None:
        scores = scores + lookup.bias(None, None)
    if lookup.memory.mask is not None:
        scores = scores.masked_fill(~lookup.memory.mask.dense(), -torch.inf)
    value = lookup.memory.value
    if not scores.shape[-1]:  # nothing to choose from: zeros
        return mix(scores, value)
    value = expand_groups(value, None, group_size(lookup.query, value))
    best, keys = scores.max(-1, keepdim=True)
    context = value.gather(-2, keys.expand(*keys.shape[:-1], value.shape[-1]))
    return context.masked_fill(best == -torch.inf, 0.0)


FUSED_FORMS = (
    (has_windows, read_windows),
    (can_read_products, read_products),
    (reads_one_key, read_one_key),
)
"""The fused forms, each behind the predicate that says which lookups it serves. They
bypass the code of score and alignment, so they serve only modules whose `forward` they
know. (The kernel of additive scores is in `Lookup.compute_scores`: weights need it.)"""


def choose_fused_form(lookup: Lookup) -> Callable[[Lookup], Context] | None:
    """Return the first fused form that serves a lookup, or None.

    Dropout needs the weights. An exported graph serves all sizes, by definition.
    """
    if lookup.dropout or torch.compiler.is_exporting():
        return None
    return next((read for serves, read in FUSED_FORMS if serves(lookup)), None)


class Attend(nn.Module):
    """One score and one alignment as a module: `attend(query, memory) -> context`.

    Prepare a memory once if many calls read it: `read(query, prepare(memory))`.

    Args:
        score: How well each key matches a query.
        align: From scores to weights; by default a softmax.
        dropout: Share of weights that training sets to 0, as in the published
            Transformer, BERT, GPT-2 and ViT. Recorded weights are those before it.
    """

    fused = True
    """Whether fused forms may compute the context. Set to False, every lookup computes
    all weights. Second gradients need this: PyTorch has none of its fused attention."""
    constant_keys = True
    """Whether all queries read the same prepared keys."""

    def __init__(
        self,
        score: Score,
        align: Align | None = None,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.score = score
        self.align = Softmax() if align is None else align
        self.dropout = dropout
        self.check_sizes()

    @property
    def widths(self) -> Widths:
        """Expected widths of queries, keys and values; None accepts any.

        For queries None means the width of the keys.
        """
        query, key, value = self.score.widths
        if query is None:
            query = self.align.query_width
        return query, key, value

    def check_sizes(
        self,
        query: int | None = None,
        key: int | None = None,
        heads: int | None = None,
    ) -> None:
        """Check that the parts fit each other and these widths and heads (None: any).

        Raises:
            InputError: They do not; the message names the part.
        """
        score = self.score
        query = score.query_width if query is None else query
        for kind, part in (("score", score), ("alignment", self.align)):
            name = f"the {kind} {type(part).__name__}"
            expect_size(name, part.query_width, "the query", query)
            expect_size(
                name,
                part.heads,
                "the attention",
                heads,
                HEADS,
            )
        name = f"the score {type(score).__name__}"
        expect_size(name, score.key_width, "the memory's key", key)
        if not score.depends_on_position and not (score.query_width or score.key_width):
            expect_size(f"{name} of the memory's keys", key, "the query", query)

    def prepare(self, memory: Memory) -> Memory:
        """Compute the score's key side, once per memory.

        Raises:
            ValueError: The keys have another width than the score expects.
        """
        if self.score.key_width not in (None, memory.key.shape[-1]):
            self.check_sizes(key=memory.key.shape[-1])
        key = self.score.prepare(memory.key)
        exponentials = None
        if is_unmodified(self.score, TanhSum) and can_fuse(key):
            exponentials = prepare_keys(key)
        return replace(memory, key=key, exponentials=exponentials, zero_masked=False)

    def read(
        self,
        query: Tensor,
        memory: Memory,
        state: Any = None,
        *,
        weights: bool = False,
        bias: Select | None = None,
    ) -> Read:
        """Read a prepared memory with queries `(*batch, query, query_width)`.

        Args:
            query: The queries.
            memory: The memory, from `prepare`.
            state: The alignment's state; None at the first step.
            weights: Whether the result holds the weights.
            bias: Numbers to add to the scores, beside the memory's own bias.
        """
        rate = self.dropout if self.training else 0.0
        if memory.bias is not None:
            bias = partial(add_biases, memory.bias, bias)
        lookup = Lookup(
            self.score,
            self.align,
            query,
            memory,
            state,
            bias,
            rate,
        )
        observer = None
        if OBSERVERS:
            observer = find_observer(self)
            for place in find_changes(self, (*query.shape[:-1], memory.key.shape[-2])):
                lookup = place.change_lookup(lookup)
        needs_weights = weights or (observer is not None and observer.needs_weights)
        fusible = self.fused and not needs_weights
        form = choose_fused_form(lookup) if fusible else None
        read = self.compute(lookup) if form is None else Read(form(lookup))
        if observer is not None:
            observer.receive(self, self.describe(lookup, read))
        return read if weights else Read(read.context, read.state)

    def compute(self, lookup: Lookup) -> Read:
        """Compute a lookup by its definition, without a fused form."""
        return lookup.read()

    def describe(self, lookup: Lookup, read: Read) -> LookupEvent:
        """Return the event of a lookup, for an observer.

        Weights that a fused form did not compute are computed when they are asked for.
        Keys and values that several heads share are repeated for each.
        """
        memory = lookup.memory
        groups = group_size(lookup.query, memory.key)

        def compute_scores() -> Sides | Tensor:
            kinds = Product, TanhSum
            has_sides = any(is_unmodified(lookup.score, kind) for kind in kinds)
            if has_sides and lookup.bias is None and self.constant_keys:
                sides = lookup.sides()
                return sides._replace(key=expand_groups(sides.key, None, groups))
            scores = (self.compute(lookup) if read.scores is None else read).scores
            assert scores is not None
            return scores

        def select(heads: Indices, rows: Indices) -> Weights:
            weights = (self.compute(lookup) if read.weights is None else read).weights
            assert weights is not None
            return select_from(weights)(heads, rows)

        if read.weights is None and is_softmax_of_products(lookup):
            select = partial(select_product_weights, lookup)
        value = expand_groups(memory.value, None, groups)
        queries = lookup.query.shape[-2]
        return LookupEvent(
            queries, select, value, memory.mask, compute_scores, read.draws
        )

    def forward(self, query: Float[Tensor, "..."], memory: Memory) -> Context:
        """Map queries `(*batch, query, query_width)` to contexts of the value width.

        Raises:
            ValueError: Shapes, dtypes or devices do not fit together.
        """
        check_inputs(
            query,
            memory.key,
            memory.value,
            memory.mask,
            self.widths,
        )
        return self.read(query, self.prepare(memory)).context


def add_biases(
    tensor: Tensor, bias: Select | None, heads: Indices, rows: Indices
) -> Tensor:
    """Return a memory's bias of some heads and queries, together with another bias."""
    chosen = index_broadcast(tensor, heads, rows)
    return chosen if bias is None else chosen + bias(heads, rows)


def select_product_weights(lookup: Lookup, heads: Indices, rows: Indices) -> Weights:
    """Compute the weights of some heads and queries (None: all) of long inputs."""
    sides = lookup.sides()
    mask = lookup.memory.mask
    if sides.query.ndim < 4:
        heads = None
    key = sides.key
    if heads is not None:
        key = expand_groups(key, heads, group_size(sides.query, key))
    allowed = None
    if mask is not None:
        selected = mask if rows is None else mask.select_queries(rows)
        allowed = index_broadcast(selected.dense(), heads, None)
    query = index_rows(sides.query, heads, rows)
    scores = sides._replace(query=query, key=key).scores()
    del query  # the softmax of a long read needs the memory most
    if lookup.bias is not None:
        scores = scores + lookup.bias(heads, rows)
    return softmax(scores, allowed)
