"""Multi-head attention over any score, and causal self-attention with a KV cache.

Split, attend, merge (Vaswani 2017, section 3.2.2).
"""

from dataclasses import replace
from typing import Any

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from regard.attention.attend import Attend, Read
from regard.attention.masks import Mask, as_mask, window
from regard.attention.memory import (
    HEADS,
    KVCache,
    Memory,
    Packing,
    check_inputs,
    expect_size,
)
from regard.attention.observer import current_observer
from regard.attention.positions import RelativePositions
from regard.attention.scores import Product, ScaledDot, Select, is_unmodified
from regard.errors import InputError
from regard.shapes import Float, States

Heads = Float[Tensor, "batch head position _"]
Packed = Float[Tensor, "token width"]


class MultiHead(nn.Module):
    """H lookups at once, each with its own projections of query, key and value.

    head_h = attend(W_q^h q, W_k^h k, W_v^h v)     output = W_o [head_1; ...; head_H]

    Args:
        width: Width of the queries and of the output.
        heads: Number of query heads H.
        attend: Lookup of each head. A score with parameters is built with `heads=H` and
            the head width. By default `Attend(ScaledDot())`.
        positions: What the distance of a query and a key changes, see
            `regard.attention.positions`.
        memory_width: Width of the memory's keys and values. By default `width`.
        head_width: Width of one head; a pair for queries and keys of one width and
            values of another. By default `width / heads`.
        key_value_heads: Number of heads of keys and values, each shared by H /
            key_value_heads query heads (Ainslie 2023, 2305.13245). By default H.
        shared_key_value: Whether keys and values share one projection.

    Raises:
        ValueError: `heads` does not divide `width` and there is no `head_width`, or
            `key_value_heads` does not divide `heads`, or a part of `attend` was made
            for another width or number of heads.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        attend: Attend | None = None,
        positions: RelativePositions | None = None,
        memory_width: int | None = None,
        head_width: int | tuple[int, int] | None = None,
        key_value_heads: int | None = None,
        shared_key_value: bool = False,
    ):
        super().__init__()
        key_value_heads = key_value_heads or heads
        sizes = head_width or width // heads
        key_width, value_width = sizes if isinstance(sizes, tuple) else (sizes, sizes)
        problem = ""
        if head_width is None and width % heads:
            problem = (
                f"width {width} is not divisible by {heads} heads; give head_width"
            )
        elif heads % key_value_heads:
            problem = (
                f"{heads} heads cannot share {key_value_heads} key-value heads evenly"
            )
        elif shared_key_value and key_width != value_width:
            problem = f"one projection cannot be {key_width} and {value_width} wide"
        if problem:
            raise ValueError(problem)
        memory_width = memory_width or width
        self.heads = heads
        self.key_value_heads = key_value_heads
        self.query = nn.Linear(width, heads * key_width)
        self.key = nn.Linear(memory_width, key_value_heads * key_width)
        self.value = self.key
        if not shared_key_value:
            self.value = nn.Linear(memory_width, key_value_heads * value_width)
        self.output = nn.Linear(heads * value_width, width)
        self.attend = Attend(ScaledDot()) if attend is None else attend
        self.attend.check_sizes(key_width, key_width, heads)
        self.positions = positions
        if positions is not None:
            name = f"the positions {type(positions).__name__}"
            expect_size(name, positions.width, "the query", key_width)
            expect_size(
                name,
                positions.heads,
                "the attention",
                heads,
                HEADS,
            )
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    @property
    def widths(self) -> tuple[int, int, int]:
        """Expected widths of queries, keys and values."""
        return self.query.in_features, self.key.in_features, self.value.in_features

    def normalize_query(self, states: Tensor) -> Tensor:
        """Normalize projected queries, by default not at all; a subclass may."""
        return states

    def normalize_key(self, states: Tensor) -> Tensor:
        """Normalize projected keys, by default not at all; a subclass may."""
        return states

    def project_queries(
        self,
        states: Tensor,
        position_ids: Tensor | int = 0,
    ) -> Heads:
        """Project, split and rotate states `(batch, query, width)` at these positions."""
        return self._split_queries(self._project_query(states), position_ids)

    def prepare(self, memory: Memory) -> Memory:
        """Project and split a memory, rotate its keys, compute the score's key side.

        Returns:
            A memory of keys and values `(batch, group, key, head_width)`.

        Raises:
            ValueError: Keys or values have another width.
        """
        for name, linear, states in (
            ("key", self.key, memory.key),
            ("value", self.value, memory.value),
        ):
            if linear.in_features != states.shape[-1]:
                part = f"the map of MultiHead to {name}s"
                size = states.shape[-1]
                expect_size(part, linear.in_features, f"the memory's {name}", size)
        return self._prepare_projected(*self._project_memory(memory), memory)

    def _project_query(self, states: Tensor) -> Tensor:
        return self.normalize_query(self.query(states))

    def _project_memory(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return keys and values, one tensor if they are equal."""
        key = self.key(memory.key)
        shared = self.value is self.key and memory.value is memory.key
        value = key if shared else self.value(memory.value)
        return self.normalize_key(key), value

    def _split_queries(self, states: Tensor, position_ids: Tensor | int) -> Tensor:
        queries = rearrange(states, "b t (h d) -> b h t d", h=self.heads)
        if self.positions is None:
            return queries
        return self.positions.rotate(queries, position_ids)

    def _prepare_projected(self, key: Tensor, value: Tensor, memory: Memory) -> Memory:
        mask = memory.mask
        bias = memory.bias
        keys = self.split_groups(key)
        values = keys if value is key else self.split_groups(value)
        if self.positions is not None:
            keys = self.positions.rotate(keys, memory.query_positions(keys.shape[-2]))
        if bias is not None and bias.ndim == 3:
            bias = bias.unsqueeze(-3)
        split = Memory(
            keys,
            values,
            None if mask is None else mask.with_head_axis(),
            position_ids=memory.position_ids,
            bias=bias,
            zero_masked=False,
        )
        return self.attend.prepare(split)

    def split_groups(self, states: States) -> Heads:
        """Split projected keys or values into their heads.

        Each group is repeated for its query heads only if the score has weights of each
        head for the keys, or code of its own.
        """
        groups = rearrange(states, "b s (g d) -> b g s d", g=self.key_value_heads)
        repeats = self.heads // self.key_value_heads
        score = self.attend.score
        shareable = is_unmodified(score, Product) and score.supports_shared_keys
        if repeats == 1 or (shareable and self.attend.constant_keys):
            return groups
        return repeat(groups, "b g s d -> b (g r) s d", r=repeats)

    def transform_values(self, value: Heads) -> Tensor:
        """Return what each single value adds to the output of its head, W_o^h v.

        The result is `(batch, head, key, width)`.

        The output is the weighted sum of these over keys and heads, plus W_o's bias.
        """
        return value @ rearrange(self.output.weight, "w (h d) -> h d w", h=self.heads)

    def make_bias(
        self,
        queries: Tensor,
        memory: Memory,
        position_ids: Tensor | int,
    ) -> Select | None:
        """Return the positions' bias of the scores; None if they have none."""
        if self.positions is None:
            return None
        return self.positions.make_bias(queries, position_ids, memory.key_positions())

    def read(
        self,
        query: Tensor,
        memory: Memory,
        state: Any = None,
        *,
        position_ids: Tensor | int | None = None,
    ) -> Read:
        """Read a prepared memory with queries `(batch, query, width)`.

        Args:
            query: The queries.
            memory: The memory, from `prepare`.
            state: The alignment's state; None at the first step.
            position_ids: Positions of the queries, `([batch,] query)`, or the first of
                them. By default those of the first keys.
        """
        if position_ids is None:
            position_ids = memory.query_positions(query.shape[1])
        queries = self.project_queries(query, position_ids)
        return self.read_queries(queries, memory, state, position_ids)

    def read_queries(
        self,
        queries: Heads,
        memory: Memory,
        state: Any = None,
        position_ids: Tensor | int = 0,
    ) -> Read:
        """Read a prepared memory with queries from `project_queries`."""
        bias = self.make_bias(queries, memory, position_ids)
        read = self.attend.read(queries, memory, state, bias=bias)
        context = rearrange(read.context, "b h t d -> b t (h d)")
        return read._replace(context=self.output(context))

    def attend_self(self, states: Packed, packing: Packing, mask: Mask) -> Packed:
        """Let packed tokens attend to their own sequence, under the padded batch's mask.

        Projections are computed for real tokens only.
        """
        projected = self._project_memory(Memory(states, states))
        key = packing.unpack(projected[0])
        value = key if projected[1] is projected[0] else packing.unpack(projected[1])
        padded = Memory(key, value, mask, zero_masked=False)
        memory = self._prepare_projected(key, value, padded)
        query = packing.unpack(self._project_query(states))
        queries = self._split_queries(query, 0)
        bias = self.make_bias(queries, memory, 0)
        context = self.attend.read(queries, memory, bias=bias).context
        context = rearrange(context, "b h t d -> b t (h d)")
        return self.output(packing.pack(context))

    def forward(
        self,
        query: Float[Tensor, "..."],
        memory: Memory,
    ) -> States:
        """Read a memory of `memory_width` with queries `(batch, query, width)`.

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
        if query.ndim != 3:
            raise ValueError(
                "heads need one batch axis: (batch, query, width); got query "
                f"{tuple(query.shape)}"
            )
        position_ids = memory.query_positions(query.shape[1])
        queries = self.project_queries(query, position_ids)
        prepared = self.prepare(memory)
        return self.read_queries(queries, prepared, None, position_ids).context


def remove_bias(*maps: nn.Linear) -> None:
    """Remove the biases of linear maps, such as `heads.query` and `heads.output`."""
    for linear in maps:
        linear.register_parameter("bias", None)


class NormalizedHeads(MultiHead):
    """Heads that normalize queries and keys before the score (Henry 2020, 2010.04245).

    Both are divided by their root mean square, with one learned scale for each
    dimension of a head, as in Qwen 3.

    Args:
        width: Width of the queries and of the output.
        heads: Number of query heads.
        epsilon: Added to the mean square.
        options: Further arguments of `MultiHead`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        epsilon: float = 1e-6,
        **options: Any,
    ):
        super().__init__(width, heads, **options)
        head_width = self.query.out_features // heads
        self.query_norm = nn.RMSNorm(head_width, epsilon)
        self.key_norm = nn.RMSNorm(head_width, epsilon)

    def normalize_query(self, states: Tensor) -> Tensor:
        return _normalize_heads(states, self.query_norm)

    def normalize_key(self, states: Tensor) -> Tensor:
        return _normalize_heads(states, self.key_norm)


def _normalize_heads(states: Tensor, norm: nn.RMSNorm) -> Tensor:
    return norm(states.unflatten(-1, (-1, *norm.normalized_shape))).flatten(-2)


def self_attention(
    heads: MultiHead,
    states: Tensor,
    mask: Mask | Tensor | None = None,
) -> Tensor:
    """Let each position of `(batch, position, width)` attend to its own sequence."""
    allowed = None if mask is None else as_mask(mask)
    return heads(states, Memory(states, states, allowed))


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
