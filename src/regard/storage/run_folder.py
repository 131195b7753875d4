"""The folder of a run: one writer, every file whole and listed with its digest."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.storage import atomic, tensors
from regard.storage import checkpoints as checkpoint_files
from regard.storage import lock as locks
from regard.storage import manifest as manifests
from regard.storage.checkpoints import Checkpoint
from regard.storage.manifest import (
    CHANGED,
    LOG,
    Manifest,
    content,
    inside,
    named,
    parsed,
    plain,
    sha256,
)

FOUND = "lost+found"
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
LABELS, SCALE = "labels.json", "scale.json"
"""The files of the labels of a run's outputs, and of the mean and the deviation of the numbers that it learned."""


class RunDirectory:
    """A run's folder, from `create` (to write, locked until `close`) or `open` (to read). Writing raises RunError on a
    full disk.

    A log (`append_jsonl`) is the one kind of file that grows in place: its records are whole, but it has no digest.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: locks.Lock | None) -> None:
        self.path = path
        self._manifest = manifest
        self._lock = lock
        self._created = False

    @classmethod
    def create(cls, path: Path, *, resume: bool = False) -> "RunDirectory":
        """A new run at `path`, or with `resume` the existing one, without the temporary files of a killed process.

        Raises InputError if `path` is in use, is something else, or holds a run (without `resume`) or none (with it).
        """
        with atomic.explained(path):
            _refuse(path, resume)
            created = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
        lock = locks.Lock(path)
        try:
            _refuse(path, resume)  # again: another process may have been quicker
            for leftover in list(path.rglob(f"*{atomic.SUFFIX}")):
                atomic.discard(leftover)
            manifest = Manifest.read(path) if resume else Manifest(path, "run")
            if not resume:
                manifest.write()
            run = cls(path, manifest, lock)
            run._created = created
            for name in [
                name for name, digests in manifest.files.items() if not digests
            ]:
                run.keep_jsonl(name, lambda record: True)
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """The run at `path`, for reading; it may be in use. Raises InputError with the kind of anything else there."""
        try:
            if not _is_run(path):
                raise InputError(
                    f"{path}: {_what(path)}; expected the folder of a run, which regard train writes"
                )
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}); expected the folder of a run"
            ) from error
        return cls(path, Manifest.read(path), None)

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def withdraw(self) -> None:
        """Remove what this run has written, with its folder if `create` made that. A folder that was there, such as a
        mount point or what a link leads to, is somebody's: it stays, empty as it was."""
        self._writable()
        for path in self.path.iterdir():
            if path.name != FOUND:
                atomic.discard(path)
        if self._created and not any(
            self.path.iterdir()
        ):  # else something stays, which is not the real trouble
            self.path.rmdir()

    def close(self) -> None:
        """Release the lock. May be called twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

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

    def read_text(self, name: str) -> str:
        """The text of a verified file. Raises InputError if it is missing or damaged; so do the readers below."""
        path = self.file(name)
        try:
            return content(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8 text, {CHANGED}") from error

    def read_json(self, name: str) -> Any:
        """The value of a JSON file."""
        return parsed(self.path / name, self.read_text(name))

    def read_object(self, name: str) -> dict[str, Any]:
        """The object of a JSON file."""
        found = self.read_json(name)
        if not isinstance(found, dict):
            raise InputError(f"{self.path / name}: is no JSON object, {CHANGED}")
        return found

    def read_labels(self) -> list[str]:
        """The names of the classes."""
        labels = self.read_json(LABELS)
        if not isinstance(labels, list) or not all(
            isinstance(label, str) for label in labels
        ):
            raise InputError(f"{self.path / LABELS}: is no list of names, {CHANGED}")
        return labels

    def load_tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a .safetensors file, on the CPU."""
        return tensors.read(self.file(name))

    def file(self, name: str) -> Path:
        """The path of a verified file."""
        return self._listed().check(plain(name))

    def has(self, name: str) -> bool:
        """Whether the run has a file of this name."""
        return name in self._listed().files and (self.path / name).is_file()

    @property
    def digest(self) -> str:
        """A SHA-256 over those of all files but logs."""
        newest = {
            name: digests[0]
            for name, digests in self._listed().files.items()
            if digests
        }
        content = json.dumps(newest, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def names(self, ending: str) -> list[str]:
        """The names of files with an ending, in alphabetical order."""
        return sorted(name for name in self._listed().files if name.endswith(ending))

    def append_jsonl(self, name: str, record: Mapping[str, Any]) -> None:
        """Append one line to a log, in one piece; on a full disk the log stays as it was."""
        path = self._log(name)
        atomic.append(
            path, (json.dumps(dict(record), ensure_ascii=False) + "\n").encode("utf-8")
        )

    def read_jsonl(self, name: str) -> list[dict[str, Any]]:
        """The records of a log, without an incomplete last line of a killed process. Raises InputError for a line that
        is no record."""
        path = self.file(name)
        *lines, _ = path.read_bytes().split(b"\n")
        return [_record(path, number, line) for number, line in enumerate(lines, 1)]

    def keep_jsonl(self, name: str, keep: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the records of a log for which `keep` is false, such as those after the step to resume from."""
        path = self._log(name)
        records = (
            [record for record in self.read_jsonl(name) if keep(record)]
            if path.is_file()
            else []
        )
        atomic.write(
            path,
            "".join(
                json.dumps(record, ensure_ascii=False) + "\n" for record in records
            ).encode("utf-8"),
        )

    def save_checkpoint(
        self,
        step: int,
        groups: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
    ) -> None:
        """Save named groups of tensors and a JSON state as the checkpoint of `step`; see `checkpoint_files.save`."""
        self._writable()
        checkpoint_files.save(self.checkpoints, step, groups, state)

    def newest_checkpoint(self) -> Checkpoint | None:
        """The latest undamaged checkpoint; see `checkpoint_files.newest`."""
        return checkpoint_files.newest(self.checkpoints)

    def checkpoint(self, step: int, *, verified: bool = False) -> Checkpoint:
        """The checkpoint of `step`; see `checkpoint_files.load`. Raises InputError, naming the file, if it is missing
        or damaged."""
        return checkpoint_files.load(self.checkpoints, step, verified=verified)

    def checkpoint_steps(self) -> list[int]:
        """Ascending."""
        return checkpoint_files.steps(self.checkpoints)

    def remove_checkpoint(self, step: int) -> None:
        """Raises InputError if there is none of this step."""
        self._writable()
        checkpoint_files.remove(self.checkpoints, step)

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return inside(self.path, "checkpoints")

    def _listed(self) -> Manifest:
        """The manifest; a reader reads it again each time, since another process may be training the run."""
        return self._manifest if self._lock is not None else Manifest.read(self.path)

    def _writable(self) -> None:
        if self._lock is None:
            raise ValueError(f"{self.path}: this run is open for reading only")

    def _log(self, name: str) -> Path:
        self._writable()
        if not name.endswith(LOG):
            raise ValueError(f"{name} is not a log, whose name ends in {LOG}")
        if self._manifest.files.setdefault(plain(name), []):
            raise ValueError(f"{name} was written whole and is not a log")
        path = self.path / name
        if not path.exists():
            self._manifest.write()
            with atomic.explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Replace the file `name` by what is written at the path inside. The manifest has the new digest just before
        the rename, so that it is valid at every moment."""
        self._writable()
        with atomic.replacing(self.path / plain(name)) as temporary:
            yield temporary
            if (
                self._manifest.files.get(name) != []
            ):  # a log that is rewritten stays a log
                self._manifest.announce(name, sha256(temporary))
        self._manifest.settle(name)


def _is_run(path: Path) -> bool:
    return (path / manifests.NAME).is_file() and Manifest.read(path).content == "run"


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f"{path}:{number}: is no record of a log, a JSON object; remove the line"
        )
    return found


def _refuse(path: Path, resume: bool) -> None:
    if path.is_symlink() and not path.exists():
        raise InputError(
            f"{path}: is a link to {path.readlink()}, which does not exist; create it first"
        )
    if path.exists() and not path.is_dir():
        raise InputError(
            f"{path}: is a file; expected a folder for the run, choose another --out"
        )
    if resume:
        if not _is_run(path):
            raise InputError(
                f"{path}: {_what(path)}, so there is no run to resume; leave out --resume to start one"
            )
    elif path.is_dir() and _is_run(path):
        raise InputError(
            f"{path}: already holds a run; use --resume to continue it, --overwrite to replace it, or another --out"
        )
    elif path.is_dir() and _others(path):
        raise InputError(f"{path}: {_what(path)}, not a run; choose another --out")


def _others(path: Path) -> list[str]:
    """The names in the folder, without the traces of a run that was killed before it began."""
    return sorted(
        {item.name for item in path.iterdir()}
        - {locks.NAME, manifests.NAME + atomic.SUFFIX, FOUND}
    )


def _what(path: Path) -> str:
    if not path.exists():
        return "no such folder"
    if not path.is_dir():
        return f"is {named(path) or 'a file'}"
    found = _others(path)
    if manifests.NAME in found and (path / manifests.NAME).is_file():
        return f"is a {Manifest.read(path).content} inside a run"
    if "config.json" in found and any(
        name.endswith((".safetensors", ".bin")) for name in found
    ):
        return "is a Hugging Face folder"
    shown = ", ".join(found[:5]) + (
        f" and {len(found) - 5} more" if len(found) > 5 else ""
    )
    return f"is a folder with {shown}" if found else "is an empty folder"
