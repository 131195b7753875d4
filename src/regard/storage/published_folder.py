"""The folder of a published model; no file in it is executed and no file outside it is read."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.storage import tensors
from regard.storage.manifest import content, inside, named, plain

CONFIG, WEIGHTS, INDEX = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
)
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class PublishedFolder:
    """The files at `path`, whose links may lead anywhere below `root`, by default `path`."""

    path: Path
    root: Path | None = None

    def file(self, name: str) -> Path:
        """Return the path of a file. Raises InputError for a name or a link that leads out of the folder."""
        try:
            name = plain(name)
        except ValueError as error:
            raise InputError(
                f"{self.path}: {name!r} is not the name of a file in it; refused"
            ) from error
        return inside(self.path, name, self.root)

    def has(self, name: str) -> bool:
        """Return whether the folder has a file of this name."""
        return self.file(name).is_file()

    def data(self, name: str) -> bytes:
        """Read the bytes of a file. Raises InputError for a missing, too large or mislabelled file."""
        return self._content(name, (None,))

    def text(self, name: str) -> str:
        """Read a UTF-8 text file. Raises InputError for a missing, too large or other file."""
        found = self._content(name, (None, "plain text"))
        try:
            return found.decode(
                "utf-8-sig"
            )  # some editors begin a file with a byte order mark
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path / name}: is not UTF-8 text") from error

    def _content(self, name: str, allowed: tuple[str | None, ...]) -> bytes:
        path = self.file(name)
        try:
            found = content(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        what = named(path)
        if what not in allowed:
            raise InputError(f"{path}: is {what}; expected the file itself")
        return found

    def json(self, name: str) -> dict[str, Any]:
        """Read the object in a JSON file. Raises InputError as `text` does, and for broken JSON."""
        value = self._value(name)
        if not isinstance(value, dict):
            raise InputError(
                f"{self.path / name}: expected a JSON object, found {type(value).__name__}"
            )
        return value

    def array(self, name: str) -> list[Any]:
        """Read the list in a JSON file. Raises InputError as `json` does."""
        value = self._value(name)
        if not isinstance(value, list):
            raise InputError(
                f"{self.path / name}: expected a JSON list, found {type(value).__name__}"
            )
        return value

    def _value(self, name: str) -> Any:
        try:
            return json.loads(self.text(name))
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self.path / name}: broken or truncated JSON ({error})"
            ) from error

    def tensors(self) -> dict[str, Tensor]:
        """Read all weights by their published names, 16-bit floats as float32. Raises InputError for a missing,
        truncated or unsupported file."""
        if self.has(WEIGHTS):
            found = tensors.read(self.file(WEIGHTS))
        elif self.has(INDEX):
            found = self._shards()
        else:
            raise InputError(self.without_weights())
        return {
            name: tensor.float() if tensor.is_floating_point() else tensor
            for name, tensor in found.items()
        }

    def _shards(self) -> dict[str, Tensor]:
        places, index = self.json(INDEX).get("weight_map"), self.path / INDEX
        if not isinstance(places, dict) or not all(
            isinstance(name, str) for name in places.values()
        ):
            raise InputError(f"{index}: expected a weight_map from tensors to files")
        found: dict[str, Tensor] = {}
        for name in sorted(set(places.values())):
            read = tensors.read(self.file(name))
            found |= {
                tensor: read[tensor]
                for tensor in read
                if places.get(tensor, name) == name
            }
        missing = sorted(set(places) - set(found))
        if missing:
            raise InputError(
                f"{index}: lists {len(missing)} tensors that its files lack, {missing[0]} first"
            )
        return found

    def without_weights(self) -> str:
        """Return the message for a folder without weights."""
        pickled = [name for name in PICKLES if self.has(name)]
        if pickled:
            return (
                f"{self.path}: has its weights as {pickled[0]} alone, a pickle, which can run code when it is read; "
                f"ask its publisher for {WEIGHTS}, or convert it where you trust it"
            )
        return (
            f"{self.path}: has no {WEIGHTS}; expected the folder of a published model"
        )
