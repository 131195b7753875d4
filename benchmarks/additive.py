"""Additive scores on a CPU, forward and backward: as toolkits make them, `torch.compile` of that, and the fused kernel.

`python -m benchmarks.additive [plain] [SHAPE...]`, a shape being BATCHxQUERIESxKEYSxWIDTH; `plain` leaves out
`torch.compile`. One thread; medians of processor time, the forms taking turns.
"""

import ctypes
import math
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks import peers, report
from benchmarks.aim import Aim
from regard.kernels import compiler
from regard.kernels.cpu import additive_library, prepare_keys, score_additive, widest_instructions

SHAPES = ("64x13x13x256", "64x32x32x256", "32x128x128x256", "8x128x1024x256", "64x1x32x256")
"""One query is a decoder's step: keys prepared, and no gradients."""
LIMITS = dict.fromkeys(SHAPES[:2], "exponentials of queries and keys") | {SHAPES[4]: "the call, a third of the time"}
"""What takes the rest of the time in small shapes."""
SHARE = 0.6
"""The least share of the time that goes to the arithmetic of each pair, at the rates that `rates.cpp` measures."""
FORWARD, BACKWARD = 4, 11
"""Products and sums of each pair of a query and a key in each dimension, beside one inverse."""
LARGE, MAX_MEGABYTES = "8x128x1024x256", 50
"""Whose forward and backward pass may take so many megabytes beyond inputs and gradients."""
CALLS = {True: 1, False: 20}
"""Calls of a sample, by whether a shape is large."""
ROUNDS, REPEATS = 7, 100_000


def naive(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """Score as OpenNMT, Keras and AllenNLP do it: all pairs side by side, then tanh, then a product."""
    return torch.tanh(query[:, :, None] + key[:, None]) @ energy


def make_forms(shape: str, compiled: bool) -> dict[str, Callable[[], object]]:
    """Return what is timed, as calls without arguments."""
    batch, queries, keys, width = map(int, shape.split("x"))
    training = queries > 1
    leaves = [torch.randn(size, requires_grad=training) for size in ((batch, queries, width), (batch, keys, width))]
    leaves.append((torch.randn(width) / width**0.5).requires_grad_(training))
    gradient = torch.randn(batch, queries, keys)
    prepared = None if training else prepare_keys(leaves[1])

    def make_call(score: Callable[..., Tensor], *arguments: Tensor | None) -> Callable[[], object]:
        def call() -> object:
            scores = score(*leaves, *arguments)
            return torch.autograd.grad(scores, leaves, gradient) if training else scores

        return call

    forms = {"naive": make_call(naive), "fused": make_call(score_additive, prepared)}
    return forms | ({"compiled": make_call(torch.compile(naive, dynamic=False))} if compiled else {})


def time_forms(shape: str, compiled: bool) -> dict[str, float]:
    """Return the median seconds of each form."""
    batch, queries, keys, width = map(int, shape.split("x"))
    times = CALLS[batch * queries * keys * width > 1e7]

    def repeat(call: Callable[[], object]) -> Callable[[], object]:
        return lambda: [call() for _ in range(times)]

    seconds = peers.median_seconds({name: repeat(call) for name, call in make_forms(shape, compiled).items()}, ROUNDS)
    return {name: value / times for name, value in seconds.items()}


def measure_rates() -> dict[str, float]:
    """Return the seconds of one product with a sum, and of one inverse, per number."""
    program, instructions = compiler.compiler(), widest_instructions()
    assert program is not None
    assert instructions is not None
    with TemporaryDirectory() as folder:
        library, source = Path(folder) / "rates.so", Path(__file__).with_name("rates.cpp")
        command = [program, *compiler.FLAGS, *instructions.flags, str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        rates = ctypes.CDLL(str(library))
    operations = {"multiply_add": rates.multiply_add, "inverses": rates.inverses}
    for operation in operations.values():
        operation.argtypes = [ctypes.c_int64]
    calls = {name: partial(operation, REPEATS) for name, operation in operations.items()}
    numbers = REPEATS * rates.chains() * rates.lanes()
    return {name: seconds / numbers for name, seconds in peers.median_seconds(calls, ROUNDS).items()}


def least_seconds(shape: str, rates: Mapping[str, float]) -> float:
    """Return the time of a shape's arithmetic alone."""
    sizes = list(map(int, shape.split("x")))
    trains = sizes[1] > 1
    operations, inverses = (FORWARD + BACKWARD, 2) if trains else (FORWARD, 1)
    return math.prod(sizes) * (operations * rates["multiply_add"] + inverses * rates["inverses"])


def resident_bytes(name: str) -> int:
    """Return the bytes of this process, now (VmRSS) or at most (VmHWM), on Linux."""
    match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return 1024 * int(match[1])


def extra_megabytes(shape: str, form: str) -> tuple[float]:
    """Return the peak memory of a forward and backward pass beyond its inputs and gradients."""
    make_forms("2x3x5x7", compiled=False)[form]()  # loads the kernel
    call = make_forms(shape, compiled=False)[form]
    Path("/proc/self/clear_refs").write_text("5")  # begins a new peak
    before = resident_bytes("VmRSS")
    gradients: Any = call()
    return ((resident_bytes("VmHWM") - before - sum(gradient.nbytes for gradient in gradients)) / 1e6,)


def aims() -> list[Aim]:
    """Return the rows of a quick pass; nothing where there is no kernel."""
    if additive_library() is None:
        print("additive: there is no kernel to time: it needs a C++ compiler", file=sys.stderr)
        return []
    rows, rates = [], measure_rates()
    for shape in SHAPES:
        ours, least = 1e3 * time_forms(shape, compiled=False)["fused"], 1e3 * least_seconds(shape, rates)
        name, limit = f"additive scores, {shape}", LIMITS.get(shape, "")
        rows.append(Aim(name, "ms", ours, "their arithmetic alone", least, SHARE, limited_by=limit))
    if Path("/proc/self/clear_refs").exists():
        theirs, ours = (report.apart("additive", "extra_megabytes", LARGE, form)[0] for form in ("naive", "fused"))
        rows.append(Aim(f"additive scores, memory of {LARGE}", "MB", ours, "naive", theirs, most=MAX_MEGABYTES))
    return rows


def main(arguments: list[str]) -> None:
    """Time the named shapes; only a run of all of them is written down."""
    compiled, shapes = "plain" not in arguments, [argument for argument in arguments if argument != "plain"]
    if additive_library() is None:
        sys.exit("there is no kernel to time: it needs a C++ compiler")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    report.head("shape", "naive ms", "compiled ms", "fused ms", "naive / fused", "arithmetic / fused")
    rows, rates = [], measure_rates()
    for shape in shapes or SHAPES:
        seconds = time_forms(shape, compiled)
        times = [f"{seconds[name] * 1e3:.3f}" if name in seconds else "-" for name in ("naive", "compiled", "fused")]
        share = least_seconds(shape, rates) / seconds["fused"]
        report.row(shape, *times, f"{seconds['naive'] / seconds['fused']:.1f}", f"{share:.2f}")
        rows.append({"shape": shape, "seconds": seconds})
    if not arguments:
        report.write("additive", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
