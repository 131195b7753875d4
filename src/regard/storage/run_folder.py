"""The folder of a run: one writer, every file whole and listed with its digest."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pydantic
from torch import Tensor

from regard.errors import InputError
from regard.storage import atomic, tensors
from regard.storage import manifest as manifests
from regard.storage.atomic import NAME as LOCK
from regard.storage.atomic import Lock
from regard.storage.checkpoints import Checkpoints
from regard.storage.manifest import CHANGED, LOG, Manifest

LOST_AND_FOUND = "lost+found"
"""The folder that every new file system of some kinds has."""
WEIGHTS = "weights.safetensors"
"""The file of a trained run's weights."""
METRICS, RESULT = "metrics.jsonl", "result.json"
"""The log of training and validation, and the file of a finished run's figures."""
ABOUT_TRAINING = (
    "seconds",
    "steps",
    "parameters",
    "tokens_per_second",
    "images_per_second",
)
"""The figures of it that describe the training; the others are metrics."""
RECORD = pydantic.TypeAdapter(dict[str, Any])
LABELS, SCALE = "labels.json", "scale.json"
"""The files of the labels of a run's outputs, and of the mean and the deviation of the
numbers that it learned."""


class RunDirectory:
    """A run's folder, from `create` (to write, locked until `close`) or `open` (to read).

    Reading raises InputError for a missing or damaged file, writing RunError on a full
    disk. A log (`append_jsonl`) is the one kind of file that grows in place: its records
    are whole, but it has no digest.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: Lock | None) -> None:
        self.path, self._manifest, self._lock = path, manifest, lock
        self._created = False

    @classmethod
    def create(cls, path: Path, *, resume: bool = False) -> "RunDirectory":
        """Make a new run at `path`, or with `resume` open the existing one to write.

        Temporary files of a killed process are removed.

        Raises:
            InputError: `path` is in use, is something else, or holds a run (without
                `resume`) or none (with it).
        """
        with atomic.explain_errors(path):
            check_path(path, resume=resume)
            created = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
        lock = Lock(path)
        try:
            check_path(path, resume=resume)  # another process may have been quicker
            for leftover in list(path.rglob(f"*{atomic.SUFFIX}")):
                atomic.discard(leftover)
            manifest = Manifest.read(path) if resume else Manifest(path, "run")
            if not resume:
                manifest.write()
            run = cls(path, manifest, lock)
            run._created = created
            for name, digests in list(manifest.files.items()):
                if not digests:
                    run.keep_jsonl(name, lambda record: True)
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Open the run at `path` for reading; it may be in use."""
        expected = "expected the folder of a run, which regard train writes"
        try:
            if not is_run(path):
                raise InputError(f"{path}: {describe(path)}; {expected}")
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
            raise InputError(f"{path}: {reason}; {expected}") from error
        return cls(path, Manifest.read(path), None)

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock. May be called twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def withdraw(self) -> None:
        """Remove what this run has written, with its folder if `create` made that.

        A folder that was there, such as a mount point or what a link leads to, is
        somebody's: it stays, empty as it was.
        """
        for path in self.path.iterdir():
            if path.name != LOST_AND_FOUND:
                atomic.discard(path)
        if self._created and not any(self.path.iterdir()):
            self.path.rmdir()

    @property
    def manifest(self) -> Manifest:
        """The list of its files.

        A reader reads it again each time, since another process may train the run.
        """
        return self._manifest if self._lock is not None else Manifest.read(self.path)

    def file(self, name: str) -> Path:
        """Return the path of a verified file."""
        return self.manifest.check(manifests.check_name(name))

    def has(self, name: str) -> bool:
        """Return whether the run has a file of this name."""
        return name in self.manifest.files and (self.path / name).is_file()

    def names(self, ending: str) -> list[str]:
        """Return the names of files with an ending, in alphabetical order."""
        return sorted(name for name in self.manifest.files if name.endswith(ending))

    @property
    def digest(self) -> str:
        """A SHA-256 over those of all files but logs."""
        files = self.manifest.files.items()
        newest = {name: digests[0] for name, digests in files if digests}
        return hashlib.sha256(json.dumps(newest, sort_keys=True).encode()).hexdigest()

    def read_text(self, name: str) -> str:
        """Return the text of a file."""
        path = self.file(name)
        try:
            return manifests.content(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8 text, {CHANGED}") from error

    def read_json(self, name: str, kind: Any = Any) -> Any:
        """Return the value of a JSON file, of this type."""
        return manifests.parse_json(self.path / name, self.read_text(name), kind)

    def read_object(self, name: str) -> dict[str, Any]:
        """Return the object of a JSON file."""
        return self.read_json(name, dict[str, Any])

    def read_labels(self) -> list[str]:
        """Return the names of the classes."""
        return self.read_json(LABELS, list[str])

    def load_tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a .safetensors file, on the CPU."""
        return tensors.read(self.file(name))

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Replace the file `name` by what is written at the path inside.

        The manifest has the new digest just before the rename, so that it is valid at
        every moment.
        """
        self._check_writable()
        files = self._manifest.files
        with atomic.replacing(self.path / manifests.check_name(name)) as temporary:
            yield temporary
            old = files.get(name)
            if old != []:  # a log that is rewritten stays a log
                # until the rename the old content is valid too
                digests = [manifests.sha256(temporary), *(old or ())]
                files[name] = list(dict.fromkeys(digests))
                self._manifest.write()
        del files[name][1:]

    def write_text(self, name: str, text: str) -> None:
        """Replace the file `name` (a path inside the folder), in UTF-8."""
        with self.writing(name) as temporary:
            temporary.write_bytes(text.encode("utf-8"))

    def write_json(self, name: str, value: Any) -> None:
        """Replace the file `name` by a JSON value."""
        self.write_text(name, json.dumps(value, ensure_ascii=False, indent=1) + "\n")

    def save_tensors(
        self,
        name: str,
        values: Mapping[str, Tensor],
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the .safetensors file `name`."""
        with self.writing(name) as temporary:
            tensors.write(temporary, values, metadata)

    def append_jsonl(self, name: str, record: Mapping[str, Any]) -> None:
        """Append one line to a log, in one piece; on a full disk it stays as it was."""
        line = json.dumps(dict(record), ensure_ascii=False) + "\n"
        atomic.append(self._open_log(name), line.encode("utf-8"))

    def read_jsonl(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a log, without an incomplete last line."""
        path, records = self.file(name), []
        *lines, _ = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                records.append(RECORD.validate_json(line))
            except ValueError as error:
                raise InputError(
                    f"{path}:{number}: is no record of a log, a JSON object; remove the "
                    "line"
                ) from error
        return records

    def keep_jsonl(self, name: str, keep: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the records of a log for which `keep` is false."""
        path = self._open_log(name)
        records = filter(keep, self.read_jsonl(name) if path.is_file() else ())
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        atomic.write(path, "".join(lines).encode("utf-8"))

    @property
    def checkpoints(self) -> Checkpoints:
        """Its checkpoints."""
        return Checkpoints(manifests.resolve_inside(self.path, "checkpoints"))

    def _check_writable(self) -> None:
        if self._lock is None:
            raise ValueError(f"{self.path}: this run is open for reading only")

    def _open_log(self, name: str) -> Path:
        self._check_writable()
        digests = self._manifest.files.setdefault(manifests.check_name(name), [])
        if not name.endswith(LOG) or digests:
            raise ValueError(f"{name} is not a log, whose name ends in {LOG}")
        path = self.path / name
        if not path.exists():
            self._manifest.write()
            with atomic.explain_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
        return path


def is_run(path: Path) -> bool:
    """Return whether a folder is a run."""
    return (path / manifests.NAME).is_file() and Manifest.read(path).content == "run"


def check_path(path: Path, *, resume: bool) -> None:
    """Check that a run can be written at a path.

    Raises:
        InputError: It cannot.
    """
    problem = ""
    if path.is_symlink() and not path.exists():
        problem = (
            f"is a link to {path.readlink()}, which does not exist; create it first"
        )
    elif path.exists() and not path.is_dir():
        problem = "is a file; expected a folder for the run, choose another --out"
    elif resume and not is_run(path):
        problem = (
            f"{describe(path)}, so there is no run to resume; leave out --resume to "
            "start one"
        )
    elif not resume and is_run(path):
        problem = "already holds a run; use --resume to continue it, or another --out"
    elif not resume and path.is_dir() and list_contents(path):
        problem = f"{describe(path)}, not a run; choose another --out"
    if problem:
        raise InputError(f"{path}: {problem}")


def list_contents(path: Path) -> list[str]:
    """Return the names in a folder, without the traces of a run killed at its start."""
    traces = {LOCK, manifests.NAME + atomic.SUFFIX, LOST_AND_FOUND}
    return sorted({item.name for item in path.iterdir()} - traces)


def describe(path: Path) -> str:
    """Return what is at a path that is no run."""
    if not path.exists():
        return "no such folder"
    if not path.is_dir():
        return f"is {manifests.detect_kind(path) or 'a file'}"
    names = list_contents(path)
    if (path / manifests.NAME).is_file():
        return f"is a {Manifest.read(path).content} inside a run"
    if "config.json" in names and any(path.glob("*.safetensors")):
        return "is a Hugging Face folder"
    listed = tensors.list_first(names)
    return f"is a folder with {listed}" if names else "is an empty folder"
