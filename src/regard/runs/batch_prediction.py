"""Batch prediction: files in parts, computed by any number of processes."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from regard.data.cache import begin_progress
from regard.data.files import stat_stamp
from regard.data.inputs import RawRow, RowReader, Span
from regard.data.rows import RowCollector
from regard.errors import InputError
from regard.storage import atomic
from regard.storage.atomic import NAME as LOCK
from regard.storage.atomic import PAUSE, InUse, Lock, wait_for_lock
from regard.storage.verified_files import MANIFEST
from regard.tasks.base import row_example
from regard.tasks.options import PredictOptions
from regard.tasks.run import Run

JOB, STATE = "job.json", "state"
OUT, OUTPUT = "choose another --out", "choose another --output"
BATCH = 256
"""The rows that are computed together."""
Record = dict[str, Any]
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Predictor:
    """A loaded model and what is computed of rows.

    Attributes:
        example: Returns the example of a row at a place; raises InputError.
        records: Returns a record for each example; raises InputError.
        batch_size: The most rows that are computed together.
    """

    example: Callable[[RawRow, str], Any]
    records: Callable[[Sequence[Any], Sequence[RawRow]], list[Record]]
    batch_size: int = BATCH


def build_predictor(run: Run[Any, Any], options: PredictOptions) -> Predictor:
    """Build a worker that predicts."""

    def make_example(row: RawRow, place: str) -> Any:
        return row_example(run, row.content, place)

    def predict(examples: Sequence[Any], rows: Sequence[RawRow]) -> list[Record]:
        records = []
        predictions = run.predict(examples, options)
        for example, row, prediction in zip(examples, rows, predictions, strict=True):
            values = row.content.values() if isinstance(row.content, Mapping) else ()
            has_bytes = any(isinstance(value, bytes | np.ndarray) for value in values)
            record = {} if has_bytes else run.record(example)
            records.append(record | prediction.to_json())
        return records

    # what is sampled must not depend on the rows beside it
    return Predictor(make_example, predict, 1 if run.samples(options) else BATCH)


def build_embedder(
    run: Any, embed: Callable[[Sequence[str]], list[Record]]
) -> Predictor:
    """Build a worker that embeds texts for a run by a function of several texts."""

    def make_example(row: RawRow, place: str) -> str:
        return row.content if isinstance(row.content, str) else str(row.content["text"])

    def compute(texts: Sequence[str], rows: Sequence[RawRow]) -> list[Record]:
        pairs = zip(texts, embed(texts), strict=True)
        return [run.record(text) | values for text, values in pairs]

    return Predictor(make_example, compute)


@dataclass(frozen=True)
class Request:
    """What is computed.

    Attributes:
        verb: The command.
        run: The folder of the run.
        settings: The options, in plain values.
        inputs: The files.
        reader: How to parse their rows.
        part_rows: The most rows of an input in one part.
        skip_bad: Whether bad rows are left out and counted.
    """

    verb: str
    run: Path
    settings: Mapping[str, Any]
    inputs: Sequence[str]
    reader: RowReader
    part_rows: int
    skip_bad: bool = False

    def to_json(self) -> Record:
        """Return the request, and the state of the run and the inputs.

        Raises:
            InputError: An input is missing.
        """
        files = [*self.inputs]
        for path in sorted(self.run.iterdir()) if self.run.is_dir() else ():
            if path.suffix in (".safetensors", ".yaml"):
                files.append(str(path))
        return {
            "verb": self.verb,
            "run": str(self.run),
            "settings": json.loads(json.dumps(self.settings, default=str)),
            "columns": dict(self.reader.columns),
            "inputs": list(self.inputs),
            "part_rows": self.part_rows,
            "skip_bad": self.skip_bad,
            STATE: [stat_stamp(file) for file in files],
        }


@dataclass(frozen=True)
class Job:
    """A job in its folder: the request, and the span of each part."""

    folder: Path
    request: Request
    spans: Sequence[Span]

    def part(self, number: int) -> Path:
        """Return the file of a part, which is there once it is whole."""
        return self.folder / f"part-{number:06}.jsonl"

    def find_finished(self) -> set[int]:
        """Return the numbers of the parts that are there."""
        return {n for n in range(len(self.spans)) if self.part(n).exists()}

    def count_rows(self, numbers: Iterable[int]) -> int:
        """Return the number of rows of parts."""
        return sum(self.spans[number].rows for number in numbers)


def begin(folder: Path, request: Request) -> Job:
    """Begin or continue the job in a folder.

    Raises:
        InputError: The folder contains other files, or of another job; an input
            is damaged or lacks columns.
        RunError: The folder cannot be written.
    """
    description = request.to_json()
    path = folder / JOB
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; {OUTPUT}")
    if folder.is_dir() and not path.exists():
        traces = {LOCK, JOB + atomic.SUFFIX}
        if names := sorted({item.name for item in folder.iterdir()} - traces):
            listed = ", ".join(names[:3])
            raise InputError(f"{folder}: has other files ({listed}); {OUTPUT}")
    spans = []
    for name in request.inputs:
        spans += request.reader.spans(name, request.part_rows)
    with atomic.remedy(OUT, OUTPUT):
        with atomic.explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with wait_for_lock(folder, str(folder), "begins the job"):
            if path.exists():
                check_description(path, description)
            else:
                atomic.write(path, json.dumps(description).encode())
    return Job(folder, request, spans)


def check_description(path: Path, description: Record) -> None:
    """Raise InputError if the job of a file is another one than is described."""
    try:
        saved = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({error}); {OUT}") from error
    for name, value in description.items():
        old = saved.get(name)
        if old == value:
            continue
        change = f"{name} was {json.dumps(old)[:60]}, now {json.dumps(value)[:60]}"
        if name == "inputs":
            change = "it had other inputs"
        elif name == STATE:
            change = "the run or an input changed since"
        raise InputError(
            f"{path.parent}: has predictions of another job: {change}; {OUT}"
        )


def run_job(job: Job, worker: Predictor) -> Record:
    """Compute the parts that nobody has computed, and write the manifest.

    A process takes a part by its lock, so processes need not know of each other; a
    killed one loses its part, which another takes.

    Returns:
        The totals of the manifest.

    Raises:
        InputError: A row is bad and bad ones are not skipped; it names file and line.
        RunError: A part cannot be written.
    """
    rank = int(os.environ.get("RANK", "0"))
    count = len(job.spans)
    first = rank * count // int(os.environ.get("WORLD_SIZE", "1"))
    done = job.find_finished()
    progress = show_progress(job, silent=rank != 0)
    with atomic.remedy(OUT, OUTPUT), progress:
        while len(done) < count:
            before = len(done)
            for number in (*range(first, count), *range(first)):
                if number not in done and take_part(job, number, worker, progress):
                    done.add(number)
                    progress.update(job.count_rows(done) - progress.n)
            if len(done) == before:
                # others compute what is left; the part of one that dies is free
                time.sleep(PAUSE)
        return write_manifest(job)


def show_progress(job: Job, *, silent: bool = False) -> "tqdm[Any]":
    """Return a bar of the rows of a job."""
    rows = job.count_rows(range(len(job.spans)))
    done = job.count_rows(job.find_finished())
    title = f"{job.request.verb} {job.folder}"
    return begin_progress(title, rows, done, silent=silent)


def take_part(job: Job, number: int, worker: Predictor, progress: "tqdm[Any]") -> bool:
    """Compute and write a part; False if another process computes it."""
    span = job.spans[number]
    request = job.request
    path = job.part(number)
    try:
        lock = Lock(job.folder, f".{path.name}.lock")
    except InUse:
        return False
    try:
        if path.exists():
            return True
        collector = RowCollector(span.path, request.skip_bad, "--skip-bad")
        # a file's first row that lacks columns lacks them throughout, a later one does not
        collector.kept = span.lines
        rows = list(request.reader.rows(span, collector))
        records = compute_rows(rows, worker, collector, progress)
        count = len(records) + collector.skipped
        if count != span.rows:
            raise InputError(
                f"{span.path}: has {count} rows from line {span.lines + 1} on, where "
                f"{span.rows} were counted; it changed since, so {OUT}"
            )
        if collector.skipped:
            log.warning(
                "%s: skipped %d rows (first: %s)",
                *(path, collector.skipped, collector.first),
            )
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        # a lone surrogate becomes its escape in JSON
        atomic.write(path, "".join(lines).encode("utf-8", "backslashreplace"))
    finally:
        lock.release()
    return True


def compute_rows(
    rows: Sequence[RawRow],
    worker: Predictor,
    collector: RowCollector,
    progress: "tqdm[Any]",
) -> list[Record]:
    """Return the records of the rows that are not skipped, in their order."""
    records: dict[int, Record] = {}

    def refuse(row: RawRow, error: InputError) -> None:
        reason = str(error).removeprefix(f"{collector.path}:{row.number}: ")
        collector.refuse(row.number, reason.removeprefix("text 1: "))

    def compute(batch: Sequence[tuple[RawRow, Any]]) -> None:
        batch_rows, examples = zip(*batch, strict=True)
        try:
            results = worker.records(examples, batch_rows)
        except InputError as error:
            if len(batch) == 1:
                return refuse(batch_rows[0], error)
            for pair in batch:  # to name the bad one
                compute([pair])
            return
        for row, result in zip(batch_rows, results, strict=True):
            place = f"{collector.path}:{row.number}"
            records[row.number] = {"place": place} | result

    pairs = []
    for row in rows:
        try:
            example = worker.example(row, f"{collector.path}:{row.number}")
            pairs.append((row, example))
        except InputError as error:
            refuse(row, error)
    progress.update(len(rows) - len(pairs))
    pairs.sort(key=lambda pair: measure(pair[0].content))
    for first in range(0, len(pairs), worker.batch_size):
        batch = pairs[first : first + worker.batch_size]
        compute(batch)
        progress.update(len(batch))
    return [records[number] for number in sorted(records)]


def measure(content: Any) -> int:
    """Return the characters of the texts of a row, and the bytes of its files."""
    if isinstance(content, str | bytes):
        return len(content)
    if isinstance(content, Mapping):
        content = list(content.values())
    return sum(map(measure, content)) if isinstance(content, list) else 0


def write_manifest(job: Job) -> Record:
    """Write the manifest of a job whose parts are all there; return its totals."""
    parts = []
    for number, span in enumerate(job.spans):
        path = job.part(number)
        data = path.read_bytes()
        part = {
            "name": path.name,
            "input": span.path,
            "first_line": span.lines + 1,
            "rows": span.rows,
            "written": data.count(b"\n"),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        parts.append(part)
    rows = sum(part["rows"] for part in parts)
    written = sum(part["written"] for part in parts)
    totals = {"rows in": rows, "rows out": written, "skipped": rows - written}
    manifest = {"content": "batch prediction", **totals, "parts": parts}
    path = job.folder / MANIFEST
    atomic.write(path, (json.dumps(manifest, indent=1) + "\n").encode())
    return totals | {"parts": len(parts), "manifest": str(path)}
