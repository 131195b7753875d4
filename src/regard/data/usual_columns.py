"""The usual names of columns, by which those of a table are recognized."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from regard.config.file_kinds import (
    TABLES,
    is_folder,
    is_folder_of_table,
    is_table,
    is_table_name,
    read_first_lines,
    suffix,
)
from regard.data.files import WILDCARDS, find_sets, is_remote
from regard.data.records import Records, get_value, list_keys
from regard.data.tables import Tabular, advise, kind, table_files
from regard.errors import InputError

FILE_NAMES = ("file_name", "filename", "path", "file")
TEXTS = ("text", "sentence", "review", "content", "comment_text", "comment", "tweet")
USUAL_COLUMNS = {
    "text": (*TEXTS, "message", "body", "document", "question", "plot", "overview"),
    "label": (
        "label",
        "labels",
        "sentiment",
        "class",
        "category",
        "gold_label",
        "target",
        "score",
        "rating",
        "stars",
        "intent",
        "genre",
        "genres",
        "tags",
    ),
    "source": ("source", "src", "article", "document", "dialogue", *TEXTS, "body"),
    "target": ("target", "tgt", "highlights", "summary", "subject", "headline"),
    "image": ("image", *FILE_NAMES),
    "captions": ("captions", "caption", "text", "sentences"),
    "audio": ("audio", *FILE_NAMES),
    "transcript": ("transcript", "transcription", "text", "sentence"),
    "answer": ("answer_text", "answers.text", "answer"),
    "answer_start": ("answer_start", "answers.answer_start"),
}
"""The usual names of the column of a key, the likeliest first, in lowercase."""
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
)
"""The usual names of the columns of two texts."""
CONLLU = {"word": 2, "tag": 4}
"""The columns of the form and of the universal tag in CoNLL-U."""
LANGUAGE = re.compile(r"translation\.[a-z]{2}|[a-z]{2}")
"""A column of texts in a language, the source first."""
SEPARATOR = "separator"
"""The key of the text between the labels of a row."""
GOLD, IGNORE, NO_AGREEMENT = "gold_label", "ignore", "-"
"""The usual column of a label of several annotators, and the key and label without one."""
TATOEBA = "CC-BY "
"""The beginning of the third column of Anki's pairs, which have no header."""
CHECKED_ROWS = 1000
"""The first rows by which a column holds only 0 and 1, or labels between commas."""


def check_table(data: Any, settings: Collection[str]) -> None:
    """Check the tables and columns that settings name, before anything heavy loads.

    Args:
        data: The `data:` section of a run file, as plain values.
        settings: The keys that somebody set, such as `data.train`.

    Raises:
        InputError: A table is missing, or lacks a column.
    """
    chosen = {key: data[key] for key in data or () if f"data.{key}" in settings}
    usual = {*USUAL_COLUMNS, "second"}
    columns = {}
    for key, column in chosen.items():
        if key in usual and isinstance(column, str):
            columns[key] = column
    for name in ("train", "valid", "test"):
        path: Any = chosen.get(name)
        if not is_table_name(path) or is_remote(path):
            continue
        if not WILDCARDS.isdisjoint(path):
            continue
        if not os.path.exists(path):
            raise InputError(f"{path}: no such file; check the path")
        if columns and os.path.isfile(path) and kind(path) in TABLES:
            tables = Tabular(delimiter=chosen.get("delimiter"))
            with advise(columns):
                records = tables.stream_records(path, [*columns.values()])
                next(records, None)


def recognize_columns(section: Any, set_keys: Collection[str]) -> dict[str, Any]:
    """Return usual columns of a table in place of default ones that it lacks.

    Args:
        section: The `data:` section, whose `train` names the table.
        set_keys: Keys of the section that somebody set; those are kept.

    Returns:
        The columns by their keys.

    Raises:
        InputError: The table cannot be read.
    """
    path: Any = getattr(section, "train", None)
    if path and isinstance(path, tuple | list):
        path = path[0]
    keys = getattr(section, "__dataclass_fields__", {}).keys()
    conllu = CONLLU.keys()
    if conllu <= keys and conllu.isdisjoint(set_keys):
        return CONLLU if isinstance(path, str) and suffix(path) == "conllu" else {}
    file = find_table(section, path)
    if file is None:
        return {}
    records = section.stream_records(file, [], all_columns=True)
    records = islice(records, CHECKED_ROWS)
    rows = [record.values for record in records]
    first = rows[0] if rows else None
    names = list_keys(first) if isinstance(first, Mapping) else []
    columns: dict[str, Any] = {**section.columns, **section.optional_columns}
    missing = []
    taken = set()
    for key, column in columns.items():
        if key in set_keys or column in names or not isinstance(column, str):
            taken.add(column)
        else:
            missing.append(key)
    has_second = "second" in set_keys
    recognized: dict[str, Any] = match_names(names, missing, taken, has_second)
    if {"source", "target"} <= {*missing} - recognized.keys():
        recognized = find_languages(names) or recognized
    all_columns = columns | recognized
    is_gold = (
        "second" in all_columns and str(all_columns.get("label")).casefold() == GOLD
    )
    if is_gold and IGNORE in keys - {*set_keys}:
        recognized[IGNORE] = NO_AGREEMENT
    if not section.has_label_columns:
        return recognized
    if "label" in missing and "label" not in recognized:
        recognized |= find_switches(names, rows)
    columns |= recognized
    label = columns.get("label")
    if SEPARATOR not in set_keys and label in [*names]:
        cells = [get_value(row, label) for row in rows]
        texts = {cell for cell in cells if isinstance(cell, str)}
        recognized |= find_separator(texts)
    return recognized


