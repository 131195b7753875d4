"""Large inputs and several processes: `python -m benchmarks.scale NAME FOLDER [ROWS...]`; files and runs go to FOLDER.

- `sets`: the first start on generated sentence pairs, which encodes them, and second ones by 1, 2 and 4 processes:
  seconds and processor time to the first update, memory of each process, tokens per second;
- `predict`: rows predicted by one process, and by two of which one is killed; the sorted rows have the same SHA-256,
  or the exit code is 1;
- `evaluate`: a test set scored by 1, 2 and 4 processes: the same figures, or the exit code is 1.
"""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import report

PROCESSES = (1, 2, 4)
PAIRS, PREDICTED_ROWS, TEST_PAIRS = 1_000_000, 1_000_000, 6_000
DISTINCT_HALVES, VOCABULARY, SENTENCE_WORDS, UPDATES = 1 << 16, 30_000, 27, 12
ROWS_PER_PART = 8192


def launch(*arguments: object, processes: int = 1, **variables: str) -> psutil.Popen:
    """Start a command of regard in a process of its own, or in several."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), "-m", "regard", *map(str, arguments)]
    environment = report.environment(OMP_NUM_THREADS="1", **variables)
    return psutil.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process: psutil.Popen) -> str:
    """Wait for a command to succeed and return its output."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}\n{output.decode()[-2000:]}")
    return output.decode()


