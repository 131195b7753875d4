"""Workers of batch prediction.

They compute the parts of a job, in processes or on a Ray cluster.
"""

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.data.inputs import RawRow
from regard.data.rows import RowCollector
from regard.data.shards import RowProgress
from regard.errors import InputError, RunError
from regard.runs.batch_job import OUTPUT, Job, name_output_option, write_part
from regard.storage import atomic
from regard.storage.lock import Lock
from regard.storage.manifest import sha256
from regard.storage.waiting import PAUSE, waiting
from regard.tasks.options import PredictOptions
from regard.tasks.row_examples import row_example
from regard.tasks.run import Run

BATCH = 256
"""The rows that are computed together."""


@runtime_checkable
class Worker(Protocol):
    """A loaded model and what is computed of rows."""

    @property
    def batch_size(self) -> int:
        """The most rows that are computed together."""
        ...

    def example(self, row: RawRow, place: str) -> Any:
        """Return the example of a row.

        Raises InputError with its place.
        """
        ...

    def records(
        self, examples: Sequence[Any], rows: Sequence[RawRow]
    ) -> list[dict[str, Any]]:
        """Return a record for each example, in plain values.

        Raises InputError for one that the model cannot take.
        """
        ...


@dataclass(frozen=True)
class Predictor:
    """Predictions of a run."""

    run: Run[Any, Any]
    options: PredictOptions

    @property
    def batch_size(self) -> int:
        # What is sampled must not depend on the rows beside it.
        return 1 if self.run.samples(self.options) else BATCH

    def example(self, row: RawRow, place: str) -> Any:
        return row_example(self.run, row.content, place)

    def records(
        self, examples: Sequence[Any], rows: Sequence[RawRow]
    ) -> list[dict[str, Any]]:
        predictions = self.run.predict(examples, self.options)
        return [
            ({} if _has_bytes(row) else self.run.record(example)) | prediction.to_json()
            for example, row, prediction in zip(
                examples, rows, predictions, strict=True
            )
        ]


@dataclass(frozen=True)
class Embedder:
    """Values of texts, such as vectors: `embed` computes those of several texts."""

    embed: Callable[[Sequence[str]], list[dict[str, Any]]]
    batch_size: int = BATCH

    def example(self, row: RawRow, place: str) -> str:
        return row.content if isinstance(row.content, str) else str(row.content["text"])

    def records(
        self, examples: Sequence[str], rows: Sequence[RawRow]
    ) -> list[dict[str, Any]]:
        return [
            {"text": text} | values
            for text, values in zip(examples, self.embed(examples), strict=True)
        ]


def _has_bytes(row: RawRow) -> bool:
    values = row.content.values() if isinstance(row.content, Mapping) else ()
    return any(isinstance(value, bytes | np.ndarray) for value in values)


SKIP_OPTION = "--skip-bad"


@dataclass(frozen=True)
class Counts:
    """What a part has.

    Rows of the input, of the output, and skipped ones with the first of them; its
    digest.
    """

    rows: int
    written: int
    skipped: int
    first_skipped: str
    bytes: int
    sha256: str


def compute_part(
    job: Job, number: int, worker: Worker, done: Callable[[int], None]
) -> Counts:
    """Compute and write a part; its counts are written last.

    `done` counts rows as they are computed.

    Raises:
        InputError: a row is bad and bad ones are not skipped; it names file and line.
        RunError: the part cannot be written.
    """
    span, request = job.spans[number], job.request
    collector = RowCollector(span.path, request.skip_bad, SKIP_OPTION)
    collector.kept = span.lines  # a file's first row that lacks columns lacks them throughout, a later one does not
    records = _compute_rows(
        list(request.reader.rows(span, collector)), worker, collector, done
    )
    if (results := len(records) + collector.skipped) != span.rows:
        lines = f"{results} rows from line {span.lines + 1} on, where {span.rows} were counted"
        raise InputError(f"{span.path}: has {lines}; it changed since, so {OUTPUT}")
    path = job.part(number)
    write_part(path, records, request.format)
    counts = Counts(
        span.rows,
        len(records),
        collector.skipped,
        collector.first,
        path.stat().st_size,
        sha256(path),
    )
    atomic.write(job.counts(number), json.dumps(asdict(counts)).encode())
    return counts


