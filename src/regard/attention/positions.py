"""Relative positions: a score that depends on how far a key stands from the query.

A rotation rotates queries and keys by their positions, so that a product depends on the
distance. A bias is added to the scores. Position ids are whole numbers
`(*batch, position)`; without a batch axis they are those of every row. One whole number
is the first of successive positions.
"""

import math
from abc import ABC
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.scores import Indices, Select, index_rows
from regard.shapes import Float, Ids, Int, Scores, to_float32

PositionIds = Int[Tensor, "..."]
Positions = PositionIds | int
"""Positions, or the first of successive ones."""
LARGEST_TABLE = 1 << 14
"""The most positions whose cosines are kept: 16 MB at a width of 128."""


class RelativePositions(nn.Module, ABC):
    """What positions change in a lookup: by default nothing.

    A subclass rotates the two sides or adds a bias.
    """

    width: int | None = None
    """Width of the queries and keys; None for any."""
    heads: int | None = None
    """Number of heads; None for any."""

    def rotate(
        self,
        states: Float[Tensor, "*batch position width"],
        position_ids: Positions,
    ) -> Tensor:
        """Rotate queries or keys by their positions."""
        return states

    def bias(
        self,
        query: Tensor,
        query_positions: PositionIds,
        key_positions: PositionIds,
    ) -> Scores | None:
        """Return the bias of each pair, `([*batch,] [head,] query, key)`.

        Args:
            query: Queries `(*batch, [head,] query, width)`.
            query_positions: `(*batch, query)`.
            key_positions: `(*batch, key)`.
        """
        return None

    def make_bias(
        self,
        query: Tensor,
        query_positions: Positions,
        key_positions: PositionIds,
    ) -> Select | None:
        """Return a function that computes the bias of some heads and queries."""
        if type(self).bias is RelativePositions.bias:
            return None
        positions = expand_positions(query_positions, query.shape[-2], query.device)

        def compute(heads: Indices, rows: Indices) -> Tensor:
            chosen = positions if rows is None else positions[..., list(rows)]
            bias = self.bias(index_rows(query, None, rows), chosen, key_positions)
            assert bias is not None
            return bias if bias.ndim < 3 else index_rows(bias, heads, None)

        return compute


def expand_positions(
    position_ids: Positions, count: int, device: torch.device
) -> PositionIds:
    """Return `count` positions, of which only the first may be given."""
    if isinstance(position_ids, Tensor):
        return position_ids
    return torch.arange(position_ids, position_ids + count, device=device)


def position_distances(
    query_positions: PositionIds,
    key_positions: PositionIds,
) -> Int[Tensor, "*batch 1 query key"]:
    """Return key minus query, with an axis for heads: negative for earlier keys."""
    distance = key_positions[..., None, :] - query_positions[..., :, None]
    return distance.unsqueeze(-3)