def sentences(rows: int, seed: int) -> Iterator[list[str]]:
    """Yield sentences in lists; word frequencies fall as those of a language."""
    generator = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = ["".join(letters[generator.integers(0, 16, generator.integers(2, 9))]) for _ in range(VOCABULARY)]
    indices = np.minimum(generator.zipf(1.2, (DISTINCT_HALVES, SENTENCE_WORDS // 2)), VOCABULARY) - 1
    halves = [" ".join(words[index] for index in row) for row in indices]
    for first in range(0, rows, 100_000):
        pairs = generator.integers(0, DISTINCT_HALVES, (min(100_000, rows - first), 2)).tolist()
        yield [f"{halves[left]} {halves[right]}" for left, right in pairs]


def write_pairs(folder: Path, name: str, rows: int, seed: int) -> str:
    """Write two parallel files, if they are not there, and return the setting's value that names them."""
    paths = [folder / f"{name}-{rows}.{side}" for side in ("source", "target")]
    for side, path in enumerate(paths):
        if not path.exists():
            partial = path.with_suffix(".part")
            with partial.open("w", encoding="utf-8") as file:
                for lines in sentences(rows, seed + side):
                    file.write("\n".join(lines) + "\n")
            partial.replace(path)
    return f"[{', '.join(map(str, paths))}]"


def start_training(folder: Path, rows: int, processes: int) -> dict[str, Any]:
    """Train up to some update, then kill the run, and return what its start took."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    settings = {
        "data.train": write_pairs(folder, "train", rows, 1),
        "data.valid": write_pairs(folder, "valid", 100, 3),
        "tokenizers.source.dropout": 0,
        "training.validate_every": 0,
        "training.log_every": 1,
        "training.device": "cpu",
    }
    began = time.monotonic()
    command = "train", "translate-transformer", "--out", out, "--cache", folder / "cache"
    process = launch(*command, *report.set_all(settings), processes=processes)
    try:
        return follow(process, out / "metrics.jsonl", began)
    finally:
        for member in [*(process.children(recursive=True) if process.is_running() else []), process]:
            member.kill()
        process.communicate()


def follow(process: psutil.Popen, log: Path, began: float) -> dict[str, Any]:
    """Wait for the last measured update and return the figures."""
    result: dict[str, Any] = {}
    records: list[dict[str, Any]] = []
    members: list[psutil.Process] = []
    while len(records) < UPDATES:
        if process.poll() is not None:
            raise SystemExit(f"the run ended early: {finish(process)}")
        time.sleep(0.1)
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        records = [record for record in map(json.loads, lines) if record["kind"] == "training"]
        members = process.children() or [process]
        if records and not result:
            seconds = [sum(member.cpu_times()[:2]) for member in members]
            result = {"seconds": time.monotonic() - began, "processor": max(seconds)}
    result["memory_mb"] = [member.memory_full_info().pss / 1e6 for member in members]
    return result | {"tokens_per_second": float(np.mean([row["tokens_per_second"] for row in records[UPDATES // 2 :]]))}


def run_sets(folder: Path, *rows: int) -> int:
    """Print the table of starts."""
    report.head("pairs", "start", "processes", "seconds", "of processor", "memory of each, MB", "tokens/s")
    results = []
    for count in rows or (PAIRS,):
        for start, processes in [("first", 1), *(("second", number) for number in PROCESSES)]:
            row = start_training(folder, count, processes)
            memory = ", ".join(f"{size:.0f}" for size in row["memory_mb"])
            seconds = f"{row['seconds']:.1f}", f"{row['processor']:.1f}"
            report.row(count, start, processes, *seconds, memory, round(row["tokens_per_second"]))
            results.append({"pairs": count, "start": start, "processes": processes, **row})
    report.write("large_sets", results)
    return 0


def wait_for_half(process: psutil.Popen, out: Path, rows: int) -> None:
    """Wait until half of the parts are written or the process has ended."""
    while len(list(out.glob("part-*"))) * ROWS_PER_PART < rows / 2 and process.poll() is None:
        time.sleep(0.1)


def predict_alone(command: Sequence[object], out: Path, rows: int) -> None:
    """Predict by one process."""
    finish(launch(*command))


def predict_killed(command: Sequence[object], out: Path, rows: int) -> None:
    """Predict by two processes, one of which is killed half-way; then start it again."""
    processes = [launch(*command), launch(*command)]
    wait_for_half(processes[0], out, rows)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].communicate()
    finish(processes[1])
    finish(launch(*command))


def run_predict(folder: Path, rows: int = PREDICTED_ROWS) -> int:
    """Print the digests of the predictions; 1 if they differ."""
    run, texts = folder / "topics", folder / f"texts-{rows}.txt"
    if not (run / "result.json").exists():
        finish(launch("train", "topics", "--out", run, "--set", "training.steps=60"))
    dice = random.Random(1)
    words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 8))) for _ in range(3000)]
    lines = (" ".join(dice.choices(words, k=dice.randint(3, 12))) for _ in range(rows))
    texts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    ways = {"one process": predict_alone, "two, one killed": predict_killed}
    report.head("way", "rows", "seconds", "SHA-256 of the sorted rows")
    results = []
    for number, (way, predict) in enumerate(ways.items()):
        out, began = folder / f"predictions-{rows}-{number}", time.monotonic()
        shutil.rmtree(out, ignore_errors=True)
        predict(["predict", run, "--input", texts, "--output", out], out, rows)
        seconds = time.monotonic() - began
        predictions = sorted(line for part in out.glob("part-*.jsonl") for line in part.read_bytes().splitlines())
        digest = hashlib.sha256(b"\n".join(predictions)).hexdigest()
        report.row(way, len(predictions), round(seconds), digest[:16])
        results.append({"way": way, "rows": len(predictions), "seconds": seconds, "sha256": digest})
    report.write("batch_prediction", results)
    return int(len({row["sha256"] for row in results}) > 1 or any(row["rows"] != rows for row in results))


def run_evaluate(folder: Path, rows: int = TEST_PAIRS) -> int:
    """Print the figures of 1, 2 and 4 processes; 1 if they differ."""
    run = folder / f"dates-{rows}"
    if not (run / "result.json").exists():
        finish(
            launch("train", "dates", "--out", run, "--set", "training.steps=200", "--set", f"data.test={rows}")
        )  # fmt: skip
    report.head("processes", "seconds", "figures")
    results = []
    for processes in PROCESSES:
        began = time.monotonic()
        output = finish(launch("evaluate", run, "--json", "--beam", 10, processes=processes))
        figures = output[output.index("{") : output.rindex("}") + 1]
        report.row(processes, f"{time.monotonic() - began:.1f}", figures)
        results.append({"processes": processes, "figures": json.loads(figures)})
    report.write("divided_evaluation", results)
    return int(any(row["figures"] != results[0]["figures"] for row in results))


BENCHMARKS = {"sets": run_sets, "predict": run_predict, "evaluate": run_evaluate}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in BENCHMARKS:
        raise SystemExit(
            f"usage: python -m benchmarks.scale NAME FOLDER [ROWS...], NAME one of {', '.join(BENCHMARKS)}"
        )
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    sys.exit(BENCHMARKS[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:])))
