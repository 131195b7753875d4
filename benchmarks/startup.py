"""How long it takes until a command answers.

`python -m benchmarks.startup`. Each command is started in turn, several times; the table has
the medians of the processor's time, in one thread, and of the clock's. Peers are measured where they are installed.
"""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import report
from benchmarks.aim import Aim

PEERS = ("joeynmt", "onmt_train", "fairseq-train", "transformers", "sockeye-train", "marian")
"""Programs of others that train and use models, each started with `--help`."""
HELP_AIM, PREDICT_AIM, SHOW_AIM = 0.3, 1.0, 1.5
ROUNDS = 5
RUN = (
    "data={kind: dates, train: 200, valid: 11, test: 13}",
    *("training.steps=3", "training.warmup=0", "training.validate_every=0"),
)


class Seconds(NamedTuple):
    """Medians, in seconds."""

    processor: float
    clock: float


def commands(run: Path) -> dict[str, list[str]]:
    """What is started, by name. The interpreter alone is what none of ours can be below."""
    ours = [sys.executable, "-m", "regard"]
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
        "regard --help": [*ours, "--help"],
        "regard --version": [*ours, "--version"],
        "regard predict": [*ours, "predict", str(run), "14 July 1989"],
        "regard show": [*ours, "show", str(run), "14 July 1989", "--out", str(run / "map.png"), "--overwrite"],
    }
    places = {name: shutil.which(name) for name in PEERS}
    return found | {f"{name} --help": [place, "--help"] for name, place in places.items() if place}


def measured(programs: Mapping[str, Sequence[str]], rounds: int = ROUNDS) -> dict[str, Seconds]:
    """Of each program, all taking turns; the first turn, which fills the disk's cache, is left out."""
    found: dict[str, list[Seconds]] = {name: [] for name in programs}
    for _ in range(rounds + 1):
        for name, program in programs.items():
            found[name].append(once(program))
    return {name: Seconds(*map(median, zip(*each[1:], strict=True))) for name, each in found.items()}


def once(program: Sequence[str]) -> Seconds:
    """One start, with the byte code that an installed package has. Raises CalledProcessError where it fails."""
    variables = report.environment(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="")
    before, began = spent(), time.perf_counter()
    subprocess.run(program, env=variables, cwd=os.sep, check=True, capture_output=True)
    return Seconds(spent() - before, time.perf_counter() - began)


def spent() -> float:
    """Seconds of processor time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def aims(rounds: int = 3) -> list[Aim]:
    """The quick pass."""
    found = measured(commands(report.trained("dates", "startup", RUN)), rounds)
    bare, torch = found["python -c pass"].processor, found["python -c 'import torch'"].processor
    rows = [
        Aim(
            "start, regard --help",
            "s",
            found["regard --help"].processor,
            "python -c pass",
            bare,
            most=HELP_AIM,
            limited_by="imports",
        ),
        *(
            Aim(
                f"start, {name}, small run",
                "s",
                found[name].processor,
                "import torch",
                torch,
                most=most,
                limited_by=limit,
            )
            for name, most, limit in (
                ("regard predict", PREDICT_AIM, "importing PyTorch"),
                ("regard show", SHOW_AIM, "importing PyTorch, then matplotlib"),
            )
        ),
    ]
    peers = [name for name in found if name.split()[0] in PEERS]
    return rows + [Aim("start, regard --help", "s", rows[0].ours, name, found[name].processor) for name in peers]


def main() -> None:
    """All of it, as a table."""
    found = measured(commands(report.trained("dates", "startup", RUN)))
    report.head("command", "processor, s", "clock, s")
    for name, seconds in found.items():
        report.row(name, f"{seconds.processor:.3f}", f"{seconds.clock:.3f}")
    report.write("startup", [{"command": name, **seconds._asdict()} for name, seconds in found.items()])


if __name__ == "__main__":
    main()