@dataclass(frozen=True)
class RotaryScaling:
    """How released models stretch a rotation to longer texts than those of its training.

    Attributes:
        kind: `linear` divides all frequencies by `factor` (Chen 2023, 2306.15595);
            `llama3` (Llama 3.1) divides slow frequencies, keeps fast ones and
            interpolates between.
        factor: How many times longer the texts are.
        original: Number of positions of the training.
        slow: Full rotations within `original` positions up to which a frequency is
            divided.
        fast: Full rotations within them from which a frequency is kept.
    """

    kind: Literal["linear", "llama3"]
    factor: float
    original: int = 8192
    slow: float = 1.0
    fast: float = 4.0

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise ValueError(f"factor is {self.factor}; it must be at least 1")
        if not 0 < self.slow < self.fast:
            raise ValueError(
                f"slow is {self.slow} and fast {self.fast}; expected 0 < slow < fast"
            )

    def scale(self, frequencies: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        """Return the frequencies of the stretched rotation."""
        if self.kind == "linear":
            return frequencies / self.factor
        rotations = self.original * frequencies / (2 * math.pi)
        share = ((rotations - self.slow) / (self.fast - self.slow)).clamp(0.0, 1.0)
        return frequencies * share + frequencies / self.factor * (1 - share)


class Rotary(RelativePositions):
    """Rotate dimensions (i, i + width / 2) by position times frequency (Su 2021, 2104.09864).

    Equation 15 with the pairs of released models, so that q . k depends on the distance
    only. Angles are computed in float32 whatever the dtype of the model.

    Args:
        width: Width of queries and keys of a head; even.
        base: 10,000 in the paper.
        scaling: How to stretch the rotation to longer texts.

    Raises:
        ValueError: The width is odd.
    """

    def __init__(
        self,
        width: int,
        *,
        base: float = 10_000.0,
        scaling: RotaryScaling | None = None,
    ):
        super().__init__()
        if width % 2:
            raise ValueError(
                f"a rotary head is {width} wide, but pairs of dimensions are rotated; "
                "choose an even width"
            )
        self.width = self.head_width = width
        self.base = base
        self.scaling = scaling

    def rotate(self, states: Tensor, position_ids: Positions) -> Tensor:
        count = states.shape[-2]
        parts = self.head_width, self.base, self.scaling
        if isinstance(position_ids, int):
            last = position_ids + count - 1
            if last < LARGEST_TABLE and not torch.compiler.is_compiling():
                size = max(512, 1 << last.bit_length())
                table = cos_sin_table(*parts, size, states.dtype, states.device)
                return rotate_pairs(states, table, position_ids)
        positions = expand_positions(position_ids, count, states.device)
        rotation = cos_sin(positions, *parts, states.dtype)
        while 3 < rotation.ndim <= states.ndim:  # all heads of a row share positions
            rotation = rotation.unsqueeze(-3)
        return rotate_pairs(states, rotation)


def rotate_pairs(states: Tensor, cos_sin: Tensor, first: int = 0) -> Tensor:
    """Rotate each pair of dimensions (i, i + width / 2): (x cos - y sin, y cos + x sin).

    Swapped halves and two products take half the time of four products.

    Args:
        states: `(*batch, position, width)`; the result has their dtype.
        cos_sin: Cosines and sines of positions, `(2, [row, 1,] position, width)`, a
            column for each dimension; sines are negative in the first half.
        first: The position in `cos_sin` of the first state.
    """
    positions, width = states.shape[-2:]
    cos, sin = cos_sin[..., first : first + positions, :].to(states.dtype)
    return (states * cos).addcmul_(states.roll(width // 2, -1), sin)


def cos_sin(
    position_ids: Ids,
    width: int,
    base: float,
    scaling: RotaryScaling | None,
    dtype: torch.dtype,
) -> Float[Tensor, "2 *batch width"]:
    """Return cosines of the angles, twice, and their sines, negative and positive."""
    # half precision cannot tell positions apart beyond 256
    precise = torch.promote_types(dtype, torch.float32)
    frequencies = compute_frequencies(width, base, scaling, position_ids.device)
    angle = position_ids[..., None].to(precise) * frequencies.to(precise)
    cos = angle.cos()
    sin = angle.sin()
    rows = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
    return torch.stack(rows).to(dtype)


@lru_cache(maxsize=32)
def compute_frequencies(
    width: int,
    base: float,
    scaling: RotaryScaling | None,
    device: torch.device,
) -> Float[Tensor, " half"]:
    """Return base^(-2i / width), in radians a position, in float32 as in released models."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if scaling is not None:
        frequencies = scaling.scale(frequencies)
    return frequencies.to(device, torch.float32)


@lru_cache(maxsize=8)
def cos_sin_table(
    width: int,
    base: float,
    scaling: RotaryScaling | None,
    size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "2 position width"]:
    """Return `cos_sin` of the first `size` positions.

    All layers and steps share it: a step would spend more time on its angles than on
    its products.
    """
    # the table outlives the mode of its first use
    with torch.inference_mode(False), torch.no_grad():
        positions = torch.arange(size, device=device)
        return cos_sin(
            positions,
            width,
            base,
            scaling,
            dtype,
        )


class Alibi(RelativePositions):
    """-m |distance|, with a slope m for each head (Press 2022, 2108.12409, section 3).

    The slopes fall geometrically: 2^(-8/n), 2^(-16/n), ... for n heads, a power of two;
    for other numbers, those of the power below, then every second one of the power
    above.
    """

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads
        power = 2 ** math.floor(math.log2(heads))
        slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
        slopes += [2 ** (-4 * i / power) for i in range(1, 2 * (heads - power), 2)]
        tensor = torch.tensor(slopes).view(-1, 1, 1)
        self.register_buffer("slopes", tensor, persistent=False)

    def bias(
        self,
        query: Tensor,
        query_positions: PositionIds,
        key_positions: PositionIds,
    ) -> Scores:
        distance = position_distances(query_positions, key_positions)
        return (-to_float32(self.slopes) * distance.abs()).to(query.dtype)


class BucketedBias(RelativePositions):
    """A learned number for each head and bucket of distances (Raffel 2020, 1910.10683).

    Section 2.1: half of the buckets are single distances, the others grow
    logarithmically up to `farthest`, and the last has all beyond.

    Args:
        heads: Number of heads.
        buckets: Number of buckets; with `both_sides` half of them for later keys.
        farthest: The distance from which all share a bucket.
        both_sides: Whether keys behind the query have buckets of their own, or share
            that of distance 0.
    """

    def __init__(
        self,
        heads: int,
        buckets: int = 32,
        farthest: int = 128,
        *,
        both_sides: bool = True,
    ):
        super().__init__()
        self.heads = heads
        self.buckets = buckets
        self.farthest = farthest
        self.both_sides = both_sides
        self.table = nn.Parameter(torch.zeros(heads, buckets))

    def bucket(self, distance: PositionIds) -> PositionIds:
        """Return the bucket of each distance, key minus query."""
        if self.both_sides:
            buckets = self.buckets // 2
            offset = (distance > 0) * buckets
            size = distance.abs()
        else:
            buckets = self.buckets
            offset = torch.zeros_like(distance)
            size = (-distance).clamp(min=0)
        single = buckets // 2
        growth = (size.clamp(min=single) / single).log()
        growth = growth / math.log(self.farthest / single) * (buckets - single)
        large = (single + growth.long()).clamp(max=buckets - 1)
        return offset + torch.where(size < single, size, large)

    def bias(
        self,
        query: Tensor,
        query_positions: PositionIds,
        key_positions: PositionIds,
    ) -> Scores:
        distance = position_distances(query_positions, key_positions)
        bias = self.table[:, self.bucket(distance).squeeze(-3)].movedim(0, -3)
        return bias.to(query.dtype)


class RelativeKeys(RelativePositions):
    """q . a / sqrt(width), with a learned vector a for each distance (Shaw 2018, 1803.02155).

    Equation 5. Distances beyond `farthest` on either side share the last vector; all
    heads share the vectors.
    """

    def __init__(self, width: int, farthest: int = 16):
        super().__init__()
        self.width = width
        self.farthest = farthest
        self.table = nn.Parameter(torch.randn(2 * farthest + 1, width) * width**-0.5)

    def bias(
        self,
        query: Tensor,
        query_positions: PositionIds,
        key_positions: PositionIds,
    ) -> Scores:
        distance = position_distances(query_positions, key_positions)
        index = distance.clamp(-self.farthest, self.farthest) + self.farthest
        if query.ndim <= 3:
            index = index.squeeze(-3)
        table = self.table.to(query.dtype)
        products = query @ table.mT * query.shape[-1] ** -0.5
        shape = *products.shape[:-1], index.shape[-1]
        return products.gather(-1, index.expand(shape))
