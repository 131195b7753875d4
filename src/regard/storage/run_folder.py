"""The folder of a run and its checkpoints.

It has one writer at a time. Files are written as a whole, and a manifest lists their
digests.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
from torch import Tensor

from regard.errors import InputError
from regard.extras import PACKAGE
from regard.storage import atomic
from regard.storage.atomic import NAME as LOCK
from regard.storage.atomic import SUFFIX, Lock, discard, explain_errors, replacing, sync
from regard.storage.tensors import read_tensors, write_tensors
from regard.storage.verified_files import (
    CHANGED,
    LOG,
    MANIFEST,
    Manifest,
    check_name,
    detect_kind,
    list_first,
    parse_json,
    read_content,
    resolve_inside,
    sha256,
)

STATE = "state.json"
ENDING = ".safetensors"
STEP_FOLDER = re.compile(r"step-(\d{8,})")
LOST_AND_FOUND = "lost+found"
"""The folder that some kinds of file systems, such as ext4, have from the start."""
RECIPES = PACKAGE / "runs" / "recipes"
"""The folder of the run files that the package has."""
CONFIG, WEIGHTS = "config.yaml", "weights.safetensors"
"""The run file of a run, and the file of its weights."""
METRICS, RESULT = "metrics.jsonl", "result.json"
"""The log of training and validation, and the file of a finished run's figures."""
ABOUT_TRAINING = (
    "seconds",
    "steps",
    "parameters",
    "tokens_per_second",
    "images_per_second",
)
"""The figures in `RESULT` that describe the training; the others are metrics."""
RECORD = pydantic.TypeAdapter(dict[str, Any])
LABELS, SCALE = "labels.json", "scale.json"
"""The file with the labels of a run's outputs, and the file with the mean and the
deviation of the numbers that it learned."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint; its state is JSON, so tuples have become lists."""

    step: int
    folder: Path
    state: dict[str, Any]

    def tensors(self, group: str) -> dict[str, Tensor]:
        """Return the tensors saved under `group`, on the CPU.

        Raises:
            InputError: The group is missing.
        """
        return read_tensors(Manifest.read(self.folder).check(group + ENDING))


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints in a folder, each named by its step."""

    root: Path

    def folder(self, step: int) -> Path:
        """Return the path of the checkpoint of `step`, which need not exist."""
        return self.root / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints, ascending, by their names."""
        matches = (STEP_FOLDER.fullmatch(path.name) for path in self.root.glob("*"))
        return sorted(int(match[1]) for match in matches if match)

    def save(
        self,
        step: int,
        groups: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint of named groups of tensors and a JSON state.

        It replaces the checkpoint of this step, if there is one.

        Raises:
            RunError: The disk is full or read-only; older checkpoints stay as they are.
            ValueError: A group has a bad name.
        """
        folder = self.folder(step)
        text = json.dumps(dict(state))
        with replacing(folder) as temporary:
            discard(temporary)
            temporary.mkdir()
            for group, values in groups.items():
                write_tensors(temporary / check_name(group + ENDING), values)
            (temporary / STATE).write_text(text, encoding="utf-8")
            manifest = Manifest(temporary, "checkpoint")
            for path in temporary.iterdir():
                sync(path)
                manifest.files[path.name] = [sha256(path)]
            manifest.write()
            # The old checkpoint stays until only a rename is left to do.
            old = move_aside(folder) if folder.exists() else None
        if old is not None:
            discard(old)

    def load(self, step: int, *, verified: bool = False) -> Checkpoint:
        """Return a checkpoint after comparing its files with their digests.

        Args:
            verified: Whether the caller has compared the files before. Then only the
                state is compared.

        Raises:
            InputError: The checkpoint is missing or damaged.
        """
        folder = resolve_inside(self.root, self.folder(step).name)
        manifest = Manifest.read(folder)
        for name in () if verified else manifest.files:
            manifest.check(name)
        path = manifest.check(STATE)
        return Checkpoint(
            step, folder, parse_json(path, read_content(path), dict[str, Any])
        )

    def newest(self) -> Checkpoint | None:
        """Return the latest undamaged checkpoint; None without checkpoints.

        Damaged ones are skipped with a warning.

        Raises:
            InputError: All are damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return self.load(step)
            except InputError as error:
                message = "checkpoint of step %d is damaged and skipped: %s"
                log.warning(message, step, error)
        if steps:
            raise InputError(
                f"{self.root}: none of its {len(steps)} checkpoints is undamaged; start "
                "again with another --out"
            )
        return None

    def remove(self, step: int) -> None:
        """Remove a checkpoint.

        It is renamed first, so that no checkpoint is ever incomplete.

        Raises:
            InputError: The checkpoint of this step is missing.
        """
        folder = self.folder(step)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such checkpoint; there are {self.steps()}")
        discard(move_aside(folder))


def move_aside(folder: Path) -> Path:
    """Rename a folder to a temporary name, and return its new path.

    If the process is killed before it removes the folder, the next one does.
    """
    target = folder.with_name(f"{folder.name}.removed{SUFFIX}")
    with explain_errors(folder):
        discard(target)
        os.replace(folder, target)
    return target


class RunDirectory:
    """The folder of a run, made by `create` to write or by `open` to read.

    A writer holds a lock until `close`.

    Reading raises InputError for a missing or damaged file, writing RunError on a full
    disk. Logs (`append_jsonl`) are the only files that grow in place. Each of their
    records is written as a whole, but they have no digest.
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
                if not digests:  # a log, which may end in an incomplete record
                    run.keep_jsonl(name, lambda record: True)
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Open the run at `path` for reading, even while another process writes it.

        Raises:
            InputError: The run is missing or damaged.
        """
        expected = "expected the folder of a run, which regard train writes"
        try:
            if not is_run(path):
                raise InputError(
                    f"{path}: {describe(path)}; {advise(path) or expected}"
                )
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
        """Remove all files of this run, and its folder if `create` made it.

        A folder that existed before, such as a mount point or the target of a link,
        stays, as empty as it was.
        """
        for path in self.path.iterdir():
            if path.name != LOST_AND_FOUND:
                atomic.discard(path)
        if self._created and not any(self.path.iterdir()):
            self.path.rmdir()

    @property
    def manifest(self) -> Manifest:
        """The list of the run's files.

        A reader loads it each time, since another process may train the run.
        """
        return self._manifest if self._lock is not None else Manifest.read(self.path)

    def file(self, name: str) -> Path:
        """Return the path of a verified file."""
        return self.manifest.check(check_name(name))

    def has(self, name: str) -> bool:
        """Return whether the run has a file of this name."""
        return name in self.manifest.files and (self.path / name).is_file()

    def names(self, ending: str) -> list[str]:
        """Return the names of files with an ending, in alphabetical order."""
        return sorted(name for name in self.manifest.files if name.endswith(ending))

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return self.manifest.digest

    def read_text(self, name: str) -> str:
        """Return the text of a file."""
        path = self.file(name)
        try:
            return read_content(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8 text, {CHANGED}") from error

    def read_json(self, name: str, kind: Any = Any) -> Any:
        """Return the value of a JSON file, checked to be of type `kind`."""
        return parse_json(self.path / name, self.read_text(name), kind)

    def read_object(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file."""
        return self.read_json(name, dict[str, Any])

    def read_labels(self) -> list[str]:
        """Return the names of the classes."""
        return self.read_json(LABELS, list[str])

    def load_tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a .safetensors file, on the CPU."""
        return read_tensors(self.file(name))

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Replace the file `name` by the temporary file.

        Just before the rename, the manifest gets the new digest next to the old one, so
        that the file is valid at every moment.
        """
        self._check_writable()
        files = self._manifest.files
        with atomic.replacing(self.path / check_name(name)) as temporary:
            yield temporary
            old = files.get(name)
            if old != []:  # a log has no digest
                digests = [sha256(temporary), *(old or ())]
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
            write_tensors(temporary, values, metadata)

    def append_jsonl(self, name: str, record: Mapping[str, Any]) -> None:
        """Append a record to a log as one line; a full disk leaves the log unchanged."""
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
                    f"{path}:{number}: is not a record of a log, a JSON object; remove the "
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
        """The run's checkpoints."""
        return Checkpoints(resolve_inside(self.path, "checkpoints"))

    def _check_writable(self) -> None:
        if self._lock is None:
            raise ValueError(f"{self.path}: this run is open for reading only")

    def _open_log(self, name: str) -> Path:
        self._check_writable()
        digests = self._manifest.files.setdefault(check_name(name), [])
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
    return (path / MANIFEST).is_file() and Manifest.read(path).content == "run"


def check_path(path: Path, *, resume: bool) -> None:
    """Check that a run can be written at a path.

    Args:
        resume: Whether to continue a run, which then must exist.

    Raises:
        InputError: The path is a file, a broken link or a folder with other files; a
            run is there without `resume`; or none is there with it.
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
    """List the names in a folder, without the traces of a run killed at its start."""
    traces = {LOCK, MANIFEST + atomic.SUFFIX, LOST_AND_FOUND}
    return sorted({item.name for item in path.iterdir()} - traces)


def advise(path: Path) -> str:
    """Return what to name or to type instead of a path that is not a run, if known."""
    inside = Path("runs") / path.name
    if not path.exists() and is_run(inside):
        return f"did you mean {inside}?"
    if not path.exists() and (RECIPES / f"{path.name}.yaml").is_file():
        return f"`regard train {path.name}` trains this recipe into {inside}"
    if path.is_dir() and (path / "config.json").is_file():
        return f"regard import {path} --out {inside} makes a run of it"
    return ""


def describe(path: Path) -> str:
    """Describe what is at a path where a run was expected."""
    if not path.exists():
        return "no such folder"
    if not path.is_dir():
        return f"is {detect_kind(path) or 'a file'}"
    names = list_contents(path)
    if (path / MANIFEST).is_file():
        return f"is a {Manifest.read(path).content} inside a run"
    if "config.json" in names and any(path.glob("*.safetensors")):
        return "is a Hugging Face folder"
    return f"is a folder with {list_first(names)}" if names else "is an empty folder"
