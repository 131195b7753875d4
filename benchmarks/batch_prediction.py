"""A million rows predicted by one process, by two of which one is killed half-way and started again, and on a local Ray
cluster of two nodes of which one is lost: the sorted rows are the same, by SHA-256.

`python -m benchmarks.batch_prediction FOLDER [ROWS]`. The model, of the recipe `topics`, the rows and the predictions
are in FOLDER. Ray is left out where it is not installed. Exit code 1 if any rows differ.
"""

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report

ROWS, WORDS, LONGEST = 1_000_000, 3_000, 12
COMMAND = [sys.executable, "-m", "regard"]


def regard(*arguments: object, launcher: tuple[str, ...] = (), **more: str) -> psutil.Popen:
    """A command in a process of its own."""
    environment = report.environment(OMP_NUM_THREADS="1", **more)
    command = [sys.executable, *launcher, "-m", "regard", *map(str, arguments)]
    return psutil.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: psutil.Popen) -> None:
    """Wait for a command to end well."""
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(f"exit code {process.returncode} of {' '.join(process.args)}\n{errors.decode()[-2000:]}")


def make(folder: Path, rows: int) -> tuple[Path, Path]:
    """The trained run and the file of the texts."""
    run, file = folder / "run", folder / f"texts-{rows}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    if not (run / "result.json").exists():
        finish(regard("train", "topics", "--out", run, "--set", "training.steps=60"))
    if not file.exists():
        dice = random.Random(1)
        words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 8))) for _ in range(WORDS)]
        lines = (" ".join(dice.choices(words, k=dice.randint(3, LONGEST))) for _ in range(rows))
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run, file


def parts(out: Path) -> list[Path]:
    """The finished parts of a prediction."""
    return sorted(out.glob("part-*.jsonl"))


def half(process: psutil.Popen, out: Path, rows: int) -> None:
    """Wait until half of the parts are there, or the process has ended, well or with the end of the benchmark."""
    while sum(1 for _ in parts(out)) * 8192 < rows / 2:
        if process.poll() is not None:
            finish(process)
            return
        time.sleep(0.1)


def alone(run: Path, file: Path, out: Path, rows: int) -> None:
    """One process."""
    finish(regard("predict", run, "--input", file, "--output", out))


def killed(run: Path, file: Path, out: Path, rows: int) -> None:
    """Two processes of which one is killed half-way; it is started again when the other one has ended."""
    both = [regard("predict", run, "--input", file, "--output", out) for _ in range(2)]
    half(both[0], out, rows)
    both[0].send_signal(signal.SIGKILL)
    both[0].communicate()
    finish(both[1])
    finish(regard("predict", run, "--input", file, "--output", out))


def ray(run: Path, file: Path, out: Path, rows: int) -> None:
    """A Ray cluster of two nodes with a processor each, one of which is lost half-way."""
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    process = regard("predict", run, "--input", file, "--output", out, "--on", "ray", RAY_ADDRESS=str(cluster.address))
    half(process, out, rows)
    cluster.remove_node(node, allow_graceful=False)
    finish(process)
    cluster.shutdown()


WAYS: dict[str, Callable[[Path, Path, Path, int], None]] = {"one process": alone, "two, one killed": killed}
WAYS |= {"Ray, a node lost": ray} if find_spec("ray") else {}


def main(folder: Path, rows: int) -> int:
    """Predict in all ways, print and write the digests."""
    run, file = make(folder, rows)
    found: list[dict[str, Any]] = []
    report.head("way", "rows", "seconds", "rows/s", "SHA-256 of the sorted rows")
    for number, (name, predict) in enumerate(WAYS.items()):
        out, began = folder / f"out-{rows}-{number}", time.monotonic()
        predict(run, file, out, rows)
        seconds = time.monotonic() - began
        lines = sorted(line for part in parts(out) for line in part.read_bytes().splitlines())
        digest = hashlib.sha256(b"\n".join(lines)).hexdigest()
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        row = {"way": name, "rows": len(lines), "seconds": round(seconds), "rows/s": round(len(lines) / seconds)}
        report.row(*row.values(), digest[:16])
        found.append({**row, "sha256": digest, "manifest": {each: manifest[each] for each in ("rows in", "rows out")}})
    if rows == ROWS:
        report.write("batch_prediction", found)
    return 0 if len({each["sha256"] for each in found}) == 1 and all(each["rows"] == rows for each in found) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROWS))
