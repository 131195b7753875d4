"""The parts of a job, computed by this process and those beside it, until none is left."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from regard.data.progress import Progress
from regard.errors import InputError
from regard.runs.batch_prediction.compute import Counts, compute_part
from regard.runs.batch_prediction.job import Job, named_output
from regard.runs.batch_prediction.workers import Worker
from regard.storage import atomic
from regard.storage.lock import Lock
from regard.storage.waiting import PAUSE, waiting


def run_job(job: Job, worker: Worker) -> dict[str, Any]:
    """Compute the parts that nobody has computed, and write the manifest of the complete job; the manifest's totals.

    A process takes a part by its lock, so processes need not know of each other; a killed one loses its part, which
    another takes. Raises InputError and RunError as `compute_part`.
    """
    with named_output():
        done = finished(job)
        silent = os.environ.get("RANK", "0") != "0"
        if len(done) < len(job.spans):
            rows = sum(job.spans[number].rows for number in done)
            with Progress(
                f"{job.request.verb} {job.folder}", job.rows, rows, silent=silent
            ) as progress:
                _compute(job, worker, done, progress)
        return complete(job)


def _compute(job: Job, worker: Worker, done: set[int], progress: Progress) -> None:
    count = len(job.spans)
    first = (
        int(os.environ.get("RANK", "0"))
        * count
        // int(os.environ.get("WORLD_SIZE", "1"))
    )
    rows = sum(job.spans[number].rows for number in done)
    while len(done) < count:
        before = len(done)
        for number in _from(first, count):
            if number not in done and (
                _present(job, number) or _computed(job, number, worker, progress.add)
            ):
                done.add(number)
                rows += job.spans[number].rows
                progress.elsewhere(rows)
        if len(done) == before:
            time.sleep(
                PAUSE
            )  # others compute what is left; the part of one that dies is free


def _computed(
    job: Job, number: int, worker: Worker, done: Callable[[int], None]
) -> bool:
    """Whether a part is there now; False where another process computes it."""
    with _held(job, number) as mine:
        if mine and not _present(job, number):
            compute_part(job, number, worker, done)
    return mine


def ensure_part(
    job: Job, number: int, worker: Worker, done: Callable[[int], None]
) -> None:
    """Compute a part that is not there; wait while another process computes it. Raises as `compute_part`."""
    while not (_present(job, number) or _computed(job, number, worker, done)):
        time.sleep(PAUSE)


def _from(first: int, count: int) -> Iterator[int]:
    yield from range(first, count)
    yield from range(first)


@contextmanager
def _held(job: Job, number: int) -> Iterator[bool]:
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


def finished(job: Job) -> set[int]:
    """The numbers of the parts that are there as they were written, by their size."""
    return {number for number in range(len(job.spans)) if _present(job, number)}


def _present(job: Job, number: int) -> bool:
    counts = _counts(job, number)
    try:
        return counts is not None and job.part(number).stat().st_size == counts.bytes
    except OSError:
        return False


def _counts(job: Job, number: int) -> Counts | None:
    try:
        return Counts(**json.loads(job.counts(number).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def complete(job: Job) -> dict[str, Any]:
    """Write the manifest of a job whose parts are all there: what was read, and each part with its counts and digest.
    Returns the totals. Raises RunError where it cannot be written."""
    counts = [
        each
        for number in range(len(job.spans))
        if (each := _counts(job, number)) is not None
    ]
    totals = {
        "rows in": sum(each.rows for each in counts),
        "rows out": sum(each.written for each in counts),
        "skipped": sum(each.skipped for each in counts),
        "parts": len(counts),
    }
    parts = [
        {
            "name": job.part(number).name,
            "input": span.path,
            "first_line": span.lines + 1,
            **vars(each),
        }
        for number, (span, each) in enumerate(zip(job.spans, counts, strict=True))
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
