"""The header of a table: one that is read as a row, and columns beside those that are read."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.lines import numbered_lines
from regard.data.memory import Records
from regard.errors import InputError

NAMES = frozenset(
    word
    for line in (
        "text texts sentence sentence1 sentence2 sentence_a sentence_b review document doc content body title subject",
        "summary label labels class category target source target_text source_text src tgt input output question",
        "answer context premise hypothesis score rating sentiment gold gold_label caption captions image image_id file",
        "filename path id split fold de en fr es cs entailment_judgment relatedness_score",
    )
    for word in line.split(" ")
)
"""Names of columns, in lower case, that are hardly ever a text or a class of their own."""
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
SECOND = {"1": "2", "a": "b", "A": "B"}
"""The end of a column's name and that of the other text of a pair."""
PARTNERS = {
    "premise": "hypothesis",
    "question": "sentence",
    "query": "passage",
    "text": "text_pair",
    "first": "second",
}


FIRST_LINE = "first line"
"""Where names of columns were searched for, if it looks like a row and not like a header."""
LONGEST_NAME, WORDS = 80, 6
"""Characters that no name of a column exceeds; words that none has with a full stop or beside a number."""


def is_row(cells: Sequence[str]) -> bool:
    """Whether the first line of a table is probably a row: a cell is as long as a text, or one is a sentence and has a
    full stop or stands beside a number."""
    numbers = any(NUMBER.fullmatch(cell.strip()) for cell in cells)
    sentences = [cell.rstrip() for cell in cells if len(cell.split()) > WORDS]
    return any(len(cell) > LONGEST_NAME for cell in cells) or any(
        numbers or cell[-1] in ".!" for cell in sentences
    )


def check_no_header(cells: Sequence[str], place: str) -> None:
    """Raises InputError for a first line whose cells are all names of columns, where columns are numbered and each line
    is a row."""
    names = [cell.strip() for cell in cells]
    if len(set(names)) == len(names) and {name.lower() for name in names} <= NAMES:
        raise InputError(
            f"{place}: the line looks like a header ({', '.join(names)}) and not like a row; name the columns instead "
            "of numbering them, or remove the line"
        )


def column_names(path: str | Path) -> list[str]:
    """The cells of the first line of a delimited table, or the keys of the first object of JSON lines or of rows in
    memory; none of another file. Raises InputError for a file that cannot be read."""
    if isinstance(path, Records):
        return list(path.records[0])
    number, line = next(numbered_lines(path))
    if line.lstrip().startswith(("{", "[")):
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError):
            return []
        return list(record) if isinstance(record, dict) else []
    try:
        return next(csv.reader([line], delimiter=delimiter_of(line)), [])
    except csv.Error as error:
        raise InputError(
            f"{path}:{number}: has no names of columns ({error}); save the table anew"
        ) from error


def delimiter_of(line: str) -> str:
    """The delimiter that a header most probably has: the most frequent of those that tables have."""
    return max(",;\t|", key=line.count)


def partner(column: str, names: Sequence[str]) -> str | None:
    """The column with the other text of a pair, by its name; None where no name says so."""
    other = (
        column[:-1] + SECOND[column[-1]]
        if column[-1:] in SECOND
        else PARTNERS.get(column.lower())
    )
    return other if other in names else None
