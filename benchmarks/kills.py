"""Kill runs at random moments and resume them: the last weights are those of an uninterrupted run, byte for byte.

`python -m benchmarks.kills [CASE...]`, a case being a key of `CASES`. A chain of kills ends each start but the last one
by SIGTERM or SIGKILL. Exit code 1 if any weights differ or a process ends otherwise than it should.
"""

import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report

STEPS, SEED = 30, 1
SETTINGS = {
    "data.train": 600,
    "data.valid": 20,
    "data.test": 20,
    "model.dropout": 0.2,  # so that the random state matters
    "training.steps": STEPS,
    "training.warmup": STEPS // 10,
    "training.batch_tokens": 1024,  # two epochs in one process, four in two
    "training.checkpoint_every": 4,
    "training.validate_every": 10,
    "training.keep_best": 0,  # the last weights are the result, whatever the validation says
    "training.log_every": 1,
    "training.threads": 1,
}
EXIT_CODES = {signal.SIGTERM: (143, -signal.SIGTERM, 0), signal.SIGKILL: (-signal.SIGKILL, 0)}
"""What a killed command may return: 0 if it was over, the signal itself before it listens."""


@dataclass(frozen=True)
class Case:
    """How a run is started, and how often it is killed."""

    processes: int = 1
    workers: int = 0
    chains: int = 2
    kills: int = 3
    device: str = "cpu"

    def command(self, folder: Path, *options: str) -> list[str]:
        """Return the command that starts or resumes the run."""
        settings = SETTINGS | {"training.workers": self.workers, "training.device": self.device}
        assignments = report.set_all(settings)
        train = ["-m", "regard", "train", "dates", "--out", str(folder), *assignments, *options]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.processes)]
        return [sys.executable, *(launcher if self.processes > 1 else []), *train]

    def start(self, folder: Path, *options: str) -> psutil.Popen:
        """Start the run; its output goes to a file beside the folder."""
        with log_of(folder).open("wb") as log:
            variables = report.environment(OMP_NUM_THREADS="1")
            command = self.command(folder, *options)
            return psutil.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT)


CASES = {
    "one process": Case(chains=4),
    "two workers": Case(workers=2),
    "two processes": Case(processes=2),
    "four processes": Case(processes=4),
}


def log_of(folder: Path) -> Path:
    """Return the file with the output of the last command on a run."""
    return folder.with_name(f"{folder.name}.log")


def count_updates(folder: Path) -> int:
    """Return how many updates a run has logged; -1 while its folder is not yet a run."""
    if not (folder / "manifest.json").exists():
        return -1
    metrics = folder / "metrics.jsonl"
    *lines, _ = metrics.read_bytes().split(b"\n") if metrics.exists() else [b""]
    return max((json.loads(line)["update"] for line in lines), default=0)


def finish(process: psutil.Popen, folder: Path) -> str:
    """Wait for a run to succeed and return the SHA-256 of its weights."""
    if process.wait():
        raise SystemExit(f"exit code {process.returncode}\n{log_of(folder).read_text()[-2000:]}")
    return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


def kill(process: psutil.Popen, number: signal.Signals) -> None:
    """Send a signal: SIGTERM to the command, SIGKILL to it and all its children."""
    if number == signal.SIGTERM:
        process.send_signal(number)
        process.wait()
        return
    # The launcher dies first, since it would start its workers again.
    family = [process, *process.children(recursive=True)]
    for member in family:
        if member.is_running():
            member.kill()
    psutil.wait_procs(family, timeout=30)


def run_chain(case: Case, folder: Path, dice: random.Random) -> dict[str, Any]:
    """Kill a run several times, each time some updates later, and let its last start finish."""
    killed, faults = [], []
    for _ in range(case.kills):
        resume = ["--resume"] if count_updates(folder) >= 0 else []
        number = dice.choice((signal.SIGTERM, signal.SIGKILL))
        goal = max(count_updates(folder), 0) + dice.randrange(-3, 9)
        process = case.start(folder, *resume)
        while count_updates(folder) < goal and process.poll() is None:
            time.sleep(0.002)
        time.sleep(dice.random() * 0.05)
        kill(process, number)
        killed.append(f"{number.name} at {max(count_updates(folder), 0)}")
        if case.processes == 1 and process.returncode not in EXIT_CODES[number]:
            faults.append(f"exit code {process.returncode} after {number.name}")
    resume = ["--resume"] if count_updates(folder) >= 0 else []
    return {"killed": killed, "faults": faults, "sha256": finish(case.start(folder, *resume), folder)}


def main(names: Sequence[str]) -> int:
    """Run the chains of each case and print them as they end."""
    if unknown := set(names) - set(CASES):
        raise SystemExit(f"unknown case {', '.join(unknown)}; expected some of {', '.join(map(repr, CASES))}")
    rows: list[dict[str, Any]] = []
    report.head("case", "killed", "SHA-256 of the weights", "as uninterrupted")
    for name in names or CASES:
        case, dice = CASES[name], random.Random(f"{SEED} {name}")
        with tempfile.TemporaryDirectory() as temporary:
            whole = Path(temporary) / "uninterrupted"
            expected = finish(case.start(whole), whole)
            for number in range(case.chains):
                row = {"case": name, **run_chain(case, Path(temporary) / f"chain-{number}", dice)}
                row["equal"] = row["sha256"] == expected
                rows.append(row)
                report.row(name, ", ".join(row["killed"]), row["sha256"][:12], "yes" if row["equal"] else "NO")
                for fault in row["faults"]:
                    print(f"FAULT: {fault}", file=sys.stderr)
    if not names:
        report.write("kills", rows)
    return 0 if all(row["equal"] and not row["faults"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
