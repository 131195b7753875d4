"""The usual names of columns, by which those of a table are recognized."""

import os
import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from regard.config.file_kinds import (
    TABLES,
    is_folder_of_table,
    is_table,
    read_first_lines,
    suffix,
)
from regard.data.files import is_remote
from regard.data.records import Records, get_value, list_keys
from regard.data.tables import Tabular, kind, table_files

FILE_NAMES = ("file_name", "filename", "path", "file")
TEXTS = ("text", "sentence", "review", "content", "comment_text", "comment", "tweet")
USUAL_COLUMNS = {
    "text": (*TEXTS, "message", "body", "document", "question"),
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
        "intent",
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
LANGUAGE = re.compile(r"(translation\.)?[a-z]{2}")
"""A column of texts in a language, the source first."""
CHECKED_ROWS = 1000
"""The first rows by which a column holds only 0 and 1."""


def recognize_columns(section: Any, given: Collection[str]) -> dict[str, Any]:
    """Return usual columns of a table in place of default ones that it lacks.

    Args:
        section: The `data:` section, whose `train` names the table.
        given: Keys of the section that somebody set; those are kept.

    Returns:
        The columns by their keys.

    Raises:
        InputError: The table cannot be read.
    """
    train = getattr(section, "train", None)
    path: Any = train[0] if isinstance(train, tuple | list) and train else train
    keys = getattr(section, "__dataclass_fields__", {}).keys()
    if CONLLU.keys() <= keys and not CONLLU.keys() & {*given}:
        return CONLLU if isinstance(path, str) and suffix(path) == "conllu" else {}
    is_read = is_table(path) or is_folder_of_table(path) or isinstance(path, Records)
    if not isinstance(section, Tabular) or not is_read:
        return {}
    file = table_files(path)[0]
    is_there = isinstance(file, Records) or is_remote(file) or os.path.isfile(file)
    if kind(file) not in TABLES or not is_there:  # a pipe is read once
        return {}
    beginning = "".join(read_first_lines(file)[:1]).lstrip()
    if kind(file) == "json" and not beginning.startswith("["):
        return {}  # a document of SQuAD
    records = section.stream_records(file, [], all_columns=True)
    rows = [record.values for record in islice(records, CHECKED_ROWS)]
    names = list_keys(rows[0]) if rows and isinstance(rows[0], Mapping) else []
    columns: dict[str, Any] = {**section.columns, **section.optional_columns}
    missing = [
        key
        for key, column in columns.items()
        if key not in given and isinstance(column, str) and column not in names
    ]
    by_lowercase = {name.casefold(): name for name in names}
    usual = {key: USUAL_COLUMNS.get(key, ()) for key in missing}
    if "text" in missing and "second" not in given:
        pairs = (pair for pair in PAIRS if by_lowercase.keys() >= {*pair})
        first, second = next(pairs, ("", ""))
        usual |= {"text": (first,), "second": (second,)} if first else {}
    taken = {column for key, column in columns.items() if key not in missing}
    recognized: dict[str, Any] = {}
    for key, choices in usual.items():
        matches = [by_lowercase[name] for name in choices if name in by_lowercase]
        match = next((name for name in matches if name not in taken), None)
        if match is not None:
            recognized[key] = match
            taken.add(match)
    languages = [name for name in names if LANGUAGE.fullmatch(name)]
    if {"source", "target"} <= {*missing} - {*recognized} and len(languages) == 2:
        recognized = dict(zip(("source", "target"), languages, strict=True))
    if "label" in missing and "label" not in recognized and section.has_label_columns:
        switches = [
            name
            for name in names
            if all(str(get_value(row, name)) in ("0", "1") for row in rows)
        ]
        recognized |= {"label": switches} if len(switches) > 1 else {}
    return recognized
