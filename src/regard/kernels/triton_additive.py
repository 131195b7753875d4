"""The additive kernel for GPUs, in Triton: one tile of queries x keys per program.

Sides are stored width first, so that neighbouring threads read neighbouring numbers.
Each sum is computed by one program in a fixed order, so that results are deterministic.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

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
def _scores_kernel(query, key, energy, scores, sizes, BLOCK: tl.constexpr):
    # query: (batch, width, query); key: (batch, width, key)
    queries, keys, width = sizes
    row = tl.program_id(2)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for d in range(row * width, (row + 1) * width):
        q = tl.load(query + d * queries + t, mask=t < queries, other=0.0)
        k = tl.load(key + d * keys + i, mask=i < keys, other=0.0)
        total += tl.load(energy + d) * _tanh(q[:, None] + k[None, :])
    place = (row * queries + t[:, None]) * keys + i[None, :]
    tl.store(scores + place, total, mask=(t[:, None] < queries) & (i[None, :] < keys))


@triton.jit
def _sums_kernel(side, opposite, gradient, sums, sizes, steps, BLOCK: tl.constexpr):
    # side: (batch, width, row); opposite: (batch, width, column)
    rows, columns, width = sizes
    batch = tl.program_id(2)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = batch * width + tl.program_id(1)
    x = tl.load(side + d * rows + t, mask=t < rows, other=0.0)
    slopes = tl.zeros((BLOCK,), dtype=tl.float32)
    tangents = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        i = first + tl.arange(0, BLOCK)
        inside = (t[:, None] < rows) & (i[None, :] < columns)
        place = batch * rows * columns + t[:, None] * steps[0] + i[None, :] * steps[1]
        g = tl.load(gradient + place, mask=inside, other=0.0)
        y = tl.load(opposite + d * columns + i, mask=i < columns, other=0.0)
        pair = x[:, None] + y[None, :]
        z = tl.exp(-2.0 * tl.abs(pair))
        slopes += tl.sum(g * 4.0 * z / ((1.0 + z) * (1.0 + z)), 1)
        tangents += tl.sum(g * _tanh(pair), 1)
    tl.store(sums[0] + d * rows + t, slopes, mask=t < rows)
    tl.store(sums[1] + d * rows + t, tangents, mask=t < rows)


def scores(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """Return float32 scores `(batch, query, key)`.

    Args:
        query: `(batch, query, width)`.
        key: `(batch, key, width)`.
        energy: `(batch, width)`.
    """
    batch, queries, width = query.shape
    keys = key.shape[1]
    new = query.new_empty(
        batch,
        queries,
        keys,
        dtype=torch.float32,
    )
    if new.numel():
        grid = triton.cdiv(queries, TILE), triton.cdiv(keys, TILE), batch
        sides = _put_width_first(query), _put_width_first(key), energy.contiguous()
        _scores_kernel[grid](
            *sides,
            new,
            (queries, keys, width),
            BLOCK=TILE,
        )
    return new


def gradients(
    pull: Tensor, query: Tensor, key: Tensor, energy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return those of query, key and energy in float32, from that of the scores, `pull`."""
    pull, keys = pull.float().contiguous(), key.shape[1]
    wide_query, wide_key = _put_width_first(query), _put_width_first(key)
    by_query, tangents = _sum(
        wide_query,
        wide_key,
        pull,
        (keys, 1),
    )
    by_key, _ = _sum(
        wide_key,
        wide_query,
        pull,
        (1, keys),
    )
    of_query, of_key = (side.mT * energy[:, None] for side in (by_query, by_key))
    return of_query.contiguous(), of_key.contiguous(), tangents.sum(-1)


def _sum(
    side: Tensor, opposite: Tensor, pull: Tensor, steps: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Sum g sech^2 and g tanh over the second side, for each number of the first."""
    batch, width, rows = side.shape
    sums = torch.zeros_like(side), torch.zeros_like(side)
    if pull.numel() and width:
        grid = triton.cdiv(rows, TILE), width, batch
        sizes = rows, opposite.shape[2], width
        _sums_kernel[grid](
            side,
            opposite,
            pull,
            sums,
            sizes,
            steps,
            BLOCK=TILE,
        )
    return sums


def _put_width_first(states: Tensor) -> Tensor:
    return states.float().mT.contiguous()
