"""Growth of time and memory of each mechanism with length, batch, width and heads."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from regard.experiments.finding import Finding
from regard.experiments.measuring import one_thread, peak, seconds, step
from regard.experiments.mechanisms import MECHANISMS, Mechanism, Sizes, Terms
from regard.experiments.setting import Setting
from regard.pictures.chart import Pairs

CLAIM = (
    "Self-attention costs N² D, cross-attention from Q positions Q N D, a recurrent layer N D². Additive attention "
    "stores N² D numbers in its plain form and N² (its weights) with its kernel; other attention stores N² if it "
    "keeps its weights, and a fused kernel keeps neither. Times are those of forward and backward pass in one thread; "
    "memory is the peak of tensors beyond the inputs. B is the batch, N the length, D the width of all heads, H their "
    "number, Q = 32, W = 17 keys in a window."
)
FITTED = 3
"""The number of largest sizes for the fit of an exponent; at small sizes the overhead of a call dominates."""
NUMBER = 4
"""Bytes of a number."""


class Point(NamedTuple):
    """A size and its cost in milliseconds and megabytes."""

    size: int
    time: float
    memory: float


def cost(setting: Setting) -> Finding:
    """A row per mechanism and varied size (the others as in `Sizes`): the exponents of its operation count and of its
    measured time over the largest sizes, and the same for memory."""
    sweeps = SWEEPS_FULL if setting.full else SWEEPS
    limit, rounds = (2**32, 9) if setting.full else (2**28, 5)
    rows = []
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for name, mechanism in MECHANISMS.items():
            for by, values in sweeps.items():
                if by == "heads" and "H" not in "".join(mechanism.operations):
                    continue
                sizes = [replace(Sizes(), **{by: value}) for value in values]
                sizes = [
                    each
                    for each in sizes
                    if NUMBER * each.count(mechanism.stored) <= limit
                ]
                rows.append(
                    row(
                        name,
                        mechanism,
                        by,
                        sizes,
                        measured(mechanism, by, sizes, rounds),
                    )
                )
    return Finding(CLAIM, COLUMNS, rows, charts(rows))


SWEEPS = {
    "heads": (1, 2, 4, 8, 16),
    "batch": (1, 2, 4, 8),
    "width": (16, 32, 64, 128, 256),
    "length": (64, 128, 256, 512, 1024),
}
SWEEPS_FULL = {
    "heads": (1, 2, 4, 8, 16, 32),
    "batch": (1, 2, 4, 8, 16, 32),
    "width": (16, 32, 64, 128, 256, 512, 1024),
    "length": (64, 128, 256, 512, 1024, 2048, 4096),
}
"""Sizes to vary one at a time, with the others at their defaults. Sizes that would store more than the limit are
skipped."""
SIZES = {
    "length": "length N",
    "batch": "batch B",
    "width": "width D",
    "heads": "number of heads H",
}
"""The displayed names of the varied sizes, in the order of the charts."""
FIGURES = ("time", "ms"), ("memory", "MB")
COLUMNS = (
    *(
        "mechanism",
        "operations",
        "by",
        "time, theory",
        "time, measured",
        "memory, theory",
        "memory, measured",
    ),
    *("at", "ms", "MB"),
)


def measured(
    mechanism: Mechanism, by: str, sizes: Sequence[Sizes], rounds: int
) -> list[Point]:
    """The measured cost of a mechanism at each of the sizes."""
    calls = [step(mechanism.make(each)) for each in sizes]
    memory = [peak(call) / 1e6 for call in calls]
    times = [1e3 * each for each in seconds(calls, rounds)]
    return [
        Point(getattr(each, by), *found)
        for each, *found in zip(sizes, times, memory, strict=True)
    ]


def row(
    name: str,
    mechanism: Mechanism,
    by: str,
    sizes: Sequence[Sizes],
    points: Sequence[Point],
) -> tuple:
    """The exponents, and the cost at the largest size."""
    places = [point.size for point in points]
    counted = (
        exponent(places, [each.count(terms) for each in sizes])
        for terms in mechanism[1:]
    )
    fitted = (
        exponent(places, [getattr(point, what) for point in points])
        for what in ("time", "memory")
    )
    (time_theory, memory_theory), (time, memory) = counted, fitted
    exponents = (
        round(each, 2) + 0.0 for each in (time_theory, time, memory_theory, memory)
    )
    last = points[-1]
    return (
        name,
        written(mechanism.operations),
        by,
        *exponents,
        last.size,
        last.time,
        last.memory,
    )


def exponent(sizes: Sequence[int], values: Sequence[float | int]) -> float:
    """The exponent of the growth of `values` with size: the least-squares slope of the logarithms over the largest
    sizes."""
    pairs = [
        (math.log(size), math.log(value))
        for size, value in zip(sizes, values, strict=True)
    ][-FITTED:]
    middle = [sum(each) / len(pairs) for each in zip(*pairs, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in pairs)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in pairs) / spread


def written(terms: Terms) -> str:
    """The terms without their factors: `BN²D + BHN²`."""
    powers = ("", "²", "³")
    named = []
    for letters in terms:
        above, slash, below = letters.partition("/")
        named.append(
            "".join(
                each + powers[above.count(each) - 1] for each in dict.fromkeys(above)
            )
            + slash
            + below
        )
    return " + ".join(named)


def charts(rows: Sequence[tuple]) -> list[Pairs]:
    """The growth of time and memory with each varied size, side by side."""
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    varied = {by: [each for each in found if each["by"] == by] for by in SIZES}
    return [
        grown(by, varied[by], *figure)
        for by in SIZES
        if varied[by]
        for figure in FIGURES
    ]


def grown(by: str, rows: Sequence[Mapping[str, Any]], what: str, unit: str) -> Pairs:
    """The expected and the measured exponent of each mechanism's time or memory, and the cost at the largest size, the
    most expensive first."""
    ordered = sorted(rows, key=lambda each: -each["time, measured"])
    return Pairs(
        f"how {what} grows with the {SIZES[by]}",
        f"exponent of {SIZES[by][-1]}",
        {
            each["mechanism"]: (each[f"{what}, theory"], each[f"{what}, measured"])
            for each in ordered
        },
        {
            each["mechanism"]: f"{each[unit]:.3g} {unit} at {each['at']:,}"
            for each in ordered
        },
        ("as counted", "as measured"),
    )
