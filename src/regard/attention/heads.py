"""Multi-head attention over any score: split, attend, merge (Vaswani 2017, section 3.2.2)."""

from dataclasses import replace
from typing import Any

from einops import rearrange, repeat
from torch import Tensor, nn

from regard.attention.checks import HEADS, check, expect_size
from regard.attention.history import AttendInTurn
from regard.attention.lookup import Read
from regard.attention.masks import Mask, as_mask
from regard.attention.memory import Memory, Packing
from regard.attention.module import Attend
from regard.attention.positions import RelativePositions
from regard.attention.scores import ScaledDot, SoftCapped
from regard.attention.scores.protocol import Product, unmodified
from regard.kernels.product import over_heads
from regard.shapes import Float


class MultiHead(nn.Module):
    """H lookups at once, each with its own projections of query, key and value; their contexts are concatenated and
    projected.

        head_h = attend(W_q^h q, W_k^h k, W_v^h v)          output = W_o [head_1; ...; head_H]

    Args:
        width: width of the queries and of the output.
        heads: number of query heads H.
        attend: lookup of each head. A score with parameters is built with `heads=H` and the head width. Default
            `Attend(ScaledDot())`.
        positions: what the distance of a query and a key changes (see `regard.attention.positions`).
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
        positions: RelativePositions | None = None,
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
            raise ValueError(
                f"{heads} heads cannot share {key_value_heads} key-value heads evenly"
            )
        head_width = width // heads if head_width is None else head_width
        head_width, value_width = (
            head_width if isinstance(head_width, tuple) else (head_width, head_width)
        )
        if shared_key_value and head_width != value_width:
            raise ValueError(
                f"one projection cannot have keys {head_width} and values {value_width} wide"
            )
        memory_width = width if memory_width is None else memory_width
        self.heads, self.key_value_heads = heads, key_value_heads
        self.query = nn.Linear(width, heads * head_width)
        self.key = nn.Linear(memory_width, key_value_heads * head_width)
        self.value = (
            self.key
            if shared_key_value
            else nn.Linear(memory_width, key_value_heads * value_width)
        )
        self.output = nn.Linear(heads * value_width, width)
        self.attend = Attend(ScaledDot()) if attend is None else attend
        self.attend.check_sizes(head_width, head_width, heads)
        self.positions = positions
        if positions is not None:
            expect_size(
                f"the positions {type(positions).__name__}",
                positions.width,
                "the query",
                head_width,
            )
            expect_size(
                f"the positions {type(positions).__name__}",
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

    def prepare(self, memory: Memory) -> Memory:
        """Project and split a memory: keys and values `(batch, group, key, head_width)`, keys rotated by their
        positions, the score's key side computed. Raises ValueError for keys and values of another width."""
        if (
            memory.key.shape[-1] != self.key.in_features
            or memory.value.shape[-1] != self.value.in_features
        ):
            expect_size(
                "the map of MultiHead to keys",
                self.key.in_features,
                "the memory's key",
                memory.key.shape[-1],
            )
            expect_size(
                "the map to values",
                self.value.in_features,
                "the memory's value",
                memory.value.shape[-1],
            )
        return self._prepared(*self._projected(memory), memory)

    def queries(self, states: Tensor, places: Tensor | int = 0) -> Tensor:
        """Project and split states `(batch, query, width)` that stand at `places` -> `(batch, head, query, width)`."""
        split = rearrange(
            self.projected_query(states), "b t (h d) -> b h t d", h=self.heads
        )
        return split if self.positions is None else self.positions.rotate(split, places)

    def _projected(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Keys and values, one tensor if they share a projection."""
        key = self.projected_key(memory.key)
        shared = self.value is self.key and memory.value is memory.key
        return key, key if shared else self.value(memory.value)

    def _prepared(self, key: Tensor, value: Tensor, memory: Memory) -> Memory:
        keys, mask, bias = self.split(key), memory.mask, memory.bias
        values = keys if value is key else self.split(value)
        if self.positions is not None:
            keys = self.positions.rotate(
                keys, 0 if memory.places is None else memory.places
            )
        mask = None if mask is None else mask.over_heads()
        prepared = self.attend.prepare(
            Memory(keys, values, mask, places=memory.places, clean=False)
        )
        return (
            prepared
            if bias is None
            else replace(prepared, bias=over_heads(bias, 3), clean=False)
        )

    def split(self, states: Tensor) -> Tensor:
        """`(batch, position, group * width)` -> `(batch, group, position, width)`. Each group is repeated for its heads
        only if the score has key weights for each head or code of its own."""
        states = rearrange(states, "b s (g d) -> b g s d", g=self.key_value_heads)
        repeats, score = self.heads // self.key_value_heads, self.attend.score
        known = unmodified(score, Product) or unmodified(score, SoftCapped)
        if repeats == 1 or (
            score.shares_keys and known and not isinstance(self.attend, AttendInTurn)
        ):
            return states
        return repeat(states, "b g s d -> b (g r) s d", r=repeats)

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

    def read(
        self,
        query: Tensor,
        memory: Memory,
        state: Any = None,
        *,
        places: Tensor | int | None = None,
    ) -> Read:
        """Read a prepared memory with queries `(batch, query, width)` -> context of the same shape. `places ([batch,]
        query)` are the positions of the queries, or the first of them; by default those of the first keys."""
        places = memory.first_places(query.shape[1]) if places is None else places
        return self.read_projected(self.queries(query, places), memory, state, places)

    def read_projected(
        self,
        queries: Tensor,
        memory: Memory,
        state: Any = None,
        places: Tensor | int = 0,
    ) -> Read:
        """`read` with the projected `queries` that stand at `places`."""
        bias = (
            None
            if self.positions is None
            else self.positions.biases(queries, places, memory.positions())
        )
        read = self.attend.read(queries, memory, state, bias=bias)
        return read._replace(
            context=self.output(rearrange(read.context, "b h t d -> b t (h d)"))
        )

    def attend_self(
        self, states: Float[Tensor, "token width"], packing: Packing, mask: Mask
    ) -> Float[Tensor, "token width"]:
        """Self-attention of packed tokens: each reads its own sequence, under the `mask` of the padded batch.
        Projections are computed for real tokens only."""
        key, value = self._projected(Memory(states, states))
        laid_out = packing.unpack(key)
        value = laid_out if value is key else packing.unpack(value)
        memory = self._prepared(
            laid_out, value, Memory(laid_out, value, mask, clean=False)
        )
        query = packing.unpack(self.projected_query(states))
        query = rearrange(query, "b t (h d) -> b h t d", h=self.heads)
        query = query if self.positions is None else self.positions.rotate(query, 0)
        bias = (
            None
            if self.positions is None
            else self.positions.biases(query, 0, memory.positions())
        )
        context: Tensor = self.attend.read(query, memory, bias=bias).context
        return self.output(packing.pack(rearrange(context, "b h t d -> b t (h d)")))

    def forward(
        self, query: Float[Tensor, "..."], memory: Memory
    ) -> Float[Tensor, "batch query width"]:
        """Queries `(batch, query, width)` over a memory of `memory_width` -> `(batch, query, width)`.

        Raises:
            ValueError: shapes, dtypes or devices do not fit together.
        """
        check(query, memory.key, memory.value, memory.mask, self.widths)
        if query.ndim != 3:
            raise ValueError(
                f"heads need one batch axis: (batch, query, width); got query {tuple(query.shape)}"
            )
        return self.read(query, self.prepare(memory)).context


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
        self.query_norm, self.key_norm = (
            nn.RMSNorm(head_width, epsilon),
            nn.RMSNorm(head_width, epsilon),
        )

    def projected_query(self, states: Tensor) -> Tensor:
        return self._normalized(self.query(states), self.query_norm)

    def projected_key(self, states: Tensor) -> Tensor:
        return self._normalized(self.key(states), self.key_norm)

    def _normalized(self, states: Tensor, norm: nn.RMSNorm) -> Tensor:
        return norm(states.unflatten(-1, (-1, *norm.normalized_shape))).flatten(-2)


def self_attention(
    heads: MultiHead, states: Tensor, mask: Mask | Tensor | None = None
) -> Tensor:
    """Each position of `(batch, position, width)` reads its own sequence, under `mask`."""
    return heads(
        states, Memory(states, states, None if mask is None else as_mask(mask))
    )
