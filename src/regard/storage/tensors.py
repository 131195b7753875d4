"""Tensors in .safetensors files, and their copies in modules."""

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.storage.verified_files import detect_kind, list_first

MAX_HEADER = 1 << 23
"""The largest header in bytes; some 50,000 tensors."""
MAX_TENSORS = 50_000
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
