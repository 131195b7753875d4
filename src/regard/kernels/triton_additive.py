"""The additive kernel for GPUs, in Triton.

The arithmetic of `additive.cpp` with one tile of queries x keys per program.

Sides are stored width first, so that neighbouring threads read neighbouring numbers.
Each sum is computed by one program in a fixed order, so that results are deterministic.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

NEAR, FAR = 16.0, 26.0
"""See `additive.cpp`: if one side of a batch row stays within NEAR, both can be clipped
at FAR."""
TILE = 32
"""Number of queries, and of keys, in a tile."""


@triton.jit
def _tanh(x):
    """Tanh of any float32 at full precision.

    A series near 0, and exponentials that cannot overflow elsewhere.
    """
    small = tl.where(tl.abs(x) < 0.2, x, 0.0)
    y, z = small * small, tl.exp(-2.0 * tl.abs(x))
    series = small * (
        1.0 + y * (-1.0 / 3 + y * (2.0 / 15 + y * (-17.0 / 315 + y * (62.0 / 2835))))
    )
    far = (1.0 - z) / (1.0 + z)
    return tl.where(tl.abs(x) < 0.2, series, tl.where(x < 0.0, -far, far))


@triton.jit
def _pairs(exponential, less_one, s):
    """N and d of a tile, where tanh(q + k) = n / d, from 1 + a = e^2q and a of each row and s of each column."""
    size = tl.abs(s)[None, :]
    factor = tl.where(s[None, :] > 0.0, exponential[:, None], 1.0)
    return s[None, :] * factor + less_one[:, None], size * factor + (
        less_one[:, None] + 2.0
    )


@triton.jit
def _scores_kernel(query, key, weights, scores, sizes, BLOCK: tl.constexpr):
    # query: q, e^2q and e^2q - 1, each (batch, width, query); key: k and s, (batch, width, key); weights: energy, near
    queries, keys, width = sizes
    row = tl.program_id(2)
    t, i = (
        tl.program_id(0) * BLOCK + tl.arange(0, BLOCK),
        tl.program_id(1) * BLOCK + tl.arange(0, BLOCK),
    )
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    shared = tl.load(weights[1] + row) != 0
    for d in range(width):
        of_query, of_key = (row * width + d) * queries + t, (row * width + d) * keys + i
        if shared:
            e = tl.load(query[1] + of_query, mask=t < queries, other=1.0)
            a = tl.load(query[2] + of_query, mask=t < queries, other=0.0)
            n, below = _pairs(e, a, tl.load(key[1] + of_key, mask=i < keys, other=0.0))
            tangent = n / below
        else:
            q = tl.load(query[0] + of_query, mask=t < queries, other=0.0)
            k = tl.load(key[0] + of_key, mask=i < keys, other=0.0)
            tangent = _tanh(q[:, None] + k[None, :])
        total += tl.load(weights[0] + row * width + d) * tangent
    place = (row * queries + t[:, None]) * keys + i[None, :]
    tl.store(scores + place, total, mask=(t[:, None] < queries) & (i[None, :] < keys))


@triton.jit
def _sums_kernel(side, opposite, gradient, sums, sizes, steps, BLOCK: tl.constexpr):
    # one: x, e^2x and e^2x - 1, each (batch, width, row); other: the same side's k and s, (batch, width, column)
    rows, columns, width = sizes
    tile, d, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    t = tile * BLOCK + tl.arange(0, BLOCK)
    of_one = (batch * width + d) * rows + t
    x = tl.load(side[0] + of_one, mask=t < rows, other=0.0)
    e = tl.load(side[1] + of_one, mask=t < rows, other=1.0)
    a = tl.load(side[2] + of_one, mask=t < rows, other=0.0)
    shared = tl.load(gradient[1] + batch) != 0
    slope_sum, tangent_sum = (
        tl.zeros((BLOCK,), dtype=tl.float32),
        tl.zeros((BLOCK,), dtype=tl.float32),
    )
    for first in range(0, columns, BLOCK):
        i = first + tl.arange(0, BLOCK)
        inside = (t[:, None] < rows) & (i[None, :] < columns)
        of_other = (batch * width + d) * columns + i
        place = batch * rows * columns + t[:, None] * steps[0] + i[None, :] * steps[1]
        g = tl.load(gradient[0] + place, mask=inside, other=0.0)
        if shared:
            b = tl.load(opposite[1] + of_other, mask=i < columns, other=0.0)
            n, below = _pairs(e, a, b)
            tangent = n / below
            of_key = tl.where(
                (n > 0.0) == (b[None, :] > 0.0), 1.0, tl.abs(b)[None, :] + 1.0
            )
            half = tl.where(n > 0.0, 1.0, e[:, None]) * of_key / below
        else:
            y = tl.load(opposite[0] + of_other, mask=i < columns, other=0.0)
            pair = x[:, None] + y[None, :]
            tangent = _tanh(pair)
            z = tl.exp(-2.0 * tl.abs(pair))
            half = z / (1.0 + z)
        slope_sum += tl.sum(g * 4.0 * (half - half * half), 1)
        tangent_sum += tl.sum(g * tangent, 1)
    tl.store(sums[0] + of_one, slope_sum, mask=t < rows)
    tl.store(sums[1] + of_one, tangent_sum, mask=t < rows)


def exponentials(key: Tensor) -> Tensor:
    """S of keys in float32: e^2k - 1, or 1 - e^-2k for k below 0."""
    key = key.float()
    return key.sign() * key.abs().clamp(max=FAR).mul(2.0).expm1()


def scores(query: Tensor, key: Tensor, signed: Tensor, energy: Tensor) -> Tensor:
    """Return float32 scores `(batch, query, key)`.

    Args:
        query: `(batch, query, width)`.
        key: `(batch, key, width)`.
        signed: The exponentials of the keys.
        energy: `(batch, width)`.
    """
    batch, queries, width = query.shape
    keys = key.shape[1]
    new = query.new_empty(batch, queries, keys, dtype=torch.float32)
    if new.numel():
        q, k = _across(query), _across(key)
        grid = triton.cdiv(queries, TILE), triton.cdiv(keys, TILE), batch
        weights = energy.contiguous(), _near(q, k)
        _scores_kernel[grid](
            _sides(q),
            (k, _across(signed)),
            weights,
            new,
            (queries, keys, width),
            BLOCK=TILE,
        )
    return new


def gradients(
    pull: Tensor, query: Tensor, key: Tensor, signed: Tensor, energy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and energy in float32, from the gradient `pull` of the scores."""
    q, k, g = _across(query), _across(key), pull.float().contiguous()
    bounded, keys = _near(q, k), key.shape[1]
    by_query, tangents = _sums(q, (k, _across(signed)), g, bounded, (keys, 1))
    by_key, _ = _sums(k, (q, exponentials(q)), g, bounded, (1, keys))
    of_query, of_key = (side.mT * energy[:, None] for side in (by_query, by_key))
    return of_query.contiguous(), of_key.contiguous(), tangents.sum(-1)


