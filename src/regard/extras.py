"""Optional packages, those that add parts of their own, and what operating systems lack."""

import os
import signal
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from regard.errors import InputError

EXTRAS = {
    "matplotlib": "plot",
    "babel": "dates",
    "tensorboard": "tensorboard",
    "transformers": "transformers",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "ctranslate2": "ctranslate2",
    "pillow": "images",
    "soundfile": "audio",
    "pyarrow": "scale",
    "fsspec": "remote",
    "aiohttp": "remote",
    "starlette": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
}
"""Each optional package, and its extra."""
PACKAGE = Path(__file__).parent


def how_to_install(package: str) -> str:
    """Return the command that installs an optional package.

    With regard, or with the checkout that regard is used from.
    """
    extra = EXTRAS[package]
    checkout = PACKAGE.parents[1]
    if PACKAGE.parent.name != "src" or not (checkout / "pyproject.toml").is_file():
        return f"pip install 'regard[{extra}]'"
    place = "." if checkout == Path.cwd() else checkout
    return f"pip install -e '{place}[{extra}]'"


def find_plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name."""
    return {
        point.name: point for point in read_entry_points(*sys.path).select(group=group)
    }


@cache  # with a hundred packages, reading takes 20 ms
def read_entry_points(*path: str) -> Any:
    """Return the entry points of all packages in the folders of `sys.path`."""
    return entry_points()


def name_package(point: EntryPoint) -> str:
    """Return the package that an entry point belongs to, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def check_file(path: Path | str, expected: str) -> Path:
    """Return the path of a regular file, or raise InputError."""
    path = Path(path)
    if path.is_file():
        return path
    problem = "is no regular file" if path.exists() else "no such file"
    problem = "is a directory" if path.is_dir() else problem
    raise InputError(f"{path}: {problem}; expected {expected}")


WINDOWS = sys.platform == "win32"
HANGUP: int | None = getattr(signal, "SIGHUP", None)
"""The signal of a closed terminal; Windows has none."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""The flag with which a file is not opened through a link; Windows has none."""
CLOSED_IN_CHILDREN: int = getattr(os, "O_CLOEXEC", 0)
"""The flag with which a program that is started does not inherit a descriptor; Windows
never passes one on."""
