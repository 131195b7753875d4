"""Files that are verified before they are read: manifests with SHA-256, and JSON."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pydantic

from regard.errors import InputError
from regard.storage import atomic

MANIFEST = "manifest.json"
FORMAT = 1
MAX_BYTES = 1 << 26
"""The largest file that is read at once."""
LOG = ".jsonl"
"""The ending of a log, the one kind of file without a digest."""
CHANGED = "though its SHA-256 is right; was it changed?"
"""Why a verified file is refused: somebody changed it and the manifest."""


class _Content(pydantic.BaseModel, strict=True):
    format: int
    content: str
    files: dict[str, list[str]]


def sha256(path: Path) -> str:
    """Return the hexadecimal digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass
class Manifest:
    """The files of a folder.

    Attributes:
        folder: The folder.
        content: `run` or `checkpoint`.
        files: The valid digests of each file: the newest, then the one before a write
            that may not have finished. A log, which only grows, has none.
    """

    folder: Path
    content: str
    files: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a folder.

        Raises:
            InputError: It is missing, broken or of a newer format.
        """
        path = resolve_inside(folder, MANIFEST)
        try:
            data = read_content(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        try:
            values = _Content.model_validate_json(data)
            for name in values.files:
                check_name(name)
        except ValueError as error:
            raise InputError(
                f"{path}: not a manifest; expected JSON with format {FORMAT}, content "
                "and files"
            ) from error
        if values.format != FORMAT:
            raise InputError(
                f"{path}: format version {values.format}, this regard reads version "
                f"{FORMAT}; install a newer regard"
            )
        return cls(folder, values.content, values.files)

    @property
    def digest(self) -> str:
        """The SHA-256 of the newest digests of all files but logs."""
        newest = {name: digests[0] for name, digests in self.files.items() if digests}
        return hashlib.sha256(json.dumps(newest, sort_keys=True).encode()).hexdigest()

    def write(self) -> None:
        """Write the manifest atomically."""
        files = dict(sorted(self.files.items()))
        values = {"format": FORMAT, "content": self.content, "files": files}
        atomic.write(
            self.folder / MANIFEST, (json.dumps(values, indent=1) + "\n").encode()
        )

    def check(self, name: str) -> Path:
        """Return the path of a verified file.

        Raises:
            InputError: It differs from what was written.
        """
        path = resolve_inside(self.folder, name)
        digests = self.files.get(name)
        problem = ""
        if digests is None:
            listed = ", ".join(sorted(self.files)) or "no files"
            problem = f"not in {MANIFEST}, which lists {listed}"
        elif not path.is_file():
            problem = f"missing, though {MANIFEST} lists it"
        elif not digests and path.suffix != LOG:
            problem = (
                f"{MANIFEST} has no SHA-256 of it, which only a log ({LOG}) may lack"
            )
        elif digests and sha256(path) not in digests:
            problem = f"SHA-256 mismatch (expected {digests[0][:12]}): changed or cut"
        if problem:
            raise InputError(f"{path}: {problem}")
        return path


def resolve_inside(folder: Path, name: str, root: Path | None = None) -> Path:
    """Return the path of a file of the folder.

    Raises:
        InputError: It is a link to itself, or one that leads out of `root`, by default
            the folder.
    """
    path, advice = folder / name, "refused, copy the file itself"
    try:
        target = path.resolve()
    # Python 3.13 raises OSError, those before RuntimeError
    except (RuntimeError, OSError) as error:
        raise InputError(f"{path}: is a link to itself; {advice}") from error
    if not target.is_relative_to((root or folder).resolve()):
        raise InputError(f"{path}: is a link that leads out of the folder; {advice}")
    return path


def read_content(path: Path) -> bytes:
    """Return the bytes of a regular file of at most `MAX_BYTES`.

    Raises:
        InputError: It is another kind of file, or larger.
        OSError: It cannot be read.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no regular file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES} bytes; refused")
    return data


def parse_json(path: Path, text: str | bytes, kind: Any) -> Any:
    """Return the value of a verified JSON file, of this type.

    Raises:
        InputError: It is not JSON, or of another type.
    """
    try:
        return pydantic.TypeAdapter(kind).validate_json(text, strict=True)
    except ValueError as error:
        raise InputError(f"{path}: does not have its content, {CHANGED}") from error


def check_name(name: str) -> str:
    """Return a file's name, unless it could lead out of the folder.

    Raises:
        ValueError: It could.
    """
    parts = PurePosixPath(name).parts
    is_plain = parts and "/".join(parts) == name and not {"..", "/"} & set(parts)
    if not is_plain or "\\" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a plain file name")
    return name


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
} | dict.fromkeys(
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
    "a pickle, which can run code when it is read",
)
MARKUP = (b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")
HEAD = 1024


def detect_kind(path: Path) -> str | None:
    """Return the kind of the file in words, or None if it is unknown."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head:
        return "an empty file"
    # the length of a safetensors header can begin like a pickle or a gzip file
    if head[4:9] == b"\0\0\0\0{":
        return None
    for start, kind in STARTS.items():
        if head.startswith(start):
            return kind
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(MARKUP):
        return "an HTML page (a download that ended at a login or error page?)"
    if head[257:262] == b"ustar":
        return "a tar archive"
    # a character may be cut by the end of the first bytes
    text = head.decode("utf-8", "ignore" if len(head) == HEAD else "replace")
    is_text = len(head) - len(text.encode()) < 4 and "\ufffd" not in text
    is_text = is_text and all(sign.isprintable() or sign in "\t\r\n\f" for sign in text)
    return "plain text" if is_text else None


LISTED = 10
"""The names that a message lists."""


def list_first(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    count = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {count} more" if count > 0 else "")
