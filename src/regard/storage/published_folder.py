"""The folder of a published model.

No file in it is executed and no file outside it is read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.storage import tensors
from regard.storage.manifest import check_name, content, detect_kind, resolve_inside

CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = "model.safetensors.index.json"
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
            return resolve_inside(self.path, check_name(name), self.root)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.path}: {name!r} is not the name of a file in it; refused"
            ) from error

    def has(self, name: str) -> bool:
        """Return whether the folder has a file of this name."""
        return self.file(name).is_file()

    def data(self, name: str, *, is_text: bool = False) -> bytes:
        """Return the bytes of a file."""
        path = self.file(name)
        try:
            data, kind = content(path), detect_kind(path)
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

    def json(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file."""
        return self._parse(name, dict, "object")

    def array(self, name: str) -> list[Any]:
        """Return the list in a JSON file."""
        return self._parse(name, list, "list")

    def _parse(self, name: str, kind: type[Any], expected: str) -> Any:
        path, text = self.path / name, self.text(name)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: broken or truncated JSON ({error})") from error
        if not isinstance(value, kind):
            actual = type(value).__name__
            raise InputError(f"{path}: expected a JSON {expected}, found {actual}")
        return value

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by their published names, 16-bit floats as float32."""
        if self.has(WEIGHTS):
            weights = tensors.read(self.file(WEIGHTS))
        elif self.has(INDEX):
            weights = self._read_shards()
        else:
            raise InputError(self.without_weights())
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                weights[name] = tensor.float()
        return weights

    def _read_shards(self) -> dict[str, Tensor]:
        files, index = self.json(INDEX).get("weight_map"), self.path / INDEX
        is_map = isinstance(files, dict)
        if not is_map or not all(isinstance(name, str) for name in files.values()):
            raise InputError(f"{index}: expected a weight_map from tensors to files")
        weights: dict[str, Tensor] = {}
        for file in sorted(set(files.values())):
            for name, tensor in tensors.read(self.file(file)).items():
                if files.get(name, file) == file:
                    weights[name] = tensor
        missing = sorted(set(files) - set(weights))
        if missing:
            raise InputError(
                f"{index}: lists {len(missing)} tensors that its files lack, "
                f"{missing[0]} first"
            )
        return weights

    def without_weights(self) -> str:
        """Return the message for a folder without weights."""
        for name in PICKLES:
            if self.has(name):
                return (
                    f"{self.path}: has its weights as {name} alone, a pickle, which can "
                    f"run code when it is read; ask its publisher for {WEIGHTS}, or "
                    "convert it where you trust it"
                )
        return (
            f"{self.path}: has no {WEIGHTS}; expected the folder of a published model"
        )
