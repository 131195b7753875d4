"""Attention with product scores on a CPU: the plain form beside PyTorch's fused one, and what `fused_is_faster` costs.

`python -m benchmarks.product_scores [SHAPE...]`, a shape being BATCHxHEADSxQUERIESxKEYSxWIDTH. One thread; the time is
that of the processor, so that other programs count little.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from einops import rearrange

from benchmarks import report
from benchmarks.aim import Aim
from regard.attention.lookup import Attend
from regard.attention.masks import causal, padding
from regard.attention.memory import Memory
from regard.attention.paths import masked
from regard.attention.scores import ScaledDot
from regard.kernels.product import fused_is_faster

TRAINING = ("64x4x16x16x64", "64x4x32x32x64", "16x4x64x64x64", "8x4x128x128x64", "4x4x256x256x64", "2x4x512x512x64")
LONG = ("1x4x1024x1024x64",)
DECODING = ("64x4x1x32x64", "64x4x1x256x64", "16x4x1x1024x64")
MASKS, DTYPES = ("none", "padding", "causal"), (torch.float32, torch.bfloat16)
QUICK = {"short": TRAINING[1:3], "long": TRAINING[4:5], "one query": DECODING[1:2]}
LIMITS = {"short": "matrix products", "long": "matrix products", "one query": "memory bandwidth"}
MOST_LOSS = 0.05
"""By how much the form that is chosen may be slower than the other."""
ROUNDS, SAMPLE = 9, 0.005
"""Samples of each form, in turn, and the least seconds of one."""


class Case(NamedTuple):
    """What is timed: reads of a prepared memory, laid out as `MultiHead` lays it out."""

    shape: str
    mask: str
    dtype: torch.dtype
    backward: bool

    def prepare(self) -> tuple[Callable[[], object], bool]:
        """One read as a call without arguments, and whether `fused_is_faster` chooses the fused form for it."""
        batch, heads, queries, keys, width = map(int, self.shape.split("x"))
        query, key, value = (
            rearrange(torch.randn(batch, size, heads * width, dtype=self.dtype), "b n (h d) -> b h n d", h=heads)
            .detach()
            .requires_grad_(self.backward)
            for size in (queries, keys, keys)
        )
        lengths = torch.randint(keys // 2, keys + 1, (batch,))
        masks = {
            "none": None,
            "padding": padding(lengths, keys).over_heads(),
            "causal": causal(min(queries, keys), keys),
        }
        memory = Memory(key, value, masks[self.mask], clean=False)
        attend = Attend(ScaledDot())
        gradient = torch.randn(batch, queries, heads * width, dtype=self.dtype)

        def read() -> object:
            context = rearrange(attend.read(query, memory).context, "b h t d -> b t (h d)")
            return torch.autograd.grad(context, (query, key, value), gradient) if self.backward else context

        return read, fused_is_faster(query, key, masked(memory.mask))


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Of one of so many calls, on average."""
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def both_forms(call: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of the plain and of the fused form."""
    samples: dict[bool, list[float]] = {False: [], True: []}
    times = 0
    for _ in range(ROUNDS + 1):  # the first warms up and says how many calls make a sample
        for form, found in samples.items():
            with patch("regard.attention.paths.fused_is_faster", lambda query, key, masked, form=form: form):
                found.append(seconds(call, times or 3))
        times = times or math.ceil(SAMPLE / min(samples[False] + samples[True]))
    return median(samples[False][1:]), median(samples[True][1:])


def timed(case: Case) -> dict[str, Any]:
    """One row."""
    call, chosen = case.prepare()
    plain, fused = both_forms(call)
    return {
        "shape": case.shape,
        "mask": case.mask,
        "dtype": str(case.dtype).removeprefix("torch."),
        "pass": "forward+backward" if case.backward else "forward",
        "plain_seconds": plain,
        "fused_seconds": fused,
        "chosen": "fused" if chosen else "plain",
        "loss": (fused if chosen else plain) / min(plain, fused) - 1,
    }


def measure(case: Case) -> dict[str, Any]:
    """One row, printed."""
    row = timed(case)
    plain, fused = row["plain_seconds"], row["fused_seconds"]
    times = f"{plain * 1e6:,.0f}", f"{fused * 1e6:,.0f}", f"{plain / fused:.2f}"
    loss = f"{row['loss']:.0%}" if row["loss"] else ""
    report.row(row["shape"], row["mask"], row["dtype"], row["pass"], *times, row["chosen"], loss)
    return row


def cases(shapes: Sequence[str]) -> list[Case]:
    """All of the shapes. A single query is causal whatever its mask."""
    every = [Case(*parts) for parts in product(shapes, MASKS, DTYPES, (False, True))]
    return [case for case in every if case.mask != "causal" or case.shape not in DECODING]


def aims() -> list[Aim]:
    """The quick pass: of each kind of case the one at which the form that is chosen is slowest beside the other."""
    found = []
    for name, shapes in QUICK.items():
        rows = [timed(case) for case in cases(shapes)]
        worst = max(rows, key=lambda row: row["loss"])
        case = f"product scores, {name}, {worst['shape']}, {worst['mask']}, {worst['dtype']}, {worst['pass']}"
        both = worst["plain_seconds"], worst["fused_seconds"]
        ours = both[worst["chosen"] == "fused"]
        found.append(
            Aim(
                case,
                "ms",
                1e3 * ours,
                "better of plain and SDPA",
                1e3 * min(both),
                1 / (1 + MOST_LOSS),
                None,
                LIMITS[name],
            )
        )
    return found


def main(shapes: list[str]) -> None:
    """Times the named shapes; only a run of all of them is written down."""
    torch.manual_seed(1)
    report.head("shape", "mask", "dtype", "pass", "plain us", "fused us", "plain / fused", "rule chooses", "loss")
    torch.set_num_threads(1)
    rows = [measure(case) for case in cases(shapes or (*TRAINING, *LONG, *DECODING))]
    if not shapes:
        report.write("product_scores", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
