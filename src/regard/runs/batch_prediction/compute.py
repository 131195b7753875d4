"""The records of one part: its rows are computed sorted by length, and written in their order."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.data.bad_records import RowCollector
from regard.data.spans import RawRow
from regard.errors import InputError
from regard.runs.batch_prediction.job import OUTPUT, Job
from regard.runs.batch_prediction.parts import write_part
from regard.runs.batch_prediction.workers import Worker
from regard.storage import atomic
from regard.storage.manifest import sha256

SKIP_OPTION = "--skip-bad"


@dataclass(frozen=True)
class Counts:
    """What a part has: rows of the input, of the output, and skipped ones with the first of them; its digest."""

    rows: int
    written: int
    skipped: int
    first_skipped: str
    bytes: int
    sha256: str


def compute_part(
    job: Job, number: int, worker: Worker, done: Callable[[int], None]
) -> Counts:
    """Compute and write a part; its counts are written last. `done` counts rows as they are computed.

    Raises:
        InputError: a row is bad and bad ones are not skipped; it names file and line.
        RunError: the part cannot be written.
    """
    span, request = job.spans[number], job.request
    collector = RowCollector(span.path, request.skip_bad, SKIP_OPTION)
    collector.kept = span.lines  # a file's first row that lacks columns lacks them throughout, a later one does not
    records = _records(
        list(request.reader.rows(span, collector)), worker, collector, done
    )
    if (found := len(records) + collector.skipped) != span.rows:
        lines = f"{found} rows from line {span.lines + 1} on, where {span.rows} were counted"
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


def _records(
    rows: Sequence[RawRow],
    worker: Worker,
    collector: RowCollector,
    done: Callable[[int], None],
) -> list[dict[str, Any]]:
    """The records of the rows that are not skipped, in their order, each with its place."""
    found: list[dict[str, Any] | None] = [None] * len(rows)
    examples = [
        _tried(
            collector, row, lambda row=row: worker.example(row, _place(collector, row))
        )
        for row in rows
    ]
    usable = [index for index, example in enumerate(examples) if example is not None]
    done(len(rows) - len(usable))
    by_length = sorted(usable, key=lambda index: _length(rows[index].content))
    for first in range(0, len(by_length), worker.together):
        some = by_length[first : first + worker.together]
        computed = _computed(
            worker,
            [examples[index] for index in some],
            [rows[index] for index in some],
            collector,
        )
        for index, record in zip(some, computed, strict=True):
            found[index] = (
                None
                if record is None
                else {"place": _place(collector, rows[index])} | record
            )
        done(len(some))
    return [record for record in found if record is not None]


def _computed(
    worker: Worker,
    examples: Sequence[Any],
    rows: Sequence[RawRow],
    collector: RowCollector,
) -> Sequence[dict[str, Any] | None]:
    """The record of each example; where one of several cannot be computed, one at a time, to name it."""
    try:
        return worker.records(examples, rows)
    except InputError:
        pairs = zip(examples, rows, strict=True)
        return [
            _tried(
                collector,
                row,
                lambda example=example, row=row: worker.records([example], [row])[0],
            )
            for example, row in pairs
        ]


def _tried(collector: RowCollector, row: RawRow, compute: Callable[[], Any]) -> Any:
    """What `compute` gives for a row; None where the row is refused. Raises InputError as `collector.refuse`."""
    try:
        return compute()
    except InputError as error:
        reason = (
            str(error)
            .removeprefix(f"{_place(collector, row)}: ")
            .removeprefix("text 1: ")
        )
        collector.refuse(row.number, reason)
        return None


def _place(collector: RowCollector, row: RawRow) -> str:
    return f"{collector.path}:{row.number}"


def _length(content: str | Mapping[str, Any]) -> int:
    """About how long the example of a row is: characters of its texts, bytes of its files."""
    return sum(map(len, _sized(content)))


def _sized(value: Any) -> Iterator[str | bytes]:
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _sized(each)
