"""What is checked of a published model's folder before its weights are read: it needs no code of its own, its weights
are not quantised, and they fit into memory."""

import math
from typing import Any

from regard.errors import InputError
from regard.hub.any_model.folder import available_memory
from regard.hub.formats.folder import CONFIG, INDEX, WEIGHTS, Folder
from regard.hub.formats.tokenizer_json import ABOUT
from regard.storage import tensors

CODE = "auto_map"
COPIES, BYTES = 2, 4
"""An import holds the weights twice, as they are read and in the model, as 32-bit numbers."""
QUANTISED, MAPS = ("I8", "U8", "I32", "F8_E4M3", "F8_E5M2"), ("weight", "weight_packed")
"""Types of numbers in which quantised maps are stored, and how the names of maps end."""


def check(folder: Folder) -> None:
    """Raises InputError for a model or a tokenizer that asks for code of its own, for quantised weights, and for
    weights that do not fit into the free memory."""
    for name in (CONFIG, ABOUT):
        if folder.has(name) and (code := folder.json(name).get(CODE)) is not None:
            raise InputError(
                f"{folder.path / name}: {CODE} asks for code of its own ({', '.join(_files(code))}), which regard "
                "never runs; import a model without it"
            )
    needed, free = COPIES * BYTES * _numbers(folder), available_memory()
    if needed > free:
        raise InputError(
            f"{folder.path}: an import of its weights needs {needed / 1e9:.3g} GB, {free / 1e9:.3g} GB of memory are "
            "free; import a smaller model or use a larger machine"
        )


def _files(code: Any) -> list[str]:
    """The files of code, of classes in the form `file.Class`, or of lists of them."""
    named = code.values() if isinstance(code, dict) else [code]
    classes = [
        each
        for value in named
        for each in (value if isinstance(value, list | tuple) else [value])
        if each
    ]
    return sorted(
        {f"{str(each).rpartition('--')[2].partition('.')[0]}.py" for each in classes}
    )


def _numbers(folder: Folder) -> int:
    """How many numbers the weights have, by the headers of their files; of files that are not there, at 2 bytes a
    number, by the total size in their index. Raises InputError as `_in_file`, and for a broken header or index."""
    if folder.has(WEIGHTS):
        return _in_file(folder, WEIGHTS)
    if not folder.has(INDEX):
        return 0
    index = folder.json(INDEX)
    places, about = index.get("weight_map"), index.get("metadata")
    names = (
        {name for name in places.values() if isinstance(name, str)}
        if isinstance(places, dict)
        else set()
    )
    if all(map(folder.has, names)):
        return sum(_in_file(folder, name) for name in names)
    total = about.get("total_size", 0) if isinstance(about, dict) else 0
    if type(total) not in (int, float) or not 0 <= total < math.inf:
        raise InputError(
            f"{folder.path / INDEX}: total_size is {total!r}; expected a number of bytes"
        )
    return int(total) // 2


def _in_file(folder: Folder, name: str) -> int:
    """How many numbers a file has, by its header. Raises InputError for quantised ones."""
    count, path = 0, folder.file(name)
    for tensor, entry in tensors.check(path).items():
        if tensor == "__metadata__":
            continue
        if entry["dtype"] in QUANTISED and tensor.endswith(MAPS):
            raise InputError(
                f"{path}: the weights are quantised ({tensor} is of {entry['dtype']}), which regard does not read; "
                "import the model that they were made from"
            )
        count += math.prod(size for size in entry["shape"] if isinstance(size, int))
    return count
