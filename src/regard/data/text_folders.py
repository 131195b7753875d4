"""Texts in folders that are named by their classes, as IMDB's reviews (Maas 2011): a table of `text` and `label`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.config.recognition import TABLES, suffix
from regard.data.bad_records import MissingColumns, Row, RowCollector
from regard.data.images import check_classes, folders_in
from regard.data.lines import read_lines
from regard.errors import InputError

COLUMNS = ("text", "label")
ASIDE = "unsup"
"""The folder of IMDB's reviews that have no class."""


def has_texts(path: Any) -> bool:
    """Whether a path is a folder without tables that has .txt files in its folders."""
    if not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
        return False
    return any(Path(path).glob("*/*.txt")) and not any(
        suffix(name) in TABLES for name in os.listdir(path)
    )


def stream_text_folders(
    path: str | Path,
    columns: Sequence[str | int],
    *,
    skip_bad: bool = False,
    **layout: Any,
) -> Iterator[Row]:
    """A row for each .txt file in the folders of a folder: its lines as one text, and the name of its folder.

    Raises InputError for another column, for folders that are named after sets, and for a blank or unreadable file, or
    skips and counts such files with `skip_bad`."""
    if unknown := [str(column) for column in columns if column not in COLUMNS]:
        raise MissingColumns(
            unknown, COLUMNS, "folders of texts", f"{path}: ", "leave these options out"
        )
    folders = [
        each
        for each in folders_in(Path(path))
        if each.name != ASIDE and any(each.glob("*.txt"))
    ]
    check_classes(str(path), [each.name for each in folders])
    collector = RowCollector(path, skip_bad)
    for folder in folders:
        for file in sorted(folder.glob("*.txt")):
            try:
                found = {"text": " ".join(read_lines(file)), "label": folder.name}
            except InputError as error:
                collector.refuse_record(str(error))
                continue
            collector.kept += 1
            yield Row(tuple(found[str(column)] for column in columns), f"{file}:1")
    collector.check(collector.kept)
