"""A job of batch prediction: what is computed of which files, and its folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.image_inputs import ImageReader
from regard.data.opening import stamp
from regard.data.spans import RowReader, Span
from regard.errors import InputError
from regard.runs.batch_prediction.parts import PartFormat
from regard.storage import atomic
from regard.storage.lock import NAME as LOCK
from regard.storage.manifest import NAME as MANIFEST
from regard.storage.waiting import waiting

JOB, COUNTS = "job.json", "counts"
VERSION = 1
OUT, OUTPUT = "choose another --out", "choose another --output"


@dataclass(frozen=True)
class Request:
    """What is computed.

    verb: the command. run: the folder of the run. settings: its options, in plain values.
    inputs: the files. reader: how their rows are read.
    format: that of the parts. part_rows: the most rows of an input in one part.
    skip_bad: leave out bad rows and count them.
    """

    verb: str
    run: Path
    settings: Mapping[str, Any]
    inputs: Sequence[str]
    reader: RowReader | ImageReader
    format: PartFormat
    part_rows: int
    skip_bad: bool = False

    def description(self) -> dict[str, Any]:
        """The request in plain values, with the sizes and times of change of the run's files and the inputs."""
        return {
            "version": VERSION,
            "verb": self.verb,
            "run": [str(self.run), *_state(self.run)],
            "settings": json.loads(json.dumps(self.settings, default=str)),
            "columns": dict(self.reader.columns),
            "inputs": [stamp(path) for path in self.inputs],
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
        """The file of a part."""
        return self.folder / f"part-{number:06}.{self.request.format}"

    def counts(self, number: int) -> Path:
        """The file that is written once a part is."""
        return self.work / f"{number:06}.json"


def begin(folder: Path, request: Request) -> Job:
    """The job in a folder, begun or continued; its inputs are cut into spans once, by one process.

    Raises:
        InputError: the folder has files of something else, or of another job; an input cannot be read or lacks columns.
        RunError: the folder cannot be written.
    """
    description = request.description()
    with named_output():
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; {OUT}")
        if folder.is_dir() and not (folder / JOB).exists():
            _refuse_others(folder)
        with atomic.explained(folder):
            (folder / COUNTS).mkdir(parents=True, exist_ok=True)
        with waiting(folder, f"{folder}: the parts of the inputs", "counts their rows"):
            if (folder / JOB).exists():
                return Job(folder, request, _continued(folder, description))
            spans = [
                span
                for path in request.inputs
                for span in request.reader.spans(path, request.part_rows)
            ]
            known = {path: number for number, path in enumerate(request.inputs)}
            cut = [
                [known[span.path], span.lines, span.offset, span.rows] for span in spans
            ]
            atomic.write(
                folder / JOB, json.dumps(description | {"spans": cut}).encode()
            )
    return Job(folder, request, spans)


def _continued(folder: Path, description: Mapping[str, Any]) -> list[Span]:
    """The spans of the job in a folder. Raises InputError for another job."""
    try:
        known = json.loads((folder / JOB).read_text(encoding="utf-8"))
        for name, value in description.items():
            if known[name] != value:
                what = _difference(name, known[name], value)
                raise InputError(
                    f"{folder}: has predictions of another job: {what}; {OUT}"
                )
        return [
            Span(description["inputs"][file][0], *rest)
            for file, *rest in known["spans"]
        ]
    except InputError:
        raise
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{folder / JOB}: is damaged ({' '.join(str(error).split())[:80]}); {OUT}"
        ) from error


def _difference(name: str, old: Any, new: Any) -> str:
    """The first difference of two values, in words."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                return f"{key} was {_short(old.get(key))}, now {_short(new.get(key))}"
    if name == "inputs" and isinstance(old, list):
        for one, other in zip(old, new, strict=False):
            if one != other:
                same = one[0] == other[0]
                return (
                    f"{other[0]} changed since"
                    if same
                    else f"an input was {one[0]}, now {other[0]}"
                )
        return f"it has {len(old)} inputs, now {len(new)}"
    if name == "run" and isinstance(old, list) and old[:1] == new[:1]:
        return f"the run {new[0]} changed since"
    return f"{name} was {_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    return json.dumps(
        value[0] if isinstance(value, list) and value else value, default=str
    )[:60]


def _refuse_others(folder: Path) -> None:
    """Raises InputError for a folder with files that no job wrote."""
    found = sorted(
        each.name
        for each in folder.iterdir()
        if each.name not in (LOCK, COUNTS, JOB + atomic.SUFFIX)
    )
    if found:
        raise InputError(f"{folder}: has other files ({', '.join(found[:3])}); {OUT}")


def _state(run: Path) -> list[Any]:
    """Sizes and times of change of a run's own files, by which another state of it is noticed."""
    if not run.is_dir():
        return []
    own = (path for path in run.iterdir() if path.suffix in (".safetensors", ".yaml"))
    return sorted([path.name, *stamp(str(path))[1:]] for path in own)


@contextmanager
def named_output() -> Iterator[None]:
    """Name the option of the output folder in the remedies of errors inside."""
    with atomic.remedy(OUT, OUTPUT):
        yield
