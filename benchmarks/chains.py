"""Chains of kills: runs that are ended several times by SIGTERM or SIGKILL at random moments, and resumed each time.

`python -m benchmarks.chains [SEED]`. The number of threads is automatic (`training.threads=0`), so it is that of
OMP_NUM_THREADS. Half of the `CHAINS` keep it: their last weights are those of an uninterrupted run, byte for byte. The
others change it between resumes: with a number that they did not begin with, `--resume` is refused in one line and
`--allow-change` goes on. Exit code 1 if any chain does otherwise.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report
from benchmarks.resume import Setting, digest, finish, kill, said, updates
from regard.runs.train import IDENTITY

CHAINS: Sequence[tuple[int, ...]] = (
    *((1, 1, 1, 1), (2, 2, 2, 2), (1, 1, 1, 1), (2, 2, 2, 2), (1, 1, 1, 1)),
    *((1, 2, 1, 2), (2, 1, 1, 2), (1, 2, 2, 2), (2, 1, 2, 1), (1, 1, 2, 1)),
)
"""The threads of each start of a chain; all but the last start are killed."""
REFUSED = 2
STOPPED = {signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}


@dataclass
class Chain:
    """One run and what happened to it; `began` are the threads of the start that described it, if there was one."""

    folder: Path
    dice: random.Random
    threads: tuple[int, ...]
    began: int | None = None
    kills: list[str] = field(default_factory=list)
    refusals: int = 0
    faults: list[str] = field(default_factory=list)

    def run(self) -> None:
        """All starts; each but the last is killed."""
        for place, threads in enumerate(self.threads):
            resumes = updates(self.folder) >= 0
            changed = self.began not in (None, threads)
            if changed:
                self.refuse(threads)
            options = [*(["--resume"] if resumes else []), *(["--allow-change"] if changed else [])]
            process = start(self.folder, threads, *options)
            if place < len(self.threads) - 1:
                self.end(process)
            else:
                finish(process, self.folder)
            if self.began is None and (self.folder / IDENTITY).exists():
                self.began = threads

    def refuse(self, threads: int) -> None:
        """Resume with other threads, which must fail in one line that names both numbers."""
        code = start(self.folder, threads, "--resume").wait()
        lines = said(self.folder).read_text(encoding="utf-8").splitlines()
        difference = f"environment.threads: {self.began} in the run, {threads} now"
        if code == REFUSED and lines == [f"regard: cannot resume: {difference}; undo it or give --allow-change"]:
            self.refusals += 1
        else:
            self.faults.append(f"not refused in one line (exit code {code}): {' / '.join(lines)[:300]}")

    def end(self, process: psutil.Popen) -> None:
        """Kill a run some updates from now, or while it starts."""
        number = self.dice.choice((signal.SIGTERM, signal.SIGKILL))
        goal = max(updates(self.folder), 0) + self.dice.randrange(-3, 9)
        while updates(self.folder) < goal and process.poll() is None:
            time.sleep(0.002)
        time.sleep(self.dice.random() * 0.05)
        if number == signal.SIGTERM:
            process.send_signal(number)
        else:
            kill(process)
        code = process.wait()
        self.kills.append(f"{number.name} at {max(updates(self.folder), 0)}")
        # a signal before the command listens to it ends the process at once
        if code not in (0, STOPPED[number], -number):
            self.faults.append(f"exit code {code} after {number.name}: {said(self.folder).read_text()[-300:]}")


def start(folder: Path, threads: int, *more: str) -> psutil.Popen:
    """The run of `benchmarks.resume`, with as many threads as the environment says."""
    with said(folder).open("wb") as log:
        command = Setting(1, 0).command(str(folder), "--set", "training.threads=0", *more)
        variables = report.environment(OMP_NUM_THREADS=str(threads))
        return psutil.Popen([sys.executable, *command], env=variables, stdout=log, stderr=subprocess.STDOUT)


def chain(folder: Path, threads: tuple[int, ...], dice: random.Random, whole: dict[int, str]) -> dict[str, Any]:
    """One chain, as a row."""
    one = Chain(folder, dice, threads)
    one.run()
    changes = len(set(threads)) > 1
    found = digest(folder)
    if not changes and found != whole[threads[0]]:
        one.faults.append("other weights than those of the uninterrupted run")
    return {
        "threads": list(threads),
        "kills": one.kills,
        "refused": one.refusals,
        "sha256": found,
        "equal": None if changes else found == whole[threads[0]],
        "faults": one.faults,
    }


def main(arguments: Sequence[str]) -> int:
    """All chains, printed as they end."""
    seed = int(arguments[0]) if arguments else 0
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        whole = {}
        for threads in sorted({each for starts in CHAINS for each in starts}):
            folder = Path(temporary) / f"whole-{threads}"
            finish(start(folder, threads), folder)
            whole[threads] = digest(folder)
        report.head("threads", "killed", "refused without --allow-change", "SHA-256 of the weights", "as uninterrupted")
        for number, threads in enumerate(CHAINS):
            row = chain(Path(temporary) / f"chain-{number}", threads, random.Random(f"{seed} {number}"), whole)
            rows.append(row)
            equal = {None: "other threads", True: "yes", False: "NO"}[row["equal"]]
            report.row(", ".join(map(str, threads)), ", ".join(row["kills"]), row["refused"], row["sha256"][:12], equal)
            for fault in row["faults"]:
                print(f"FAULT: {fault}", file=sys.stderr)
    report.write("chains", rows, seed=seed, whole=whole)
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
