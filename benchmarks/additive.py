"""Additive scores on a CPU, forward and backward: as toolkits make them, torch.compile of that, and the fused kernel.

`python -m benchmarks.additive [plain] [SHAPE...]`, a shape being BATCHxQUERIESxKEYSxWIDTH; `plain` leaves out
torch.compile. Of one thread (OMP_NUM_THREADS=1) the times are those that it had a processor, of more those on the wall.
"""

import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks import report
from benchmarks.aim import Aim
from regard.kernels.additive import exponentials, fused_additive, library

AIMS = {"64x13x13x256": 10, "64x32x32x256": 10, "32x128x128x256": 50, "8x128x1024x256": 50, "64x1x32x256": 20}
"""How many times faster than the naive form. One query is a decoder's step: keys prepared, and no gradients."""
LARGE, MOST = "8x128x1024x256", 50
"""Whose forward and backward pass may take so many megabytes beyond inputs and gradients."""
FORMS = "naive", "fused"
PAIRS = "a reciprocal for each pair and dimension"
ROUNDS, SAMPLE, LONG = 9, 0.02, 0.5
"""Samples of each form, in turn, the least seconds of one, and a call's seconds from which on 3 are enough."""
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


def timed(shape: str, compiled: bool) -> dict[str, float]:
    """Seconds of each form, medians of samples in turn."""
    calls = forms(shape, compiled)
    first = {name: min(seconds(call), seconds(call)) for name, call in calls.items()}  # warms up
    times = {name: math.ceil(SAMPLE / each) for name, each in first.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(3 if max(first.values()) > LONG else ROUNDS):
        for name, call in calls.items():
            samples[name].append(seconds(call, times[name]))
    return {name: median(each) for name, each in samples.items()}


def resident(name: str) -> int:
    """Bytes of this process, now (VmRSS) or at most (VmHWM), on Linux."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def beyond(shape: str, form: str) -> tuple[float]:
    """Megabytes of this process that a forward and backward pass takes at most beyond its inputs and gradients."""
    forms("2x3x5x7", compiled=False)[form]()  # what is loaded once
    call = forms(shape, compiled=False)[form]
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    gradients: Any = call()
    return ((resident("VmHWM") - before - sum(each.nbytes for each in gradients)) / 1e6,)


def aims() -> list[Aim]:
    """The quick pass, without torch.compile; nothing where there is no kernel."""
    if library() is None:
        print("additive: there is no kernel to time: it needs a C++ compiler", file=sys.stderr)
        return []
    found = []
    for shape, times in AIMS.items():
        took = timed(shape, compiled=False)
        found.append(
            Aim(
                f"additive scores, {shape}",
                "ms",
                1e3 * took["fused"],
                "naive",
                1e3 * took["naive"],
                times,
                limited_by=PAIRS,
            )
        )
    if not Path("/proc/self/clear_refs").exists():
        return found
    theirs, ours = (report.apart("additive", "beyond", LARGE, form)[0] for form in FORMS)
    return [*found, Aim(f"additive scores, memory of {LARGE}", "MB", ours, "naive", theirs, most=MOST)]


def measure(shape: str, compiled: bool) -> dict[str, Any]:
    """One row, printed."""
    found = timed(shape, compiled)
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
