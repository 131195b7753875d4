"""The test set of a run scored by 1, 2 and 4 processes, and a small one for what a start takes: the figures, which are
the same, and the seconds of processor of each process.

`python -m benchmarks.divided_evaluation FOLDER`: the run, of the recipe `dates`, is in FOLDER. Exit code 1 if any
figure differs.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report

PAIRS, FEW, STEPS, BEAM = 6_000, 20, 200, 10
PROCESSES = (1, 2, 4)


def train(folder: Path, pairs: int) -> Path:
    """A run whose test set has so many pairs."""
    run = folder / f"run-{pairs}"
    if not (run / "result.json").exists():
        settings = (f"training.steps={STEPS}", f"data.test={pairs}", "training.threads=1")
        options = [part for each in settings for part in ("--set", each)]
        command = [sys.executable, "-m", "regard", "train", "dates", "--out", str(run), *options]
        subprocess.run(command, env=report.environment(OMP_NUM_THREADS="1"), check=True, stdout=subprocess.DEVNULL)
    return run


def evaluate(run: Path, processes: int) -> tuple[dict[str, Any], list[float]]:
    """The figures of the command, and the seconds of processor of each process."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    regard = ["-m", "regard", "evaluate", str(run), "--json", "--beam", str(BEAM)]
    command = [sys.executable, *(launcher if processes > 1 else ()), *regard]
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
    return json.loads(output), sorted(seconds.values(), reverse=True)[:processes]


def main(folder: Path) -> int:
    """Evaluate, print and write."""
    rows: list[dict[str, Any]] = []
    report.head("pairs", "processes", "figures", "seconds of processor of each")
    for pairs in (FEW, PAIRS):
        run = train(folder, pairs)
        for processes in PROCESSES:
            figures, seconds = evaluate(run, processes)
            row = {
                "pairs": pairs,
                "processes": processes,
                "figures": figures,
                "seconds": [round(s, 1) for s in seconds],
            }
            report.row(*row.values())
            rows.append(row)
    report.write("divided_evaluation", rows)
    return (
        0 if all(each["figures"] == rows[len(PROCESSES) * (each["pairs"] == PAIRS)]["figures"] for each in rows) else 1
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
