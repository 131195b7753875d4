"""Files that are verified before they are read: manifests with SHA-256, JSON and .safetensors."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pydantic
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

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


MAX_HEADER = 1 << 23
"""The largest header in bytes; some 50,000 tensors."""
MAX_TENSORS = 50_000
LISTED = 10
"""The names that a message lists."""
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "BOOL": torch.bool,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "U8": torch.uint8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
"""The types of tensors by their names in a header."""


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write to `path` itself, for a caller that renames it.

    Tensors that share memory are written one by one.
    """
    separate = separate_tensors(tensors)
    # the umask decides who may read the file; the library's is the owner's alone
    path.touch()
    mode = path.stat().st_mode
    safetensors.torch.save_file(separate, path, metadata=dict(metadata or {}) or None)
    path.chmod(mode)


def separate_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors on the CPU, of which no two share memory."""
    pointers: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        pointer = flat.untyped_storage().data_ptr()
        separate[name] = flat.clone() if pointer in pointers else flat
        pointers.add(pointer)
    return separate


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors file, on the CPU.

    Raises:
        InputError: It is not a whole and reasonable one.
    """
    outline(path)
    return safetensors.torch.load_file(path)


def outline(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors file without storage.

    Raises:
        InputError: The file is another one, broken, or has too many tensors.
    """
    try:
        kind = "a directory" if path.is_dir() else detect_kind(path)
        if kind:
            raise InputError(f"{path}: is {kind}; expected a .safetensors file")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            count = file.read(min(length, MAX_HEADER)).count(b'"data_offsets"')
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; expected a .safetensors file"
        ) from error
    if length > MAX_HEADER or count > MAX_TENSORS:
        raise InputError(
            f"{path}: not a safetensors file, or its header of {length} bytes and "
            f"{count} tensors is too long; at most {MAX_HEADER} bytes and {MAX_TENSORS} "
            "tensors are read"
        )
    tensors = {}
    try:
        with safetensors.safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 it is no mapping
                entry = file.get_slice(name)
                tensors[name] = torch.empty(
                    entry.get_shape(), dtype=TYPES[entry.get_dtype()], device="meta"
                )
    except (safetensors.SafetensorError, LookupError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path}: broken or cut safetensors file ({reason[:200]})"
        ) from error
    if len(tensors) != count:
        raise InputError(f"{path}: a tensor is listed twice in the header")
    return tensors


def load_into(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: bool = False,
    fresh: tuple[str, ...] = (),
) -> None:
    """Copy tensors into the parameters and buffers of the same names, all or none.

    Args:
        allow_missing: Whether parameters may be missing.
        fresh: Beginnings of names of parts that may be missing or of another shape;
            with any, tensors may be left over.

    Raises:
        InputError: Tensors are missing, unexpected or misshaped (the first ten are
            listed), or a parameter holds NaN or infinity.
    """
    fitting = check_fit(module, tensors, allow_missing=allow_missing, fresh=fresh)
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    for name, tensor in fitting.items():
        # a sum takes a tenth of the time of loading
        if not tensor.is_floating_point() or bool(tensor.sum().isfinite()):
            continue
        # buffers may hold infinity
        bad = ~tensor.isfinite() if name in parameters else tensor.isnan()
        if count := int(bad.sum()):
            raise InputError(
                f"{name}: {count} of {tensor.numel()} weights are NaN or infinite, so "
                "all predictions would be; train again with a lower learning_rate, or "
                "get an undamaged copy"
            )
    module.load_state_dict(dict(fitting), strict=False)


def check_fit(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: bool = False,
    fresh: tuple[str, ...] = (),
) -> Mapping[str, Tensor]:
    """Return the tensors that `load_into` copies; they may have no storage.

    Raises:
        InputError: As `load_into`.
    """
    expected = module.state_dict()
    forms = {name: describe_form(tensor) for name, tensor in expected.items()}
    faults: dict[str, list[str]] = {"missing": [], "unexpected": [], "misshaped": []}
    fitting = {}
    for name in expected:
        if not (name in tensors or allow_missing or name.startswith(fresh)):
            faults["missing"].append(name)
    for name, tensor in tensors.items():
        form = describe_form(tensor)
        if forms.get(name) == form:
            fitting[name] = tensor
        elif fresh and (name not in forms or name.startswith(fresh)):
            continue
        elif name not in forms:
            faults["unexpected"].append(name)
        else:
            faults["misshaped"].append(f"{name} is {form}, expected {forms[name]}")
    listed = [
        f"{len(names)} {fault}: {list_first(names)}"
        for fault, names in faults.items()
        if names
    ]
    if faults["missing"]:
        listed.append("--allow-missing leaves the missing ones as they are")
    if listed:
        kind = type(module).__name__
        raise InputError(f"weights do not fit {kind}: {'; '.join(listed)}")
    return fitting


def describe_form(tensor: Tensor) -> str:
    """Return a tensor's shape, and its type if it has no floating point."""
    dtype = "" if tensor.is_floating_point() else f" {tensor.dtype}"
    return f"{(*tensor.shape,)}{dtype}"


def list_first(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    count = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {count} more" if count > 0 else "")