def _sums(
    side: Tensor,
    opposite: tuple[Tensor, Tensor],
    pull: Tensor,
    bounded: Tensor,
    steps: tuple[int, int],
) -> tuple[Tensor, Tensor]:
    """Sum g sech^2 and g tanh over the second side, for each number of the first."""
    batch, width, rows = side.shape
    sums = torch.zeros_like(side), torch.zeros_like(side)
    if pull.numel() and width:
        grid = triton.cdiv(rows, TILE), width, batch
        sizes = rows, opposite[0].shape[2], width
        _sums_kernel[grid](
            _sides(side), opposite, (pull, bounded), sums, sizes, steps, BLOCK=TILE
        )
    return sums


def _across(states: Tensor) -> Tensor:
    """Transpose to width first, in float32."""
    return states.float().mT.contiguous()


def _sides(side: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x, e^2x and e^2x - 1."""
    doubled = side.clamp(-FAR, FAR) * 2.0
    return side, doubled.exp(), doubled.expm1()


def _near(query: Tensor, key: Tensor) -> Tensor:
    """1 for each batch row in which one side stays within NEAR.

    The result stays on the device, so that nothing waits for it.
    """
    within = [(side.abs() <= NEAR).flatten(1).all(1) for side in (query, key)]
    return (within[0] | within[1]).to(torch.int32)
