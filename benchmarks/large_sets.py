"""Sets on disk: the time of their first start, which encodes them, and of the second; memory of several processes, and
speed, beside a set in memory.

`python -m benchmarks.large_sets FOLDER [KIND=ROWS]...`: KIND is `pairs` (of 27 words a side), `text` (lines of a
language model) or `images` (in tar files of 1,000), generated in FOLDER, which also holds the encoded sets and the
runs, or `batches`, the processor's time for batches of pairs on disk and in memory. Several ROWS are parted by commas.
By default all of `CASES`.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import report
from regard.data import stored
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage.cache_folder import VARIABLE
from regard.storage.run_folder import RunDirectory
from regard.tasks.catalog import TASKS

CASES = {"pairs": (2_000, 100_000, 1_000_000, 10_000_000), "text": (6_000_000,), "images": (100_000,)}
CASES |= {"batches": (100_000,)}
PROCESSES = {"pairs": (1, 2, 4), "text": (1, 2), "images": (1, 2)}
UPDATES, BATCHES = 12, 400
"""Updates of a measured run, of which the second half counts for the speed, and batches that are timed."""
HALVES, WORDS, SIDE = 1 << 16, 30_000, 27
"""Different halves of sentences, words, and words of a sentence."""
TRAINING = {"validate_every": 0, "steps": 100_000, "log_every": 1, "tensorboard": "false", "device": "cpu"}
RECIPES = {"pairs": "translate-transformer", "text": "language-gpt2", "images": "vit"}


@dataclass
class Measured:
    """A run up to its last update: wall and processor seconds to its first update; of each process the proportional set
    size in bytes, which counts mapped files, and its `own` memory without them; tokens a second; and the lines of its
    progress."""

    first: float = 0.0
    processor: float = 0.0
    memory: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    speed: float = 0.0
    lines: list[str] = field(default_factory=list)


def sentences(rows: int, seed: int) -> Iterator[list[str]]:
    """Sentences of words whose frequencies fall as those of a language, some at a time."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = ["".join(letters[random.integers(0, 16, random.integers(2, 9))]) for _ in range(WORDS)]
    chosen = np.minimum(random.zipf(1.2, (HALVES, SIDE // 2 + 1)), WORDS) - 1
    halves = [" ".join(words[each] for each in row[: SIDE // 2 + number % 2]) for number, row in enumerate(chosen)]
    for first in range(0, rows, 100_000):
        places = random.integers(0, HALVES, (min(100_000, rows - first), 2)).tolist()
        yield [f"{halves[one]} {halves[other]}" for one, other in places]


def write_lines(path: Path, rows: int, seed: int) -> None:
    """Write sentences into a file, if it is not there."""
    if path.exists():
        return
    with path.with_suffix(".part").open("w", encoding="utf-8") as file:
        for some in sentences(rows, seed):
            file.write("\n".join(some) + "\n")
    path.with_suffix(".part").replace(path)


def pairs(folder: Path, rows: int) -> dict[str, Any]:
    """The settings of generated pairs."""
    for name, count, seed in (("train", rows, 1), ("valid", 100, 3)):
        for side in range(2):
            write_lines(folder / f"{name}-{count}.{side}", count, seed + side)
    sides = {name: f"[{folder / name}.0, {folder / name}.1]" for name in (f"train-{rows}", "valid-100")}
    return {
        "data.train": sides[f"train-{rows}"],
        "data.valid": sides["valid-100"],
        "tokenizers.source.dropout": 0,
    }


def text(folder: Path, rows: int) -> dict[str, Any]:
    """The settings of a generated text."""
    for name, count, seed in (("text", rows, 5), ("held", 1000, 6)):
        write_lines(folder / f"{name}-{count}.txt", count, seed)
    return {"data.train": folder / f"text-{rows}.txt", "data.valid": folder / "held-1000.txt"}


def images(folder: Path, rows: int) -> dict[str, Any]:
    """The settings of generated images, with the classes of their folders, in tar files of 1,000."""
    from PIL import Image

    random = np.random.default_rng(7)
    for name, count in (("images", rows), ("held", 200)):
        parts = folder / f"{name}-{count}"
        parts.mkdir(exist_ok=True)
        for first in range(0, count, 1000):
            path = parts / f"{first:08}.tar"
            if path.exists():
                continue
            with tarfile.open(path.with_suffix(".part"), "w") as file:
                for number in range(first, min(count, first + 1000)):
                    pixels, data = random.integers(0, 256, (32, 32, 3), dtype=np.uint8), io.BytesIO()
                    Image.fromarray(pixels).save(data, "png")
                    for ending, content in (("png", data.getvalue()), ("cls", str(number % 10).encode())):
                        entry = tarfile.TarInfo(f"{number:08}.{ending}")
                        entry.size = len(content)
                        file.addfile(entry, io.BytesIO(content))
            path.with_suffix(".part").replace(path)
    sets = {"data.train": folder / f"images-{rows}", "data.valid": folder / "held-200"}
    sizes = {
        "model.image": 32,
        "model.channels": 3,
        "images.mean": "[0.5, 0.5, 0.5]",
        "images.deviation": "[0.3, 0.3, 0.3]",
    }
    return {"data.kind": "image-shards", "data.classes": "[]", **sets, **sizes}


KINDS: Mapping[str, Callable[[Path, int], dict[str, Any]]] = {"pairs": pairs, "text": text, "images": images}


def run(folder: Path, kind: str, settings: Mapping[str, Any], processes: int = 1, updates: int = UPDATES) -> Measured:
    """Train in `processes` processes up to an update, then kill it."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    everything = {**settings, **{f"training.{key}": value for key, value in TRAINING.items()}}
    options = [part for key, value in everything.items() for part in ("--set", f"{key}={value}")]
    started = ["-m", "regard", "train", RECIPES[kind], "--out", str(out), "--cache", str(folder / "cache"), *options]
    environment = report.environment(OMP_NUM_THREADS="1")
    began, found = time.monotonic(), Measured()
    with (folder / "run.log").open("wb") as log:
        command = [sys.executable, *(launcher if processes > 1 else ()), *started]
        process = psutil.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            follow(process, out, updates, began, found)
        finally:
            for each in [*(process.children(recursive=True) if process.is_running() else ()), process]:
                each.kill()
            process.wait()
    found.lines = (folder / "run.log").read_text(encoding="utf-8").splitlines()
    return found


def follow(process: psutil.Popen, out: Path, updates: int, began: float, found: Measured) -> None:
    """Wait for the update; fill in the figures. Raises RuntimeError where the run ends before."""
    log, seen = out / "metrics.jsonl", 0
    records: list[dict[str, Any]] = []
    while seen < updates:
        if process.poll() is not None:
            raise RuntimeError(f"the run ended with {process.returncode}; see {out.parent / 'run.log'}")
        time.sleep(0.1)
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        records = [each for each in map(json.loads, lines) if each["kind"] == "training"]
        if records and not seen:
            found.first = time.monotonic() - began
            found.processor = sum(sum(each.cpu_times()[:2]) for each in ranks(process)) / len(ranks(process))
        seen = len(records)
    found.memory, found.own = ([of(each, name) for each in ranks(process)] for name in ("Pss", "Anonymous"))
    found.speed = float(np.mean([each["tokens_per_second"] for each in records[updates // 2 :]]))


def of(process: psutil.Process, name: str) -> int:
    """A number of bytes that Linux knows of a process."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def ranks(process: psutil.Popen) -> list[psutil.Process]:
    """The processes that train: those that a launcher started, or the process itself."""
    return process.children() or [process]


def case(folder: Path, kind: str, rows: int) -> Iterator[dict[str, Any]]:
    """The rows of the table for one set."""
    if kind == "batches":
        for each in batches(folder, rows):
            report.row(*each.values())
            yield each
        return
    settings = KINDS[kind](folder, rows)
    first = run(folder, kind, settings)
    yield row(kind, rows, "first", 1, first)
    for line in first.lines:
        if "loss" not in line:
            print(line, flush=True)
    for processes in PROCESSES[kind]:
        yield row(kind, rows, "second", processes, run(folder, kind, settings, processes))


def batches(folder: Path, rows: int) -> Iterator[dict[str, Any]]:
    """The milliseconds of processor for a batch of pairs on disk and in memory, in turn, and whether all are equal."""
    settings = [f"{key}={value}" for key, value in pairs(folder, rows).items()]
    config, found = run_file.read(path_of(RECIPES["pairs"]), settings), []
    os.environ[VARIABLE] = str(folder / "cache")
    for small in (stored.SMALL, 1 << 60):
        stored.SMALL = small
        with tempfile.TemporaryDirectory() as name, RunDirectory.create(Path(name) / "run") as out:
            found.append(TASKS[config.task].setup(config, out, 1).objective)
    orders = [list(islice(each.batches(0), BATCHES)) for each in found]
    seconds, last = [0.0, 0.0], []
    for number in range(BATCHES):
        last = []
        for place, objective in enumerate(found):
            began = time.process_time()
            last.append(objective.batch(0, orders[place][number]))
            seconds[place] += time.process_time() - began
    equal = orders[0] == orders[1] and last[0].source.equal(last[1].source)
    for where, each in zip(("disk", "memory"), seconds, strict=True):
        yield {"set": "batches", "rows": rows, "where": where, "ms a batch": 1000 * each / BATCHES, "equal": equal}


def row(kind: str, rows: int, start: str, processes: int, measured: Measured) -> dict[str, Any]:
    """A row of the table, which is printed."""
    found = {
        "set": kind,
        "rows": rows,
        "start": start,
        "processes": processes,
        "to first update s": round(measured.first, 1),
        "of processor s": round(measured.processor, 1),
        "memory MB": ", ".join(f"{each / 1e6:.0f}" for each in measured.memory),
        "own MB": ", ".join(f"{each / 1e6:.0f}" for each in measured.own),
        "tokens/s": round(measured.speed),
    }
    report.row(*found.values())
    return found


def main(folder: Path, *choices: str) -> None:
    """Measure the cases and print them; without choices write them too."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [choice.partition("=") for choice in choices]
    report.head(
        "set", "rows", "start", "processes", "to first update s", "of processor s", "memory MB", "own MB", "tokens/s"
    )
    cases = {kind: tuple(map(int, rows.split(","))) for kind, _, rows in parts} or CASES
    found = [each for kind, several in cases.items() for rows in several for each in case(folder, kind, rows)]
    if not choices:
        report.write("large_sets", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