def recognize_sets(section: Any, set_keys: Collection[str]) -> dict[str, str]:
    """Return the folders of sets, if `train` names the folder that has those.

    They are of folders of classes, or have a table each.

    Args:
        section: The `data:` section.
        set_keys: Keys of the section that somebody set; those are kept.
    """
    path: Any = getattr(section, "train", None)
    kinds = getattr(section, "recognised", ())
    if not is_folder(path) or not {"folder", "folders"} & {*kinds}:
        return {}
    reads_tables = "folder" in kinds
    has_table = reads_tables and any(map(is_table_name, os.listdir(path)))
    sets = {} if has_table else find_sets(path, least=1 if reads_tables else 2)
    if "train" not in sets:
        return {}
    keys = [key for key in ("valid", "test") if key in sets and key not in set_keys]
    return {key: sets[key] for key in ("train", *keys)}


def find_table(section: Any, path: Any) -> Any:
    """Return the first file of a section's table; None if it can't be read twice."""
    if not isinstance(section, Tabular):
        return None
    media = getattr(section, "files", None)
    if media and is_folder(path):
        path = media.table_of(path)
    if not (is_table(path) or is_folder_of_table(path) or isinstance(path, Records)):
        return None
    file = table_files(path)[0]
    is_there = isinstance(file, Records) or is_remote(file) or os.path.isfile(file)
    if kind(file) not in TABLES or not is_there:  # a pipe is read once
        return None
    beginning = "".join(read_first_lines(file)[:1]).lstrip()
    is_document = kind(file) == "json" and not beginning.startswith("[")
    return None if is_document else file  # a document is one of SQuAD


def match_names(
    names: Sequence[str], missing: Sequence[str], taken: set[str], has_second: bool
) -> dict[str, str]:
    """Return the columns that have usual names of missing keys.

    Args:
        names: The columns of the table.
        missing: The keys whose columns the table lacks.
        taken: Columns of other keys; those that are chosen are added.
        has_second: Whether somebody named the column of the second text.
    """
    by_lowercase = {name.casefold(): name for name in names}
    usual = {key: USUAL_COLUMNS.get(key, ()) for key in missing}
    if "text" in missing and not has_second:
        for first, second in PAIRS:
            if first in by_lowercase and second in by_lowercase:
                usual |= {"text": (first,), "second": (second,)}
                break
    recognized = {}
    for key, choices in usual.items():
        for choice in choices:
            name = by_lowercase.get(choice)
            if name is not None and name not in taken:
                recognized[key] = name
                taken.add(name)
                break
    return recognized


def find_languages(names: Sequence[str]) -> dict[str, str | int]:
    """Return the columns of source and target that are named by languages, or Anki's."""
    languages = [name for name in names if LANGUAGE.fullmatch(name)]
    if len(languages) > 2:  # a number of the row, hardly Indonesian
        languages = [name for name in languages if name != "id"]
    if len(languages) == 2:
        return dict(zip(("source", "target"), languages, strict=True))
    if len(names) == 3 and names[2].startswith(TATOEBA):
        return {"source": 1, "target": 2}
    return {}


def find_switches(names: Sequence[str], rows: Sequence[Any]) -> dict[str, list[str]]:
    """Return the columns of labels, which hold only 0 and 1, if there are several."""
    switches = [
        name
        for name in names
        if all(str(get_value(row, name)) in ("0", "1") for row in rows)
    ]
    return {"label": switches} if len(switches) > 1 else {}


def find_separator(cells: Collection[str]) -> dict[str, str]:
    """Return a separator other than the default one by which cells share their labels."""
    for mark in () if any("|" in cell for cell in cells) else ";,":
        parts = {part.strip() for cell in cells for part in cell.split(mark)}
        if len(parts) < len(cells):
            return {SEPARATOR: mark}
    return {}
