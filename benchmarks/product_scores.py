"""Attention with product scores on a CPU: the plain form beside PyTorch's fused one, and what `fused_is_faster` costs.

`python -m benchmarks.product_scores [SHAPE...]`, a shape being BATCHxHEADSxQUERIESxKEYSxWIDTH.
"""

import math
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from einops import rearrange

from benchmarks import report
from regard.attention import Attend
from regard.kernels.product import fused_is_faster
from regard.masks import padding
from regard.memory import Memory
from regard.scores import ScaledDot

TRAINING = ("64x4x16x16x64", "64x4x32x32x64", "16x4x64x64x64", "16x4x128x128x64", "8x4x256x256x64", "4x4x512x512x64")
LONG = ("1x4x1024x1024x64",)
DECODING = ("64x4x1x32x64", "64x4x1x256x64", "16x4x1x1024x64")
ROUNDS, SAMPLE = 15, 0.005
"""Samples of each form, taken in turn, and the least seconds of one."""


class Case(NamedTuple):
    """What is timed: reads of a prepared memory, laid out as `MultiHead` lays it out."""

    shape: str
    masked: bool
    backward: bool

    def prepare(self) -> tuple[Callable[[], object], bool]:
        """One read as a call without arguments, and whether `fused_is_faster` chooses the fused form for it."""
        batch, heads, queries, keys, width = map(int, self.shape.split("x"))
        query, key, value = (
            rearrange(torch.randn(batch, size, heads * width), "b n (h d) -> b h n d", h=heads)
            .detach()
            .requires_grad_(self.backward)
            for size in (queries, keys, keys)
        )
        lengths = torch.randint(keys // 2, keys + 1, (batch,))
        memory = Memory(key, value, padding(lengths, keys).over_heads() if self.masked else None, clean=False)
        attend = Attend(ScaledDot())
        gradient = torch.randn(batch, queries, heads * width)

        def read() -> object:
            context = rearrange(attend.read(query, memory).context, "b h t d -> b t (h d)")
            return torch.autograd.grad(context, (query, key, value), gradient) if self.backward else context

        return read, fused_is_faster(query, key)


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Of one of so many calls, on average."""
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times


def both_forms(call: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of the plain and of the fused form."""
    samples: dict[bool, list[float]] = {False: [], True: []}
    times = 0
    for _ in range(ROUNDS + 1):  # the first warms up and says how many calls make a sample
        for form, found in samples.items():
            with patch("regard.attention.fused_is_faster", lambda query, key, form=form: form):
                found.append(seconds(call, times or 3))
        times = times or math.ceil(SAMPLE / min(samples[False] + samples[True]))
    return median(samples[False][1:]), median(samples[True][1:])


def measure(case: Case) -> dict[str, Any]:
    """One row, printed."""
    call, chosen = case.prepare()
    plain, fused = both_forms(call)
    loss = (fused if chosen else plain) / min(plain, fused) - 1
    mask, direction = "padding" if case.masked else "none", "forward+backward" if case.backward else "forward"
    times = f"{plain * 1e6:,.0f}", f"{fused * 1e6:,.0f}", f"{plain / fused:.2f}"
    choice = "fused" if chosen else "plain"
    report.row(case.shape, mask, direction, *times, choice, f"{loss:.0%}" if loss else "")
    figures = {"plain_seconds": plain, "fused_seconds": fused, "chosen": choice, "loss": loss}
    return {"shape": case.shape, "mask": mask, "pass": direction, **figures}


def main(shapes: list[str]) -> None:
    """Times the named shapes; only a run of all of them is written down."""
    torch.manual_seed(1)
    report.head("shape", "mask", "pass", "plain us", "fused us", "plain / fused", "rule chooses", "loss")
    rows = [
        measure(Case(shape, masked, backward))
        for shape in shapes or (*TRAINING, *LONG, *DECODING)
        for masked in (False, True)
        for backward in (False, True)
    ]
    if not shapes:
        report.write("product_scores", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
