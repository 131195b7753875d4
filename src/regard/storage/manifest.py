"""The list of a folder's files with the SHA-256 of each, which detects a changed byte."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from regard.errors import InputError
from regard.storage import atomic

NAME = "manifest.json"
FORMAT = 1
LARGEST = 1 << 26  # bytes
LOG = ".jsonl"
"""The ending of a log, the one kind of file without a digest."""
CHANGED = "though its SHA-256 is right; was it changed?"
"""Why a verified file is refused: somebody changed it and the manifest."""


def sha256(path: Path) -> str:
    """Hexadecimal digest of the file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass
class Manifest:
    """The files of a folder. `files` maps a name to its valid digests: the newest, then the one before a write that may
    not have finished. A log, which only grows, has none and is not checked."""

    folder: Path
    content: str  # "run" or "checkpoint"
    files: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Raises InputError if it is missing, broken or of a newer format."""
        path = inside(folder, NAME)
        try:
            known = json.loads(content(path))
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file") from error
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}: not a manifest (broken JSON: {error})"
            ) from error
        version = known.get("format") if isinstance(known, dict) else None
        if isinstance(version, int) and version > FORMAT:
            advice = "install a newer regard"
            raise InputError(
                f"{path}: format version {version}, this regard reads version {FORMAT}; {advice}"
            )
        if (
            version != FORMAT
            or not _valid(known.get("files"))
            or not isinstance(known.get("content"), str)
        ):
            raise InputError(
                f"{path}: not a manifest; expected format {FORMAT}, content and files"
            )
        return cls(folder, known["content"], known["files"])

    def write(self) -> None:
        """Atomically. Raises RunError when the disk refuses."""
        known = {
            "format": FORMAT,
            "content": self.content,
            "files": dict(sorted(self.files.items())),
        }
        atomic.write(self.folder / NAME, (json.dumps(known, indent=1) + "\n").encode())

    def announce(self, name: str, digest: str) -> None:
        """Add a digest before the file is renamed into place; until `settle`, the old content is valid too."""
        self.files[name] = list(dict.fromkeys([digest, *self.files.get(name, [])]))
        self.write()

    def settle(self, name: str) -> None:
        """Drop the old digest once the file is in place."""
        del self.files[name][1:]

    def check(self, name: str) -> Path:
        """The path of a verified file. Raises InputError if it differs from what was written."""
        path = inside(self.folder, name)
        if name not in self.files:
            listed = ", ".join(sorted(self.files))
            known = (
                f"; expected one of {listed}" if listed else ", which lists no files"
            )
            raise InputError(f"{path}: not in {NAME}{known}")
        if not path.is_file():
            raise InputError(f"{path}: missing, though {NAME} lists it")
        digests = self.files[name]
        if not digests and path.suffix != LOG:
            raise InputError(
                f"{path}: {NAME} has no SHA-256 of it, which only a log ({LOG}) may lack; refused"
            )
        if digests and (found := sha256(path)) not in digests:
            raise InputError(
                f"{path}: SHA-256 mismatch ({found[:12]}, expected {digests[0][:12]}): changed or cut"
            )
        return path


def inside(folder: Path, name: str, root: Path | None = None) -> Path:
    """The path of a file of the folder. Raises InputError for a link that leads out of `root`, by default the
    folder, or to itself."""
    path = folder / name
    try:
        place = path.resolve()
    except (
        RuntimeError,
        OSError,
    ) as error:  # Python 3.13 raises OSError, those before RuntimeError
        raise InputError(
            f"{path}: is a link to itself; refused, copy the file itself"
        ) from error
    if not place.is_relative_to((root or folder).resolve()):
        raise InputError(
            f"{path}: is a link that leads out of the folder; refused, copy the file itself"
        )
    return path


def content(path: Path) -> bytes:
    """The bytes of a regular file of at most `LARGEST`. Raises InputError for any other, and OSError."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no regular file")
    with path.open("rb") as file:
        found = file.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise InputError(f"{path}: larger than {LARGEST} bytes; refused")
    return found


def parsed(path: Path, text: str | bytes) -> Any:
    """The value of a verified JSON file. Raises InputError for text that is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON, {CHANGED}") from error


def plain(name: str) -> str:
    """Return `name`. Raises ValueError for one that could lead out of the folder."""
    parts = PurePosixPath(name).parts
    if (
        not parts
        or "/".join(parts) != name
        or ".." in parts
        or parts[0] == "/"
        or "\\" in name
        or "\0" in name
    ):
        raise ValueError(f"{name!r} is not a plain file name")
    return name


def _valid(files: Any) -> bool:
    if not isinstance(files, dict):
        return False
    try:
        names = [plain(name) for name in files]
    except ValueError:
        return False
    digests = [
        digest
        for file in files.values()
        for digest in (file if isinstance(file, list) else [None])
    ]
    return len(names) == len(files) and all(
        isinstance(digest, str) for digest in digests
    )


STARTS = {
    b"version https://git-lfs": "a Git LFS pointer (fetch the file itself with `git lfs pull`)",
    b"PK\x03\x04": "a zip archive, as torch.save writes",
    b"PK\x05\x06": "an empty zip archive",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"GGUF": "a GGUF file",
    b"%PDF": "a PDF",
    b"\x89PNG": "a PNG image",
}
MARKUP = (b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")


def named(path: Path) -> str | None:
    """The kind of the file, or None if unknown. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(1024)
    if not head:
        return "an empty file"
    if head[4:9] == b"\0\0\0\0{":
        return None  # safetensors: the length of its header can begin like a pickle or a gzip file
    for start, name in STARTS.items():
        if head.startswith(start):
            return name
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(MARKUP):
        return "an HTML page (a download that ended at a login or error page?)"
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "a pickle, which can run code when it is read"
    if head[257:262] == b"ustar":
        return "a tar archive"
    return "plain text" if _text(head) else None


def _text(head: bytes) -> bool:
    try:
        text = head[:-3].decode("utf-8") if len(head) == 1024 else head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > 900  # a character cut by the end of the first bytes
    return all(character.isprintable() or character in "\t\r\n\f" for character in text)
