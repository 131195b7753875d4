"""Relative positions: a score that depends on how far a key stands from the query.

A rotation turns queries and keys by their positions, so that a product depends on the distance. A bias is added to the
scores. Positions are whole numbers `(*batch, position)`; without a batch axis they are those of every row. One whole
number is the first of successive positions.
"""

import math
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn

from regard.kernels.product import part
from regard.kernels.rotary import turned
from regard.shapes import Float, Int, Scores

LARGEST_TABLE = 1 << 14
"""The most positions whose turns are kept: 16 MB at a width of 128."""


class RelativePositions(nn.Module, ABC):
    """What positions change in a lookup: by default nothing. A subclass rotates the two sides or adds a bias."""

    width: int | None = None
    """Width of the queries and keys; None for any."""
    heads: int | None = None
    """Number of heads; None for any."""

    def rotate(
        self,
        states: Float[Tensor, "*batch position width"],
        places: Int[Tensor, "..."] | int,
    ) -> Tensor:
        """Rotate queries or keys that stand at these positions, or at successive ones from this one on."""
        return states

    def bias(
        self, query: Tensor, places: Int[Tensor, "..."], keys: Int[Tensor, "..."]
    ) -> Scores | None:
        """The bias of each pair, `([*batch,] [head,] query, key)`, for queries `(*batch, [head,] query, width)` at
        `places (*batch, query)` and `keys (*batch, key)`; None for positions without one."""
        return None

    def biases(
        self, query: Tensor, places: Int[Tensor, "..."] | int, keys: Int[Tensor, "..."]
    ) -> Callable[[Sequence[int] | None, Sequence[int] | None], Tensor] | None:
        """A function that computes the bias of the heads and queries that are needed."""
        if type(self).bias is RelativePositions.bias:
            return None
        places = counted(places, query.shape[-2], query.device)

        def of(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
            found = self.bias(
                part(query, None, rows),
                places if rows is None else places[..., list(rows)],
                keys,
            )
            assert found is not None
            return (
                found if heads is None or found.ndim < 3 else part(found, heads, None)
            )

        return of


def counted(
    places: Tensor | int, count: int, device: torch.device
) -> Int[Tensor, "..."]:
    """Return `count` positions, of which only the first may be known."""
    return (
        places
        if isinstance(places, Tensor)
        else torch.arange(places, places + count, device=device)
    )


def distances(
    places: Int[Tensor, "..."], keys: Int[Tensor, "..."]
) -> Int[Tensor, "*batch 1 query key"]:
    """Key minus query, with an axis for heads: negative for keys before the query."""
    return (keys[..., None, :] - places[..., :, None]).unsqueeze(-3)


@dataclass(frozen=True)
class RotaryScaling:
    """How released models stretch a rotation to longer texts than those of its training.

    kind: `linear` divides all frequencies by `factor` (Chen 2023, 2306.15595); `ntk` multiplies the base, so that the
        slowest frequency is divided and the fastest stays; `yarn` (Peng 2023, 2309.00071, section 3.2) and `llama3`
        (Llama 3.1) divide slow frequencies, keep fast ones and interpolate between, in dimensions or in turns.
    factor: how many times longer the texts are.
    original: number of positions of the training.
    slow, fast: turns within these positions up to which a frequency is divided, and from which it stays. By default 1
        and 32 (yarn) or 4 (llama3).
    """

    kind: Literal["linear", "ntk", "yarn", "llama3"]
    factor: float
    original: int = 8192
    slow: float = 1.0
    fast: float | None = None

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise ValueError(f"factor is {self.factor}; it must be at least 1")
        if not 0 < self.slow < self.upper:
            raise ValueError(
                f"slow is {self.slow} and fast {self.upper}; expected 0 < slow < fast"
            )

    @property
    def upper(self) -> float:
        """`fast`, or its default."""
        return (
            (32.0 if self.kind == "yarn" else 4.0) if self.fast is None else self.fast
        )

    def frequencies(self, width: int, base: float) -> Float[Tensor, " half"]:
        """The frequencies of a rotation of `width` dimensions, in radians a position."""
        if self.kind == "ntk":
            return frequencies(width, base * self.factor ** (width / max(width - 2, 1)))
        plain = frequencies(width, base)
        if self.kind == "linear":
            return plain / self.factor
        kept = self._kept(plain, width, base)
        return plain * kept + plain / self.factor * (1 - kept)

    def _kept(self, plain: Tensor, width: int, base: float) -> Tensor:
        """The share of each frequency that stays."""
        if self.kind == "llama3":
            turns = self.original * plain / (2 * math.pi)
            return ((turns - self.slow) / (self.upper - self.slow)).clamp(0.0, 1.0)

        def dimension(turns: float) -> float:
            """The dimension that turns so often."""
            return (
                width
                * math.log(self.original / (2 * math.pi * turns))
                / (2 * math.log(base))
            )

        first = max(math.floor(dimension(self.upper)), 0)
        last = min(math.ceil(dimension(self.slow)), width - 1)
        return 1 - (
            (torch.arange(width // 2, dtype=plain.dtype) - first)
            / max(last - first, 0.001)
        ).clamp(0.0, 1.0)

    @property
    def length(self) -> float:
        """Factor of the turned vectors' length: yarn sharpens the softmax by it (Peng 2023, equation 22)."""
        return 0.1 * math.log(self.factor) + 1.0 if self.kind == "yarn" else 1.0


def frequencies(width: int, base: float) -> Float[Tensor, " half"]:
    """base^(-2i / width), in radians a position."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class Rotary(RelativePositions):
    """Turn each pair of dimensions (i, i + width / 2) by position times its frequency (Su 2021, 2104.09864, equation
    15, with the pairs of released models), so that q . k depends on the distance only.

    Args:
        width: width of queries and keys of a head; even.
        base: 10,000 in the paper.
        scaling: how to stretch the rotation to longer texts.

    Raises:
        ValueError: the width is odd.
    """

    frequencies: Tensor

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
                f"the width of a head is {width}, choose an even one: a rotation turns pairs of it"
            )
        plain = (
            frequencies(width, base)
            if scaling is None
            else scaling.frequencies(width, base)
        )
        self.width, self.base, self.scaling = width, base, scaling
        self.length = 1.0 if scaling is None else scaling.length
        self.register_buffer("frequencies", plain.float(), persistent=False)

    def rotate(
        self,
        states: Float[Tensor, "*batch position width"],
        places: Int[Tensor, "..."] | int,
    ) -> Tensor:
        if isinstance(places, int):
            table = self._table(states, places + states.shape[-2])
            if table is not None:
                return turned(states, table, places)
            places = counted(places, states.shape[-2], states.device)
        found = turns(places, self.frequencies, self.length).to(states.dtype)
        while (
            3 < found.ndim <= states.ndim
        ):  # positions of each row are those of all its heads
            found = found.unsqueeze(-3)
        return turned(states, found)

    def _table(
        self, states: Tensor, last: int
    ) -> Float[Tensor, "2 position width"] | None:
        """The turns of these states at positions before `last`, if they are in a table. All layers and steps share one:
        a step would spend more time on its angles than on its products."""
        own = type(self) is not Rotary  # a subclass may turn otherwise
        if own or torch.compiler.is_compiling() or last > LARGEST_TABLE:
            return None
        known, plain = max(512, 1 << (last - 1).bit_length()), self.frequencies
        return table_of_turns(
            self.width,
            self.base,
            self.scaling,
            known,
            plain.dtype,
            states.dtype,
            states.device,
        )


def turns(
    places: Int[Tensor, "*batch"], frequencies: Tensor, length: float
) -> Float[Tensor, "2 *batch width"]:
    """Return the cosines of the angles at these positions, twice, and their sines, negative and positive, times a
    length."""
    angle = places[..., None].to(frequencies) * frequencies
    cos, sin = angle.cos() * length, angle.sin() * length
    return torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)])


@lru_cache(maxsize=8)
def table_of_turns(
    width: int,
    base: float,
    scaling: RotaryScaling | None,
    size: int,
    computed: torch.dtype,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "2 position width"]:
    """Return the turns at the first `size` positions, from frequencies of the type `computed`."""
    with (
        torch.inference_mode(False),
        torch.no_grad(),
    ):  # the table outlives the mode of its first use
        plain = (
            frequencies(width, base)
            if scaling is None
            else scaling.frequencies(width, base)
        ).float()
        length = 1.0 if scaling is None else scaling.length
        return turns(
            torch.arange(size, device=device), plain.to(device, computed), length
        ).to(dtype)


class Alibi(RelativePositions):
    """-m |distance|, where the slopes m of the heads fall geometrically (Press 2022, 2108.12409, section 3): 2^(-8/n),
    2^(-16/n), ... for n heads, a power of two; for other numbers, those of the power below, then every second one of
    the power above. No parameters."""

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.heads, power = heads, 2 ** math.floor(math.log2(heads))
        slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
        slopes += [2 ** (-4 * i / power) for i in range(1, 2 * power + 1, 2)][
            : heads - power
        ]
        self.register_buffer(
            "slopes", torch.tensor(slopes)[:, None, None], persistent=False
        )

    def bias(
        self, query: Tensor, places: Int[Tensor, "..."], keys: Int[Tensor, "..."]
    ) -> Scores:
        return (-self.slopes * distances(places, keys).abs()).to(query.dtype)


class BucketedBias(RelativePositions):
    """A learned number for each head and bucket of distances (Raffel 2020, 1910.10683, section 2.1): half of the
    buckets are single distances, the others grow logarithmically up to `farthest`, and the last has all beyond.

    Args:
        heads: number of heads.
        buckets: number of buckets; with `both_sides` half of them for keys behind the query.
        farthest: the distance from which all share a bucket.
        both_sides: whether keys behind the query have buckets of their own, or share that of distance 0.
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
        self.heads, self.buckets, self.farthest, self.both_sides = (
            heads,
            buckets,
            farthest,
            both_sides,
        )
        self.table = nn.Parameter(torch.zeros(heads, buckets))

    def bucket(self, distance: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The bucket of each distance, key minus query."""
        buckets = self.buckets // 2 if self.both_sides else self.buckets
        side = (distance > 0) * buckets if self.both_sides else 0
        away = distance.abs() if self.both_sides else (-distance).clamp(min=0)
        single = buckets // 2
        growth = (
            (away.clamp(min=single) / single).log()
            / math.log(self.farthest / single)
            * (buckets - single)
        )
        return side + torch.where(
            away < single, away, (single + growth.long()).clamp(max=buckets - 1)
        )

    def bias(
        self, query: Tensor, places: Int[Tensor, "..."], keys: Int[Tensor, "..."]
    ) -> Scores:
        bucket = self.bucket(distances(places, keys)).squeeze(-3)
        return self.table[:, bucket].movedim(0, -3).to(query.dtype)


class RelativeKeys(RelativePositions):
    """q . a / sqrt(width), where a is a learned vector for each distance up to `farthest` on both sides (Shaw 2018,
    1803.02155, equation 5); distances beyond share the last one. All heads share the vectors."""

    def __init__(self, width: int, farthest: int = 16):
        super().__init__()
        self.width, self.farthest = width, farthest
        self.table = nn.Parameter(torch.randn(2 * farthest + 1, width) * width**-0.5)

    def bias(
        self, query: Tensor, places: Int[Tensor, "..."], keys: Int[Tensor, "..."]
    ) -> Scores:
        index = (
            distances(places, keys).clamp(-self.farthest, self.farthest) + self.farthest
        )
        products = query @ self.table.to(query.dtype).mT * query.shape[-1] ** -0.5
        index = index if query.ndim > 3 else index.squeeze(-3)
        return products.gather(-1, index.expand(*products.shape[:-1], index.shape[-1]))
