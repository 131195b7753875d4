"""How long it takes until a command answers: `python -m benchmarks.startup`.

Commands are started in turn; the table has medians of processor time, in one thread, and of wall-clock time.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import report
from benchmarks.aim import Aim

CONVERTED = "regard predict, by CTranslate2"
AIMS = {
    "regard --help": (0.3, "importing cyclopts and rich"),
    CONVERTED: (0.6, "importing CTranslate2, pydantic and cyclopts"),
    "regard predict": (1.0, "importing PyTorch"),
    "regard show": (1.5, "importing PyTorch"),
}
ROUNDS = 5
LEARNED = "training.steps=600", "training.validate_every=0"
RUN = (
    "data={kind: dates, train: 200, valid: 11, test: 13}",
    *("training.steps=3", "training.warmup=0", "training.validate_every=0"),
)


class Seconds(NamedTuple):
    """Medians, in seconds."""

    processor: float
    clock: float


def commands() -> dict[str, list[str]]:
    """Return what is started; nothing of ours can be faster than the interpreter and importing PyTorch."""
    regard = [sys.executable, "-m", "regard"]
    run = report.trained("dates", "startup", RUN)
    converted = converted_run()
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
        "regard --help": [*regard, "--help"],
        CONVERTED: [*regard, "predict", str(converted), "14 July 1989"],
        "regard predict": [*regard, "predict", str(run), "14 July 1989"],
        "regard show": [*regard, "show", str(run), "14 July 1989", "--out", str(run / "map.png")],
    }


def converted_run() -> Path:
    """Return a Transformer that knows some dates, so that its outputs end, and that CTranslate2 has."""
    return report.trained("dates-transformer", "startup-transformer", [RUN[0].replace("200", "2000"), *LEARNED])


def measure(programs: Mapping[str, Sequence[str]], rounds: int = ROUNDS) -> dict[str, Seconds]:
    """Start programs in turn; the first round fills the disk's cache and doesn't count."""
    samples: dict[str, list[Seconds]] = {name: [] for name in programs}
    for _ in range(rounds + 1):
        for name, program in programs.items():
            samples[name].append(run_once(program))
    return {name: Seconds(*map(median, zip(*times[1:], strict=True))) for name, times in samples.items()}


def run_once(program: Sequence[str]) -> Seconds:
    """Start a program, with the byte code that an installed package has."""
    variables = report.environment(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="")
    before, began = children_seconds(), time.perf_counter()
    subprocess.run(program, env=variables, cwd=os.sep, check=True, capture_output=True)
    return Seconds(children_seconds() - before, time.perf_counter() - began)


def children_seconds() -> float:
    """Return the processor time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def aims(rounds: int = 3) -> list[Aim]:
    """Return the rows of a quick pass."""
    costs = {name: seconds.processor for name, seconds in measure(commands(), rounds).items()}
    without = "regard --help", CONVERTED
    peer = {name: "python -c pass" if name in without else "python -c 'import torch'" for name in AIMS}
    return [
        Aim(f"start, {name}", "s", costs[name], peer[name], costs[peer[name]], None, most, limit)
        for name, (most, limit) in AIMS.items()
    ]


def main() -> None:
    """Print the table and write the results."""
    seconds = measure(commands())
    report.head("command", "processor, s", "clock, s")
    for name, times in seconds.items():
        report.row(name, f"{times.processor:.3f}", f"{times.clock:.3f}")
    report.write("startup", [{"command": name, **times._asdict()} for name, times in seconds.items()])


if __name__ == "__main__":
    main()
