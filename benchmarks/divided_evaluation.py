"""The test set of a run scored by 1, 2 and 4 processes, and a validation in training by as many; with a small set too,
for what a start takes: the figures, which are the same, and the seconds of processor of each process.

`python -m benchmarks.divided_evaluation FOLDER`: the runs, of the recipe `dates`, are in FOLDER. Exit code 1 if any
figure differs.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report

PAIRS, VALID, FEW, STEPS, BEAM = 6_000, 30_000, 20, 200, 10
PROCESSES = (1, 2, 4)
WIDE = ("model.width=320", "model.attention=320")
"""Settings of a model whose validation takes far longer than its 30,000 dates to generate."""
VALIDATED = "valid/exact-match"


def train(folder: Path, pairs: int, settings: Sequence[str] = ()) -> Path:
    """A run whose test set has so many pairs."""
    run = folder / "-".join(["run", str(pairs), *settings])
    if not (run / "result.json").exists():
        settings = (f"training.steps={STEPS}", f"data.test={pairs}", "training.threads=1", *settings)
        options = [part for each in settings for part in ("--set", each)]
        command = [sys.executable, "-m", "regard", "train", "dates", "--out", str(run), *options]
        subprocess.run(command, env=report.environment(OMP_NUM_THREADS="1"), check=True, stdout=subprocess.DEVNULL)
    return run


def evaluate(folder: Path, pairs: int, processes: int) -> tuple[dict[str, Any], list[float]]:
    """The figures of `regard evaluate`, and the seconds of processor of each process."""
    found, seconds = measured(["evaluate", str(train(folder, pairs)), "--json", "--beam", str(BEAM)], processes)
    return json.loads(found), seconds


def validate(folder: Path, pairs: int, processes: int) -> tuple[dict[str, Any], list[float]]:
    """The figures of the validation after the only update of a training from a run's weights, at a rate that
    changes none of them, and the seconds of processor of each process."""
    run = folder / f"validated-{pairs}-{processes}"
    shutil.rmtree(run, ignore_errors=True)
    start = train(folder, FEW, WIDE)
    settings = (
        "training.steps=1",
        f"data.valid={pairs}",
        "data.test=1",
        *WIDE,
        f"training.start={start}",
        "training.learning_rate=1e-30",
    )
    options = [part for each in settings for part in ("--set", each)]
    _, seconds = measured(["train", "dates", "--out", str(run), *options], processes)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {VALIDATED: result[VALIDATED]}, seconds


def measured(arguments: list[str], processes: int) -> tuple[str, list[float]]:
    """The output of a command, and the seconds of processor of each process."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else ()), "-m", "regard", *arguments]
    environment = report.environment(OMP_NUM_THREADS="1")
    process = psutil.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    seconds: dict[int, float] = {}
    while process.poll() is None:
        for each in (process.children() if processes > 1 else [process]) if process.is_running() else ():
            try:
                seconds[each.pid] = sum(each.cpu_times()[:2])
            except psutil.Error:
                continue  # it has ended
        time.sleep(0.05)
    output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"exit code {process.returncode} of {' '.join(command)}")
    return output.decode(), sorted(seconds.values(), reverse=True)[:processes]


def main(folder: Path) -> int:
    """Evaluate, validate, print and write."""
    rows: list[dict[str, Any]] = []
    report.head("work", "pairs", "processes", "figures", "seconds of processor of each")
    for work, counts in ((evaluate, (FEW, PAIRS)), (validate, (FEW, VALID))):
        for pairs, processes in product(counts, PROCESSES):
            figures, seconds = work(folder, pairs, processes)
            rows.append(
                {
                    "work": work.__name__,
                    "pairs": pairs,
                    "processes": processes,
                    "figures": figures,
                    "seconds": [round(each, 1) for each in seconds],
                }
            )
            report.row(*rows[-1].values())
    report.write("divided_evaluation", rows)
    every = {(row["work"], row["pairs"], json.dumps(row["figures"])) for row in rows}
    return 0 if len(every) == len(rows) // len(PROCESSES) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