def _compute_rows(
    rows: Sequence[RawRow],
    worker: Worker,
    collector: RowCollector,
    done: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Return the records of the rows that are not skipped, in their order."""
    results: list[dict[str, Any] | None] = [None] * len(rows)
    examples = [
        _try_row(
            collector, row, lambda row=row: worker.example(row, _locate(collector, row))
        )
        for row in rows
    ]
    valid = [index for index, example in enumerate(examples) if example is not None]
    done(len(rows) - len(valid))
    by_length = sorted(valid, key=lambda index: _measure(rows[index].content))
    for first in range(0, len(by_length), worker.batch_size):
        indices = by_length[first : first + worker.batch_size]
        new_records = _compute_records(
            worker,
            [examples[index] for index in indices],
            [rows[index] for index in indices],
            collector,
        )
        for index, record in zip(indices, new_records, strict=True):
            results[index] = (
                None
                if record is None
                else {"place": _locate(collector, rows[index])} | record
            )
        done(len(indices))
    return [record for record in results if record is not None]


def _compute_records(
    worker: Worker,
    examples: Sequence[Any],
    rows: Sequence[RawRow],
    collector: RowCollector,
) -> Sequence[dict[str, Any] | None]:
    """Return the record of each example.

    Where one of several cannot be computed, one at a time, to name it.
    """
    try:
        return worker.records(examples, rows)
    except InputError:
        pairs = zip(examples, rows, strict=True)
        return [
            _try_row(
                collector,
                row,
                lambda example=example, row=row: worker.records([example], [row])[0],
            )
            for example, row in pairs
        ]


def _try_row(collector: RowCollector, row: RawRow, compute: Callable[[], Any]) -> Any:
    """Return what `compute` gives for a row; None where the row is refused.

    Raises InputError as `collector.refuse`.
    """
    try:
        return compute()
    except InputError as error:
        reason = (
            str(error)
            .removeprefix(f"{_locate(collector, row)}: ")
            .removeprefix("text 1: ")
        )
        collector.refuse(row.number, reason)
        return None


def _locate(collector: RowCollector, row: RawRow) -> str:
    return f"{collector.path}:{row.number}"


def _measure(content: str | Mapping[str, Any]) -> int:
    """Return about how long the example of a row is.

    Characters of its texts, bytes of its files.
    """
    return sum(map(len, _iterate_contents(content)))


def _iterate_contents(value: Any) -> Iterator[str | bytes]:
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _iterate_contents(item)


def run_job(job: Job, worker: Worker) -> dict[str, Any]:
    """Compute the parts that nobody has computed, and write the manifest of the complete job; the manifest's totals.

    A process takes a part by its lock, so processes need not know of each other; a killed one loses its part, which
    another takes. Raises InputError and RunError as `compute_part`.
    """
    with name_output_option():
        done = list_finished(job)
        silent = os.environ.get("RANK", "0") != "0"
        if len(done) < len(job.spans):
            rows = sum(job.spans[number].rows for number in done)
            with RowProgress(
                f"{job.request.verb} {job.folder}", job.rows, rows, silent=silent
            ) as progress:
                _compute(job, worker, done, progress)
        return complete(job)


def _compute(job: Job, worker: Worker, done: set[int], progress: RowProgress) -> None:
    count = len(job.spans)
    first = (
        int(os.environ.get("RANK", "0"))
        * count
        // int(os.environ.get("WORLD_SIZE", "1"))
    )
    rows = sum(job.spans[number].rows for number in done)
    while len(done) < count:
        before = len(done)
        for number in _count_from(first, count):
            if number not in done and (
                _is_written(job, number)
                or _compute_if_free(job, number, worker, progress.add)
            ):
                done.add(number)
                rows += job.spans[number].rows
                progress.elsewhere(rows)
        if len(done) == before:
            time.sleep(
                PAUSE
            )  # others compute what is left; the part of one that dies is free


def _compute_if_free(
    job: Job, number: int, worker: Worker, done: Callable[[int], None]
) -> bool:
    """Return whether a part is there now; False where another process computes it."""
    with _hold_lock(job, number) as is_mine:
        if is_mine and not _is_written(job, number):
            compute_part(job, number, worker, done)
    return is_mine


def ensure_part(
    job: Job, number: int, worker: Worker, done: Callable[[int], None]
) -> None:
    """Compute a part that is not there; wait while another process computes it.

    Raises as `compute_part`.
    """
    while not (_is_written(job, number) or _compute_if_free(job, number, worker, done)):
        time.sleep(PAUSE)


def _count_from(first: int, count: int) -> Iterator[int]:
    yield from range(first, count)
    yield from range(first)


@contextmanager
def _hold_lock(job: Job, number: int) -> Iterator[bool]:
    """Hold the lock of a part inside; False where another process holds it."""
    try:
        lock = Lock(job.work, f"{number:06}.lock")
    except InputError as error:
        if not isinstance(error.__cause__, BlockingIOError | PermissionError):
            raise
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def list_finished(job: Job) -> set[int]:
    """Return the numbers of the parts that are there, by their size."""
    return {number for number in range(len(job.spans)) if _is_written(job, number)}


def _is_written(job: Job, number: int) -> bool:
    counts = _read_counts(job, number)
    try:
        return counts is not None and job.part(number).stat().st_size == counts.bytes
    except OSError:
        return False


def _read_counts(job: Job, number: int) -> Counts | None:
    try:
        return Counts(**json.loads(job.counts(number).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def complete(job: Job) -> dict[str, Any]:
    """Write the manifest of a job whose parts are all there.

    What was read, and each part with its counts and digest. Returns the totals. Raises
    RunError where it cannot be written.
    """
    counts = [
        counts_of_part
        for number in range(len(job.spans))
        if (counts_of_part := _read_counts(job, number)) is not None
    ]
    totals = {
        "rows in": sum(counts_of_part.rows for counts_of_part in counts),
        "rows out": sum(counts_of_part.written for counts_of_part in counts),
        "skipped": sum(counts_of_part.skipped for counts_of_part in counts),
        "parts": len(counts),
    }
    parts = [
        {
            "name": job.part(number).name,
            "input": span.path,
            "first_line": span.lines + 1,
            **vars(counts_of_part),
        }
        for number, (span, counts_of_part) in enumerate(
            zip(job.spans, counts, strict=True)
        )
    ]
    about = {
        "content": "batch prediction",
        **totals,
        "request": job.request.description(),
        "parts": parts,
    }
    with waiting(job.folder, str(job.folder), "writes its manifest"):
        atomic.write(job.manifest, (json.dumps(about, indent=1) + "\n").encode())
    return totals | {"manifest": str(job.manifest)}


class PartActor:
    """An actor with a worker of its own.

    Errors of a part are values, since Ray would try such a part again.
    """

    def __init__(self, job: Job, load: Callable[[], Worker], folder: str) -> None:
        os.chdir(folder)  # the paths of a job may be relative
        self.job, self.worker = job, load()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Compute the parts with the numbers in a batch."""
        rows, errors, codes = [], [], []
        for number in map(int, batch["number"]):
            try:
                ensure_part(self.job, number, self.worker, lambda rows: None)
                error, code = "", 0
            except (InputError, RunError) as failed:
                error, code = str(failed), failed.exit_code
            rows.append(self.job.spans[number].rows)
            errors.append(error)
            codes.append(code)
        return {"rows": rows, "error": errors, "code": codes}


def run_on_ray(job: Job, load: Callable[[], Worker]) -> dict[str, Any]:
    """Compute a job as `run_job` does, on a Ray cluster.

    It is the cluster that this process is connected to, or that RAY_ADDRESS names, or
    one of this machine. Ray starts as many actors as the cluster has room for, and runs
    the parts of lost ones again.

    Raises:
        InputError: A row is bad.
        RunError: A part cannot be written.
    """
    ray, data = importlib.import_module("ray"), importlib.import_module("ray.data")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    done = list_finished(job)
    missing = [
        {"number": number} for number in range(len(job.spans)) if number not in done
    ]
    rows = sum(job.spans[number].rows for number in done)
    with (
        name_output_option(),
        RowProgress(f"{job.request.verb} {job.folder}", job.rows, rows) as progress,
    ):
        if missing:
            pool = data.ActorPoolStrategy(min_size=1, max_size=len(missing))
            parts = data.from_items(
                missing, override_num_blocks=len(missing)
            ).map_batches(
                PartActor,
                fn_constructor_args=(job, load, os.getcwd()),
                batch_size=1,
                compute=pool,
            )
            for part in parts.iter_rows():
                if part["code"]:
                    raise (
                        InputError if part["code"] == InputError.exit_code else RunError
                    )(part["error"])
                progress.add(part["rows"])
        return complete(job)
