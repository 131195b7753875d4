"""Weights from and to .safetensors files; any other file is named and refused, never executed."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.storage.manifest import named

LARGEST_HEADER = 1 << 23  # bytes; some 50,000 tensors
MOST_TENSORS = 50_000
LISTED = 10
KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "BOOL": torch.bool,
}
KINDS |= {f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)} | {
    "U8": torch.uint8
}
"""The types of tensors by their names in a header."""


def write(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write to `path` itself, for a caller that renames it; tensors that share memory are written one by one. The
    umask decides who may read the file, as of any other."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        start = flat.untyped_storage().data_ptr()
        separate[name] = flat.clone() if start in seen else flat
        seen.add(start)
    path.touch()
    mode = path.stat().st_mode
    safetensors.torch.save_file(
        separate, path, metadata=dict(metadata) if metadata else None
    )  # readable by the owner
    path.chmod(mode)


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, on the CPU. Raises InputError if it is not a whole and reasonable one."""
    check(path)
    try:
        return safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise InputError(
            f"{path}: broken safetensors file ({' '.join(str(error).split())})"
        ) from error


def check(path: Path) -> dict[str, Any]:
    """The file's header, after checks of its size and number of tensors. Raises InputError."""
    try:
        size = path.stat().st_size
        what = "a directory" if path.is_dir() else named(path)
        if what:
            raise InputError(f"{path}: is {what}; expected a .safetensors file")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise InputError(
                    f"{path}: not a safetensors file, or cut short; expected a header of {length} bytes"
                )
            if length > LARGEST_HEADER:
                raise InputError(
                    f"{path}: header of {length} bytes; at most {LARGEST_HEADER} are read"
                )
            header = _parsed(path, file.read(length))
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: no such file; expected a .safetensors file"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    ends = [
        _end(path, name, entry)
        for name, entry in header.items()
        if name != "__metadata__"
    ]
    if max(ends, default=0) != size - 8 - length:
        what = (
            "cut short"
            if max(ends, default=0) > size - 8 - length
            else "longer than its tensors"
        )
        raise InputError(
            f"{path}: {what}: {size} bytes, expected {8 + length + max(ends, default=0)}"
        )
    return header


def outlines(header: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a header without storage. Raises InputError for an unknown type or an impossible shape."""
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            try:
                found[name] = torch.empty(
                    entry["shape"], dtype=KINDS[entry["dtype"]], device="meta"
                )
            except (KeyError, TypeError, RuntimeError) as error:
                what = f"{entry['dtype']} of shape {entry['shape']}"
                raise InputError(
                    f"{name[:80]!r} in the header of the weights is {what[:200]}; refused"
                ) from error
    return found


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
            raise InputError(f"{path}: {twice[:80]!r} is listed twice in the header")
        return entries

    if data.count(b'"data_offsets"') > MOST_TENSORS:
        raise InputError(f"{path}: more than {MOST_TENSORS} tensors; refused")
    try:
        header = json.loads(data, object_pairs_hook=unique)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: broken safetensors header ({type(error).__name__})"
        ) from error
    if not isinstance(header, dict):
        raise InputError(
            f"{path}: broken safetensors header; expected names of tensors"
        )
    return header


def _end(path: Path, name: str, entry: Any) -> int:
    match entry:
        case {"dtype": str(), "shape": [*_], "data_offsets": [int(), int() as end]}:
            return end
    raise InputError(f"{path}: broken safetensors header at tensor {name[:80]!r}")


def load_into(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: bool = False,
    fresh: tuple[str, ...] = (),
) -> None:
    """Copy tensors into the module's parameters and buffers of the same names, all of them or none. With `fresh`, parts
    of the module whose names begin with one of its entries may be missing or of another shape, and tensors may be left
    over.

    Raises InputError with the first ten missing (unless allowed), unexpected or misshaped tensors, or with the first
    parameter that holds NaN or infinity.
    """
    fitting = check_fit(module, tensors, allow_missing=allow_missing, fresh=fresh)
    _require_finite(
        fitting, {name for name, _ in module.named_parameters(remove_duplicate=False)}
    )
    module.load_state_dict(dict(fitting), strict=False)


def check_fit(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    allow_missing: bool = False,
    fresh: tuple[str, ...] = (),
) -> Mapping[str, Tensor]:
    """The tensors that `load_into` copies, which may be `outlines`. Raises InputError as `load_into` does."""
    own = module.state_dict()
    if fresh:
        fits = {
            name
            for name in tensors
            if name in own and _form(tensors[name]) == _form(own[name])
        }
        tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if name in (fits if name.startswith(fresh) else own)
        }
    missing = (
        []
        if allow_missing
        else [
            name for name in own if name not in tensors and not name.startswith(fresh)
        ]
    )
    wrong = [
        f"{name} is {_form(tensors[name])}, expected {_form(tensor)}"
        for name, tensor in own.items()
        if name in tensors and _form(tensors[name]) != _form(tensor)
    ]
    parts = [
        ("missing", missing),
        ("unexpected", [name for name in tensors if name not in own]),
        ("misshaped", wrong),
    ]
    if any(found for _, found in parts):
        listed = "; ".join(
            f"{len(found)} {what}: {_first(found)}" for what, found in parts if found
        )
        advice = (
            "; --allow-missing leaves the missing ones as they are" if missing else ""
        )
        raise InputError(
            f"weights do not fit {type(module).__name__}: {listed}{advice}"
        )
    return tensors


def _require_finite(tensors: Mapping[str, Tensor], parameters: set[str]) -> None:
    """Raise InputError for the first tensor with NaN or infinity; buffers may hold infinity. Sums take a tenth of the
    time of loading; only a tensor whose sum is not finite is read number by number."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or bool(tensor.sum().isfinite()):
            continue
        broken = int(
            (~tensor.isfinite() if name in parameters else tensor.isnan()).sum()
        )
        if broken:
            raise InputError(
                f"{name}: {broken} of {tensor.numel()} weights are NaN or infinite, so all predictions would be; "
                "train again with a lower learning_rate, or get an undamaged copy"
            )


def _form(tensor: Tensor) -> str:
    kind = (
        "" if tensor.is_floating_point() else f" {tensor.dtype}".replace("torch.", "")
    )
    return f"({', '.join(map(str, tensor.shape))}){kind}"


def _first(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:LISTED]) + (
        f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    )
