"""Additive scores on a CPU, forward and backward: as toolkits make them, torch.compile of that, and the fused kernel.

`python -m benchmarks.additive [plain] [SHAPE...]`, a shape being BATCHxQUERIESxKEYSxWIDTH; `plain` leaves out
torch.compile. Of one thread (OMP_NUM_THREADS=1) the times are those that it had a processor, of more those on the wall.
"""

import math
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks import report
from regard.kernels.fused_additive import exponentials, fused_additive, library

AIMS = {"64x13x13x256": 10, "64x32x32x256": 10, "32x128x128x256": 50, "8x128x1024x256": 50, "64x1x32x256": 20}
"""How many times faster than the naive form. One query is a decoder's step: keys prepared, and no gradients."""
ROUNDS, SAMPLE, LONG = 9, 0.02, 0.5
"""Samples of each form, taken in turn, the least seconds of one, and a call's seconds from which on 3 are enough."""
Form = Callable[[], object]


def naive(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """As OpenNMT, Keras and AllenNLP do it: all pairs side by side, then tanh, then a product with the energy."""
    return torch.tanh(query[:, :, None] + key[:, None]) @ energy


def forms(shape: str, compiled: bool) -> dict[str, Form]:
    """What is timed, as calls without arguments."""
    batch, queries, keys, width = map(int, shape.split("x"))
    training = queries > 1
    leaves = [torch.randn(size, requires_grad=training) for size in ((batch, queries, width), (batch, keys, width))]
    leaves.append((torch.randn(width) / width**0.5).requires_grad_(training))
    pull = torch.randn(batch, queries, keys)
    prepared = None if training else exponentials(leaves[1])

    def of(score: Callable[..., Tensor], *more: Tensor | None) -> Form:
        def call() -> object:
            scores = score(*leaves, *more)
            return torch.autograd.grad(scores, leaves, pull) if training else scores

        return call

    found = {"naive": of(naive), "fused": of(fused_additive, prepared)}
    return found | ({"compiled": of(torch.compile(naive, dynamic=False))} if compiled else {})


def seconds(call: Form, times: int = 1) -> float:
    """Of one of so many calls, on average."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    began = clock()
    for _ in range(times):
        call()
    return (clock() - began) / times


def measure(shape: str, compiled: bool) -> dict[str, Any]:
    """One row, printed."""
    calls = forms(shape, compiled)
    first = {name: min(seconds(call), seconds(call)) for name, call in calls.items()}  # warms up
    times = {name: math.ceil(SAMPLE / each) for name, each in first.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(3 if max(first.values()) > LONG else ROUNDS):
        for name, call in calls.items():
            samples[name].append(seconds(call, times[name]))
    found = {name: median(each) for name, each in samples.items()}
    ratio, aim = found["naive"] / found["fused"], AIMS.get(shape)
    times_shown = (f"{found[name] * 1e3:.3f}" if name in found else "-" for name in ("naive", "compiled", "fused"))
    met = None if aim is None else ratio >= aim
    report.row(shape, *times_shown, f"{ratio:.1f}", aim or "-", {True: "yes", False: "no", None: "-"}[met])
    return {"shape": shape, "seconds": found, "naive_over_fused": ratio, "aim": aim, "met": met}


def main(arguments: list[str]) -> None:
    """Times the named shapes; only a run of all of them, with torch.compile, is written down."""
    compiled, shapes = "plain" not in arguments, [each for each in arguments if each != "plain"]
    if library() is None:
        sys.exit("there is no kernel to time: it needs a C++ compiler")
    torch.manual_seed(1)
    print(f"{torch.get_num_threads()} threads\n")
    report.head("shape", "naive ms", "compiled ms", "fused ms", "naive / fused", "aim", "met")
    rows = [measure(shape, compiled) for shape in shapes or AIMS]
    if not arguments:
        report.write("additive", rows, threads=torch.get_num_threads())


if __name__ == "__main__":
    main(sys.argv[1:])
