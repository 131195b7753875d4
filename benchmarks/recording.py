"""What it costs that weights can be recorded: time while nobody records, memory while somebody does.

`python -m benchmarks.recording [SHAPE...]`, a shape being BATCHxLENGTHxWIDTHxHEADS. Self-attention by heads, forward,
on a CPU: our layer beside the same projections and PyTorch's fused attention written out. One thread; the time is that
of the processor. Freed memory is kept, as `regard train` keeps it: pages that are cleared anew in some calls and not in
others make more difference than what is measured.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import report
from benchmarks.aim import Aim
from regard.attention import Attend
from regard.attention.heads import MultiHead, self_attention
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import ScaledDot
from regard.experiments.measuring import peak, seconds
from regard.maps.reductions import TOGETHER, Entropy, Greatest, Reduction, Totals, Whole
from regard.training.allocator import keep_freed_memory

SHAPES = ("64x32x256x4", "8x128x256x4", "8x128x768x12", "4x512x768x12")
QUICK = "4x512x768x12"
"""A layer of BERT-base on four texts of its full length. Of small shapes the calls alone are more than a hundredth."""
MOST_COST = 0.01
"""What the layer may cost beyond the same arithmetic."""
ROUNDS = 30
LENGTH, WIDTH = 2048, 64
"""Queries and keys, and the width of the head, whose memory is measured."""
REDUCTIONS: dict[str, Reduction] = {
    "whole": Whole(),
    "arg-max": Greatest(),
    "entropy": Entropy(),
    "totals": Totals(),
}


def forms(shape: str) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Our layer, and its arithmetic on PyTorch, as calls without arguments. Raises AssertionError where they differ."""
    batch, length, width, number = map(int, shape.split("x"))
    heads, states = MultiHead(width, number), torch.randn(batch, length, width)

    def written_out() -> Tensor:
        sides = (each(states).view(batch, length, number, -1) for each in (heads.query, heads.key, heads.value))
        context = scaled_dot_product_attention(*(each.transpose(1, 2) for each in sides))
        return heads.output(context.transpose(1, 2).reshape(batch, length, width))

    def ours() -> Tensor:
        return self_attention(heads, states)

    torch.testing.assert_close(ours(), written_out(), rtol=1e-4, atol=1e-5)
    return ours, written_out


def timed(shape: str) -> tuple[float, float]:
    """Seconds of both, in turn, at their medians. This process then keeps freed memory, and has one thread."""
    keep_freed_memory()
    torch.set_num_threads(1)
    with torch.no_grad():
        ours, theirs = seconds(forms(shape), ROUNDS, least=0.0)
    return ours, theirs


def megabytes() -> dict[str, float]:
    """What all tensors of a long read take at once, by what is recorded of its weights."""
    attend, states = Attend(ScaledDot()), torch.randn(1, LENGTH, WIDTH)
    memory = Memory(states, states)

    def read() -> Tensor:
        return attend(states, memory)

    with torch.no_grad():
        found = {"nothing": peak(read) / 1e6}
        for name, reduction in REDUCTIONS.items():
            with record(attend, reduce=reduction):
                found[name] = peak(read) / 1e6
    return found


def aims() -> list[Aim]:
    """The quick pass. The limit is the result and the scores and weights of one chunk of queries."""
    ours, theirs = report.apart("recording", "timed", QUICK)
    used = megabytes()
    chunk = 2 * 4 * TOGETHER * LENGTH / 1e6
    result = LENGTH * (4 + 8) / 1e6
    return [
        Aim(
            f"recording, weights that nobody records, {QUICK}",
            "ms",
            1e3 * ours,
            "the same written out on torch",
            1e3 * theirs,
            times=1 / (1 + MOST_COST),
            limited_by="matrix products",
        ),
        Aim(
            f"recording, the arg-max of {LENGTH} x {LENGTH} weights",
            "MB",
            used["arg-max"],
            "recorded whole",
            used["whole"],
            most=round(used["nothing"] + chunk + result, 1),
        ),
    ]


def main(shapes: list[str]) -> None:
    """Times the named shapes; only a run of all of them is written down."""
    torch.manual_seed(1)
    rows: list[dict[str, Any]] = []
    report.head("batch x length x width x heads", "ours ms", "written out ms", "cost")
    for shape in shapes or SHAPES:
        ours, theirs = timed(shape)
        report.row(shape, f"{1e3 * ours:.2f}", f"{1e3 * theirs:.2f}", f"{ours / theirs - 1:.1%}")
        rows.append({"shape": shape, "seconds": ours, "written_out_seconds": theirs})
    if shapes:
        return
    print()
    report.head("recorded", "MB")
    for name, used in (found := megabytes()).items():
        report.row(name, f"{used:.2f}")
    report.write("recording", rows, megabytes=found)


if __name__ == "__main__":
    main(sys.argv[1:])
