"""Jobs of batch prediction.

What is computed of which files, and the folder with the parts.
"""

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from regard.data.files import stat_stamp
from regard.data.inputs import ImageReader, RowReader, Span
from regard.errors import InputError
from regard.extras import how_to_install
from regard.storage import atomic
from regard.storage.atomic import replacing
from regard.storage.lock import NAME as LOCK
from regard.storage.manifest import NAME as MANIFEST
from regard.storage.waiting import waiting

PartFormat = Literal["jsonl", "parquet"]


def check_format(kind: PartFormat) -> None:
    """Raise InputError for a format whose library is not installed."""
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise InputError(
            f"--format parquet needs pyarrow, which is not installed: {how_to_install('pyarrow')}"
        )


def write_part(
    path: Path, records: Sequence[Mapping[str, Any]], kind: PartFormat
) -> None:
    """Write records in their order.

    In Parquet a value that is no text, number or truth value is JSON in a text. Raises
    RunError as `replacing` does.
    """
    with replacing(path) as temporary:
        if kind == "parquet":
            _write_parquet(temporary, records)
            return
        with temporary.open("wb") as file:
            for record in records:
                line = json.dumps(record, ensure_ascii=False) + "\n"
                file.write(
                    line.encode("utf-8", "backslashreplace")
                )  # a lone surrogate as JSON escapes it


def _write_parquet(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    pa, parquet = (
        importlib.import_module("pyarrow"),
        importlib.import_module("pyarrow.parquet"),
    )
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: [_plain(record.get(name)) for record in records] for name in names}
    parquet.write_table(
        pa.table({name: _array(pa, values) for name, values in columns.items()}), path
    )


def _array(pa: Any, values: Sequence[Any]) -> Any:
    """Return a column.

    One of nothing is one of texts, as its type must not depend on the part.
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [
            value if value is None or isinstance(value, str) else json.dumps(value)
            for value in values
        ]
    return pa.array(values, type=None if kinds else pa.string())


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return (
        value
        if value is None or isinstance(value, bool | int | float)
        else json.dumps(value, ensure_ascii=False)
    )


JOB, COUNTS = "job.json", "counts"
VERSION = 1
OUT, OUTPUT = "choose another --out", "choose another --output"


@dataclass(frozen=True)
class Request:
    """What is computed."""

    verb: str
    """The command."""
    run: Path
    """The folder of the run."""
    settings: Mapping[str, Any]
    """The options, in plain values."""
    inputs: Sequence[str]
    """The files."""
    reader: RowReader | ImageReader
    """How their rows are read."""
    format: PartFormat
    """The format of the parts."""
    part_rows: int
    """The most rows of an input in one part."""
    skip_bad: bool = False
    """Whether bad rows are left out and counted."""

    def description(self) -> dict[str, Any]:
        """Return the request in plain values, with the state of the run and the inputs."""
        return {
            "version": VERSION,
            "verb": self.verb,
            "run": [str(self.run), *_describe_run(self.run)],
            "settings": json.loads(json.dumps(self.settings, default=str)),
            "columns": dict(self.reader.columns),
            "inputs": [stat_stamp(path) for path in self.inputs],
            "format": self.format,
            "rows of a part": self.part_rows,
            "skip_bad": self.skip_bad,
        }


@dataclass(frozen=True)
class Job:
    """A job in its folder: the request, and the span of each part."""

    folder: Path
    request: Request
    spans: Sequence[Span]

    @property
    def rows(self) -> int:
        """The rows of all inputs."""
        return sum(span.rows for span in self.spans)

    @property
    def manifest(self) -> Path:
        """The file that the job ends with."""
        return self.folder / MANIFEST

    @property
    def work(self) -> Path:
        """The folder of the counts and locks of parts."""
        return self.folder / COUNTS

    def part(self, number: int) -> Path:
        """Return the file of a part."""
        return self.folder / f"part-{number:06}.{self.request.format}"

    def counts(self, number: int) -> Path:
        """Return the file that is written once a part is."""
        return self.work / f"{number:06}.json"


def begin(folder: Path, request: Request) -> Job:
    """Return the job in a folder, begun or continued.

    Its inputs are cut into spans once, by one process.

    Raises:
        InputError: the folder has files of something else, or of another job; an input cannot be read or lacks columns.
        RunError: the folder cannot be written.
    """
    description = request.description()
    with name_output_option():
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; {OUT}")
        if folder.is_dir() and not (folder / JOB).exists():
            _refuse_others(folder)
        with atomic.explained(folder):
            (folder / COUNTS).mkdir(parents=True, exist_ok=True)
        with waiting(folder, f"{folder}: the parts of the inputs", "counts their rows"):
            if (folder / JOB).exists():
                return Job(folder, request, _read_spans(folder, description))
            spans = [
                span
                for path in request.inputs
                for span in request.reader.spans(path, request.part_rows)
            ]
            saved = {path: number for number, path in enumerate(request.inputs)}
            cut = [
                [saved[span.path], span.lines, span.offset, span.rows] for span in spans
            ]
            atomic.write(
                folder / JOB, json.dumps(description | {"spans": cut}).encode()
            )
    return Job(folder, request, spans)


def _read_spans(folder: Path, description: Mapping[str, Any]) -> list[Span]:
    """Return the spans of the job in a folder.

    Raises InputError for another job.
    """
    try:
        saved = json.loads((folder / JOB).read_text(encoding="utf-8"))
        for name, value in description.items():
            if saved[name] != value:
                difference = _difference(name, saved[name], value)
                raise InputError(
                    f"{folder}: has predictions of another job: {difference}; {OUT}"
                )
        return [
            Span(description["inputs"][file][0], *numbers)
            for file, *numbers in saved["spans"]
        ]
    except InputError:
        raise
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{folder / JOB}: is damaged ({' '.join(str(error).split())[:80]}); {OUT}"
        ) from error


def _difference(name: str, old: Any, new: Any) -> str:
    """Return the first difference of two values, in words."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                return (
                    f"{key} was {_shorten(old.get(key))}, now {_shorten(new.get(key))}"
                )
    if name == "inputs" and isinstance(old, list):
        for old_input, new_input in zip(old, new, strict=False):
            if old_input != new_input:
                same = old_input[0] == new_input[0]
                return (
                    f"{new_input[0]} changed since"
                    if same
                    else f"an input was {old_input[0]}, now {new_input[0]}"
                )
        return f"it has {len(old)} inputs, now {len(new)}"
    if name == "run" and isinstance(old, list) and old[:1] == new[:1]:
        return f"the run {new[0]} changed since"
    return f"{name} was {_shorten(old)}, now {_shorten(new)}"


def _shorten(value: Any) -> str:
    return json.dumps(
        value[0] if isinstance(value, list) and value else value, default=str
    )[:60]


def _refuse_others(folder: Path) -> None:
    """Raise InputError for a folder with files that no job wrote."""
    names = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name not in (LOCK, COUNTS, JOB + atomic.SUFFIX)
    )
    if names:
        raise InputError(f"{folder}: has other files ({', '.join(names[:3])}); {OUT}")


def _describe_run(run: Path) -> list[Any]:
    """Sizes and times of change of a run's own files, by which another state of it is noticed."""
    if not run.is_dir():
        return []
    files = (path for path in run.iterdir() if path.suffix in (".safetensors", ".yaml"))
    return sorted([path.name, *stat_stamp(str(path))[1:]] for path in files)


@contextmanager
def name_output_option() -> Iterator[None]:
    """Name the option of the output folder in the remedies of errors inside."""
    with atomic.remedy(OUT, OUTPUT):
        yield
