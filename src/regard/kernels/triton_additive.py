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
    size = tl.abs(x)
    is_small = size < 0.2
    small = tl.where(is_small, x, 0.0)
    y = small * small
    series = -17.0 / 315 + y * (62.0 / 2835)
    series = 2.0 / 15 + y * series
    series = -1.0 / 3 + y * series
    series = small * (1.0 + y * series)
    z = tl.exp(-2.0 * size)
    far = (1.0 - z) / (1.0 + z)
    far = tl.where(x < 0.0, -far, far)
    return tl.where(is_small, series, far)


@triton.jit
def _scores_kernel(query, key, energy, scores, sizes, BLOCK: tl.constexpr):
    # query: (batch, width, query); key: (batch, width, key)
    queries, keys, width = sizes
    row = tl.program_id(2)
    tile = tl.arange(0, BLOCK)
    t = tl.program_id(0) * BLOCK + tile
    i = tl.program_id(1) * BLOCK + tile
    is_query = t < queries
    is_key = i < keys
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    first = row * width
    for d in range(first, first + width):
        q = tl.load(query + d * queries + t, mask=is_query, other=0.0)
        k = tl.load(key + d * keys + i, mask=is_key, other=0.0)
        pair = q[:, None] + k[None, :]
        total += tl.load(energy + d) * _tanh(pair)
    query_rows = row * queries + t
    place = (query_rows * keys)[:, None] + i[None, :]
    inside = is_query[:, None] & is_key[None, :]
    tl.store(scores + place, total, mask=inside)


@triton.jit
def _sums_kernel(side, opposite, gradient, sums, sizes, steps, BLOCK: tl.constexpr):
    # side: (batch, width, row); opposite: (batch, width, column)
    rows, columns, width = sizes
    row_step, column_step = steps
    slope_sums, tangent_sums = sums
    batch = tl.program_id(2)
    tile = tl.arange(0, BLOCK)
    t = tl.program_id(0) * BLOCK + tile
    is_row = t < rows
    d = batch * width + tl.program_id(1)
    row_places = d * rows + t
    x = tl.load(side + row_places, mask=is_row, other=0.0)
    x = x[:, None]
    gradient_rows = gradient + batch * rows * columns + t * row_step
    gradient_rows = gradient_rows[:, None]
    slopes = tl.zeros((BLOCK,), dtype=tl.float32)
    tangents = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        i = first + tile
        is_column = i < columns
        inside = is_row[:, None] & is_column[None, :]
        steps_to_columns = (i * column_step)[None, :]
        g = tl.load(gradient_rows + steps_to_columns, mask=inside, other=0.0)
        y = tl.load(opposite + d * columns + i, mask=is_column, other=0.0)
        pair = x + y[None, :]
        z = tl.exp(-2.0 * tl.abs(pair))
        far = 1.0 + z
        slopes += tl.sum(g * 4.0 * z / (far * far), 1)
        tangents += tl.sum(g * _tanh(pair), 1)
    tl.store(slope_sums + row_places, slopes, mask=is_row)
    tl.store(tangent_sums + row_places, tangents, mask=is_row)


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
