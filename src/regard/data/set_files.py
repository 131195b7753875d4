"""The files of one set, and the sets that the names of files and folders stand for."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from os.path import basename

from regard.config.recognition import compression
from regard.config.yaml_nodes import setting
from regard.data.opening import files_of
from regard.errors import InputError

SETS = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
}
SETS |= {"test": "test", "testing": "test", "eval": "test"}
"""The set that a folder or a file of this name holds."""
PARTS = re.compile(r"[^\W\d_]+")
"""The words of a file's name."""


def set_files(path: str) -> list[str]:
    """The files of `files_of` for a path that names one set. Raises InputError as it and `check_one_set` do."""
    found = files_of(path)
    check_one_set({path: found})
    return found


def check_one_set(files: Mapping[str, Sequence[str]]) -> None:
    """Raises InputError for folders, each with its `files`, whose names say that they are those of several sets, as
    `train.csv` and `test.csv`; `train-00000.csv` and `train-00001.csv` are of one. A pattern names what it names."""
    if not all(map(os.path.isdir, files)):
        return
    found = [_by_set(some) for some in files.values()]
    named = {
        key: [_path_of(some[key]) for some in found]
        for key in found[0]
        if all(key in some for some in found)
    }
    if len(named) > 1:
        names = ", ".join(basename(paths[0]) for paths in named.values())
        options = " ".join(
            setting(f"data.{key}", paths if len(paths) > 1 else paths[0])
            for key, paths in named.items()
        )
        raise InputError(
            f"{' and '.join(files)}: has files of several sets ({names}), expected those of one; name each: {options}"
        )


def _by_set(files: Iterable[str]) -> dict[str, list[str]]:
    """The files of each set, by the first or else the last word of their names without the ending."""
    found: dict[str, list[str]] = {key: [] for key in SETS.values()}
    for file in files:
        name = basename(file).lower()
        words = PARTS.findall(os.path.splitext(name.removesuffix(compression(name)))[0])
        if key := next(
            (SETS[word] for word in (*words[:1], *words[-1:]) if word in SETS), None
        ):
            found[key].append(file)
    return {key: some for key, some in found.items() if some}


def _path_of(files: Sequence[str]) -> str:
    """The path of one file, or a pattern of several."""
    if len(files) == 1:
        return files[0]
    start = _beginning(files)
    end = _beginning([file[len(start) :][::-1] for file in files])[::-1]
    return f"{start}*{end}"


def _beginning(names: Sequence[str]) -> str:
    """The characters with which all names begin."""
    return "".join(
        each[0]
        for each in takewhile(
            lambda each: len(set(each)) == 1, zip(*names, strict=False)
        )
    )
