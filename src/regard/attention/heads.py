"""Multi-head attention over any score: split, attend, merge (Vaswani 2017, section 3.2.2)."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from regard.attention.lookup import Attend, Read, check, expect_size
from regard.attention.masks import Mask, as_mask
from regard.attention.memory import Memory, Packing
from regard.attention.paths import runs
from regard.attention.scores import ScaledDot, SoftCapped
from regard.attention.scores.protocol import Product
from regard.kernels.product import over_heads
from regard.shapes import Float


class Projections(NamedTuple):
    """Queries `(batch, head, query, width)` and the prepared memory that they read. `turned`: whether the queries are
    turned by their positions."""

    query: Tensor
    memory: Memory
    turned: bool = False


class MultiHead(nn.Module):
    """H lookups at once, each with its own projections of query, key and value; their contexts are concatenated and
    projected.

        head_h = attend(W_q^h q, W_k^h k, W_v^h v)          output = W_o [head_1; ...; head_H]

    Args:
        width: width of the queries and of the output.
        heads: number of query heads H.
        attend: lookup of each head. A score with parameters is built with `heads=H` and the head width. Default
            `Attend(ScaledDot())`.
        memory_width: width of the memory's keys and values. Default `width`.
        head_width: width of one head; a pair for queries and keys of one width and values of another. Default `width /
            heads`.
        key_value_heads: number of heads of keys and values, each shared by H / key_value_heads query heads (Ainslie
            2023, 2305.13245). Default H.
        shared_key_value: use one projection for keys and values.

    Raises:
        ValueError: `heads` does not divide `width` and there is no `head_width`, or `key_value_heads` does not divide
            `heads`, or a part of `attend` was made for another width or number of heads.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        attend: Attend | None = None,
        memory_width: int | None = None,
        head_width: int | tuple[int, int] | None = None,
        key_value_heads: int | None = None,
        shared_key_value: bool = False,
    ):
        super().__init__()
        if head_width is None and width % heads:
            raise ValueError(
                f"width {width} is not divisible by {heads} heads; choose another number or give head_width"
            )
        key_value_heads = heads if key_value_heads is None else key_value_heads
        if heads % key_value_heads:
            raise ValueError(f"{heads} heads cannot share {key_value_heads} key-value heads evenly")
        head_width = width // heads if head_width is None else head_width
        head_width, value_width = head_width if isinstance(head_width, tuple) else (head_width, head_width)
        if shared_key_value and head_width != value_width:
            raise ValueError(f"one projection cannot have keys {head_width} and values {value_width} wide")
        memory_width = width if memory_width is None else memory_width
        self.heads, self.key_value_heads = heads, key_value_heads
        self.query = nn.Linear(width, heads * head_width)
        self.key = nn.Linear(memory_width, key_value_heads * head_width)
        self.value = self.key if shared_key_value else nn.Linear(memory_width, key_value_heads * value_width)
        self.output = nn.Linear(heads * value_width, width)
        self.attend = Attend(ScaledDot()) if attend is None else attend
        self.attend.check_sizes(head_width, head_width, heads)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    @property
    def widths(self) -> tuple[int, int, int]:
        """Expected widths of queries, keys and values."""
        return self.query.in_features, self.key.in_features, self.value.in_features

    def prepare(self, memory: Memory) -> Memory:
        """Project and split a memory: keys and values `(batch, group, key, head_width)`, the score's key side
        computed. Raises ValueError for keys and values of another width."""
        if memory.key.shape[-1] != self.key.in_features or memory.value.shape[-1] != self.value.in_features:
            expect_size("the map of MultiHead to keys", self.key.in_features, "the memory's key", memory.key.shape[-1])
            expect_size("the map to values", self.value.in_features, "the memory's value", memory.value.shape[-1])
        return self._prepared(*self._projected(memory), memory)

    def project(self, query: Tensor, memory: Memory) -> Projections:
        """Project and split queries `(batch, query, width)` and a memory; the first query stands where the first key
        does. Inference turns both sides in place: a new tensor of queries costs more than their rotation."""
        queries, (key, value) = self.projected_query(query), self._projected(memory)
        turned = value is not key and self._turn(queries, key, memory.places)
        return Projections(self.split_query(queries), self._prepared(key, value, memory, turned), turned)

    def _projected(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Keys and values, one tensor if they share a projection."""
        key = self.projected_key(memory.key)
        shared = self.value is self.key and memory.value is memory.key
        return key, key if shared else self.value(memory.value)

    def _prepared(self, key: Tensor, value: Tensor, memory: Memory, turned: bool = False) -> Memory:
        keys, mask, bias = self.split(key), memory.mask, memory.bias
        mask = None if mask is None else mask.over_heads()
        values = keys if value is key else self.split(value)
        grouped = Memory(keys, values, mask, places=memory.places, clean=False)
        prepared = self.attend.prepare(grouped, turned=turned)
        return prepared if bias is None else replace(prepared, bias=over_heads(bias, 3), clean=False)

    def _turn(self, query: Tensor, key: Tensor, places: Tensor | int | None) -> bool:
        """Turn projected queries and keys in place where nothing else holds them; return whether they are turned."""
        positions = self.attend.positions
        if positions is None or torch.is_grad_enabled() or isinstance(places, Tensor):
            return False
        if query.size(1) != key.size(1) or not self._owns_projections():
            return False
        return positions.rotate_in_place(query, key, places or 0)

    def _owns_projections(self) -> bool:
        """Whether projected queries and keys are new tensors that no hook has seen."""
        return runs(self.query, nn.Linear) and runs(self.key, nn.Linear)

    def split(self, states: Tensor) -> Tensor:
        """`(batch, position, group * width)` -> `(batch, group, position, width)`. Each group is repeated for its heads
        only if the score has key weights for each head or code of its own."""
        states = rearrange(states, "b s (g d) -> b g s d", g=self.key_value_heads)
        repeats, score = self.heads // self.key_value_heads, self.attend.score
        known = runs(score, Product) or runs(score, SoftCapped)
        if repeats == 1 or (score.shares_keys and known and self.attend.history is None):
            return states
        return repeat(states, "b g s d -> b (g r) s d", r=repeats)

    def split_query(self, states: Tensor) -> Tensor:
        """Projected queries `(batch, query, head * width)` -> `(batch, head, query, width)`."""
        return rearrange(states, "b t (h d) -> b h t d", h=self.heads)

    def projected_query(self, states: Tensor) -> Tensor:
        """Queries `(*batch, width)` -> `(*batch, head * width)`."""
        return self.query(states)

    def projected_key(self, states: Tensor) -> Tensor:
        """Keys `(*batch, memory_width)` -> `(*batch, group * width)`."""
        return self.key(states)

    def transformed(self, value: Tensor) -> Tensor:
        """Contribution of each single value to the output of each head, W_o^h v: `(batch, head, key, head_width)` ->
        `(batch, head, key, width)`. The output is the weighted sum of these over keys and heads, plus W_o's bias."""
        return value @ rearrange(self.output.weight, "w (h d) -> h d w", h=self.heads)

    def read(self, query: Tensor, memory: Memory, state: Any = None, *, places: Tensor | int | None = None) -> Read:
        """Read a prepared memory with queries `(batch, query, width)` at `places` -> context of the same shape."""
        split = self.split_query(self.projected_query(query))
        return self.read_projected(Projections(split, memory), state, places=places)

    def read_projected(self, sides: Projections, state: Any = None, *, places: Tensor | int | None = None) -> Read:
        """`read` with projected queries."""
        read = self.attend.read(sides.query, sides.memory, state, places=places, turned=sides.turned)
        return read._replace(context=self.output(rearrange(read.context, "b h t d -> b t (h d)")))

    def attend_self(
        self, states: Float[Tensor, "token width"], packing: Packing, mask: Mask
    ) -> Float[Tensor, "token width"]:
        """Self-attention of packed tokens: each reads its own sequence, under the `mask` of the padded batch.
        Projections are computed for real tokens only."""
        key, value = self._projected(Memory(states, states))
        laid_out = packing.unpack(key)
        value = laid_out if value is key else packing.unpack(value)
        memory = self._prepared(laid_out, value, Memory(laid_out, value, mask, clean=False))
        query = self.split_query(packing.unpack(self.projected_query(states)))
        context: Tensor = self.attend.read(query, memory).context
        return self.output(packing.pack(rearrange(context, "b h t d -> b t (h d)")))

    def forward(self, query: Float[Tensor, "..."], memory: Memory) -> Float[Tensor, "batch query width"]:
        """Queries `(batch, query, width)` over a memory of `memory_width` -> `(batch, query, width)`.

        Raises:
            ValueError: shapes, dtypes or devices do not fit together.
        """
        check(query, memory.key, memory.value, memory.mask, self.widths)
        if query.ndim != 3:
            raise ValueError(f"heads need one batch axis: (batch, query, width); got query {tuple(query.shape)}")
        return self.read_projected(self.project(query, memory)).context


def without_bias(*maps: nn.Linear) -> None:
    """Remove the biases of linear maps, such as `heads.query` and `heads.output`."""
    for each in maps:
        each.register_parameter("bias", None)


class NormalizedHeads(MultiHead):
    """Heads whose queries and keys are divided by their root mean square before the score (Henry 2020, 2010.04245), one
    learned scale for each dimension of a head; Qwen 3 has it."""

    def __init__(self, width: int, heads: int, *, epsilon: float = 1e-6, **more: Any):
        """`more` are the arguments of `MultiHead`."""
        super().__init__(width, heads, **more)
        head_width = self.query.out_features // heads
        self.query_norm, self.key_norm = nn.RMSNorm(head_width, epsilon), nn.RMSNorm(head_width, epsilon)

    def projected_query(self, states: Tensor) -> Tensor:
        return self._normalized(self.query(states), self.query_norm)

    def projected_key(self, states: Tensor) -> Tensor:
        return self._normalized(self.key(states), self.key_norm)

    def _normalized(self, states: Tensor, norm: nn.RMSNorm) -> Tensor:
        return norm(states.unflatten(-1, (-1, *norm.normalized_shape))).flatten(-2)

    def _owns_projections(self) -> bool:
        return runs(self.query_norm, nn.RMSNorm) and runs(self.key_norm, nn.RMSNorm)


def self_attention(heads: MultiHead, states: Tensor, mask: Mask | Tensor | None = None) -> Tensor:
    """Each position of `(batch, position, width)` reads its own sequence, under `mask`."""
    return heads(states, Memory(states, states, None if mask is None else as_mask(mask)))
