"""Attention with product scores on a CPU beside the better of PyTorch's fused attention and plain matrix products.

`python -m benchmarks.product_scores [SHAPE...]`, a shape being BATCHxHEADSxQUERIESxKEYSxWIDTH. One thread; medians of
processor time, the forms taking turns.
"""

import sys
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import peers, report
from benchmarks.aim import Aim
from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import ScaledDot

SHAPES = ("64x4x32x32x64", "16x4x64x64x64", "4x4x256x256x64", "2x4x512x512x64", "64x4x1x256x64", "16x4x1x1024x64")
QUICK = SHAPES[1:3]
DTYPES = (torch.float32, torch.bfloat16)
MAX_RATIO = 1.25
"""How much slower than the better form ours may be."""
ROUNDS, CALLS = 9, 5


def make_forms(shape: str, dtype: torch.dtype, backward: bool) -> dict[str, Callable[[], object]]:
    """Return our read of a prepared memory, PyTorch's fused attention, and plain products."""
    batch, heads, queries, keys, width = map(int, shape.split("x"))
    query, key, value = (
        torch.randn(batch, heads, size, width, dtype=dtype, requires_grad=backward) for size in (queries, keys, keys)
    )
    attend, memory = Attend(ScaledDot()), Memory(key, value)
    gradient = torch.randn(batch, heads, queries, width, dtype=dtype)

    def make_call(form: Callable[[], Tensor]) -> Callable[[], object]:
        def call() -> object:
            context = form()
            return torch.autograd.grad(context, (query, key, value), gradient) if backward else context

        return lambda: [call() for _ in range(CALLS)]

    return {
        "ours": make_call(lambda: attend.read(query, memory).context),
        "fused": make_call(lambda: scaled_dot_product_attention(query, key, value)),
        "plain": make_call(lambda: ((query @ key.mT) * width**-0.5).softmax(-1) @ value),
    }


def time_case(shape: str, dtype: torch.dtype, backward: bool) -> dict[str, float]:
    """Return the seconds of each form."""
    seconds = peers.median_seconds(make_forms(shape, dtype, backward), ROUNDS)
    return {name: value / CALLS for name, value in seconds.items()}


def aims() -> list[Aim]:
    """Return the rows of a quick pass."""
    rows = []
    for shape, dtype in product(QUICK, DTYPES):
        seconds = time_case(shape, dtype, backward=False)
        better = min(seconds["fused"], seconds["plain"])
        name = f"product scores, {shape}, {str(dtype).removeprefix('torch.')}"
        rows.append(Aim(name, "ms", 1e3 * seconds["ours"], "better of SDPA and plain", 1e3 * better, 1 / MAX_RATIO))
    return rows


def main(shapes: list[str]) -> None:
    """Time the named shapes; only a run of all of them is written down."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rows = []
    report.head("shape", "dtype", "pass", "ours us", "SDPA us", "plain us", "ours / better")
    for shape, dtype, backward in product(shapes or SHAPES, DTYPES, (False, True)):
        seconds = time_case(shape, dtype, backward)
        ratio = seconds["ours"] / min(seconds["fused"], seconds["plain"])
        kind, direction = str(dtype).removeprefix("torch."), "forward+backward" if backward else "forward"
        report.row(shape, kind, direction, *(f"{1e6 * time:,.0f}" for time in seconds.values()), f"{ratio:.2f}")
        rows.append({"shape": shape, "dtype": kind, "pass": direction, "seconds": seconds})
    if not shapes:
        report.write("product_scores", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
