"""Runs killed by SIGKILL and resumed end with the weights of a run that was never interrupted, byte for byte.

`python -m benchmarks.resume [SETTING...]`, by default all of `SETTINGS`. Exit code 1 if any weights differ.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report

STEPS, TRIES = 30, 5
KILLS = (0, 2, 5, 13, 22)
"""Updates after which a run is killed: 0 as soon as its folder is a run, 2 before its first checkpoint."""
RECIPE = {
    "data.train": 600,
    "data.valid": 20,
    "data.test": 20,
    "model.dropout": 0.2,  # so that the random states matter
    "training.steps": STEPS,
    "training.warmup": STEPS // 10,
    "training.batch_tokens": 1024,  # two epochs of one process, four of two
    "training.checkpoint_every": 4,
    "training.validate_every": 10,
    "training.keep_best": 0,  # the last weights are the result, whatever the validation said
    "training.log_every": 1,
    "training.threads": 1,
    "training.device": "cpu",
}


@dataclass(frozen=True)
class Setting:
    """How a run is started."""

    processes: int
    workers: int

    def command(self, folder: str, *more: str) -> list[str]:
        """What follows `python`."""
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.processes)]
        settings = RECIPE | {"training.workers": self.workers}
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        started = ["-m", "regard", "train", "dates", "--out", folder, *options, *more]
        return [*launcher, *started] if self.processes > 1 else started

    def start(self, folder: Path, *more: str) -> psutil.Popen:
        """The run in a process of its own; what it says goes to a file beside the folder."""
        environment = report.environment(OMP_NUM_THREADS="1")
        with said(folder).open("wb") as log:
            command = [sys.executable, *self.command(str(folder), *more)]
            return psutil.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)


SETTINGS = {"0 workers": Setting(1, 0), "2 workers": Setting(1, 2), "2 processes": Setting(2, 0)}


def said(folder: Path) -> Path:
    """Where the output of the last command on a run is."""
    return folder.with_name(f"{folder.name}.log")


def updates(folder: Path) -> int:
    """How many updates a run has logged; -1 while its folder is not yet a run."""
    if not (folder / "manifest.json").exists():
        return -1
    log = folder / "metrics.jsonl"
    *lines, _ = log.read_bytes().split(b"\n") if log.exists() else [b""]
    return max((json.loads(line)["update"] for line in lines), default=0)


def finish(process: psutil.Popen, folder: Path) -> None:
    """Waits for a run to end well; ends the benchmark if it does not."""
    if process.wait():
        sys.exit(f"exit code {process.returncode} of {' '.join(process.args)}\n{said(folder).read_text()[-2000:]}")


def kill(process: psutil.Popen) -> None:
    """Kills the process and all below it, the launcher first; torchrun's processes and workers lead other groups."""
    everyone = [process, *process.children(recursive=True)]
    for each in everyone:
        if each.is_running():
            each.kill()
    psutil.wait_procs(everyone, timeout=30)


def killed(setting: Setting, folder: Path, step: int) -> int:
    """Leaves a run that was killed once it had made `step` updates; returns how many it made."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        process = setting.start(folder)
        while updates(folder) < step and process.poll() is None:
            time.sleep(0.002)
        if process.poll() is None:
            kill(process)
        else:
            finish(process, folder)
        if updates(folder) < STEPS:
            return updates(folder)
    sys.exit(f"{TRIES} runs were over before they could be killed after update {step}; try on a quieter machine")


def resumed(setting: Setting, folder: Path) -> int | None:
    """Resumes the run to its end; returns the update of the checkpoint it went on from, or None."""
    finish(setting.start(folder, "--resume"), folder)
    found = re.search(r"going on after update (\d+)", said(folder).read_text())
    return int(found[1]) if found else None


def digest(folder: Path) -> str:
    """SHA-256 of the final weights."""
    return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


def compare(name: str, folder: Path, wanted: dict[int, str]) -> list[dict[str, Any]]:
    """One uninterrupted run and the killed ones, printed as they end.

    `wanted` are the weights by number of processes, whatever the number of workers; the first run adds its own.
    """
    setting = SETTINGS[name]
    finish(setting.start(folder / "whole"), folder / "whole")
    whole = digest(folder / "whole")
    right = wanted.setdefault(setting.processes, whole)
    report.row(name, "never", "", whole[:12], "yes" if whole == right else "NO")
    rows = [{"setting": name, "killed_at": None, "resumed_from": None, "sha256": whole, "equal": whole == right}]
    for step in KILLS:
        run = folder / f"killed-{step}"
        at, origin = killed(setting, run, step), resumed(setting, run)
        equal = digest(run) == right
        report.row(name, at, "none yet" if origin is None else origin, digest(run)[:12], "yes" if equal else "NO")
        rows.append({"setting": name, "killed_at": at, "resumed_from": origin, "sha256": digest(run), "equal": equal})
    return rows


def main(names: list[str]) -> int:
    """Runs the named settings; only a run of all of them is written down."""
    if unknown := set(names) - set(SETTINGS):
        sys.exit(f"unknown: {', '.join(unknown)}; the settings are {', '.join(map(repr, SETTINGS))}")
    report.head("setting", "killed after update", "resumed from checkpoint", "SHA-256 of the weights", "equal")
    rows: list[dict[str, Any]] = []
    wanted: dict[int, str] = {}
    for name in names or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            rows += compare(name, Path(folder), wanted)
    if not names:
        commands = {name: " ".join(["python", *setting.command("RUN")]) for name, setting in SETTINGS.items()}
        report.write("resume", rows, commands=commands)
    return 0 if all(row["equal"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
