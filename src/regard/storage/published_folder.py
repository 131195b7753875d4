"""The folder of a published model.

No file in it is executed and no file outside it is read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
from torch import Tensor

from regard.errors import InputError
from regard.storage.tensors import read_tensors
from regard.storage.verified_files import (
    check_name,
    detect_kind,
    list_first,
    read_content,
    resolve_inside,
)

CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = pydantic.TypeAdapter(dict[str, str])
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class PublishedFolder:
    """The files at `path`, whose links may lead anywhere below `root`, or `path`.

    All methods raise InputError for a name or a link that leads out of the folder, and
    for a missing, too large, truncated or mislabelled file.
    """

    path: Path
    root: Path | None = None

    def file(self, name: str) -> Path:
        """Return the path of a file."""
        try:
            check_name(name)
        except ValueError as error:
            raise InputError(f"{self.path}: {error}; refused") from error
        return resolve_inside(self.path, name, self.root)

    def has(self, name: str) -> bool:
        """Return whether the folder has a file of this name."""
        return self.file(name).is_file()

    def data(self, name: str, *, is_text: bool = False) -> bytes:
        """Return the bytes of a file."""
        path = self.file(name)
        try:
            data, kind = read_content(path), detect_kind(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        if kind and not (is_text and kind == "plain text"):
            raise InputError(f"{path}: is {kind}; expected the file itself")
        return data

    def text(self, name: str) -> str:
        """Return a UTF-8 text, without a byte order mark."""
        try:
            return self.data(name, is_text=True).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path / name}: is not UTF-8 text") from error

    def json(self, name: str, kind: type[Any] = dict) -> Any:
        """Return the object (or the list) in a JSON file."""
        path, text = self.path / name, self.text(name)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: broken or truncated JSON ({error})") from error
        if not isinstance(value, kind):
            expected, actual = kind.__name__, type(value).__name__
            raise InputError(f"{path}: expected a JSON {expected}, found {actual}")
        return value

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by their published names, 16-bit floats as float32."""
        if self.has(WEIGHTS):
            weights = read_tensors(self.file(WEIGHTS))
        elif self.has(INDEX):
            weights = self._read_shards()
        else:
            raise InputError(self.without_weights())
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                weights[name] = tensor.float()
        return weights

    def _read_shards(self) -> dict[str, Tensor]:
        index, files = self.path / INDEX, self.json(INDEX).get("weight_map")
        weights: dict[str, Tensor] = {}
        try:
            files = SHARDS.validate_python(files)
        except ValueError as error:
            message = f"{index}: expected a weight_map from tensors to files"
            raise InputError(message) from error
        for file in sorted(set(files.values())):
            for name, tensor in read_tensors(self.file(file)).items():
                if files.get(name, file) == file:
                    weights[name] = tensor
        missing = sorted(set(files) - set(weights))
        if missing:
            listed = list_first(missing)
            raise InputError(f"{index}: lists tensors that its files lack: {listed}")
        return weights

    def without_weights(self) -> str:
        """Return the message for a folder without weights."""
        if any(map(self.has, PICKLES)):
            return (
                f"{self.path}: has its weights as a pickle alone, which can run code "
                f"when it is read; ask its publisher for {WEIGHTS}, or convert it where "
                "you trust it"
            )
        return (
            f"{self.path}: has no {WEIGHTS}; expected the folder of a published model"
        )
