"""Answers by the offsets of their characters in a context, in the cells of a table."""

import re
from collections.abc import Mapping, Sequence

from regard.data.bad_records import Row
from regard.data.records import ITEM
from regard.errors import InputError, quoted

START, END = "answer_start", "answer_end"
"""The usual columns of the offset of an answer's first character, and of the one behind its last."""
OFFSET = re.compile(r"(\d+)(\.0+)?")
"""An offset, also as a data frame with empty cells writes it."""
LONGEST = 40
"""The characters of a text that a message has."""


def offset_columns(
    columns: Mapping[str, str | int], names: Sequence[str], path: str
) -> Mapping[str, str | int]:
    """Of the columns `question`, `context`, `answer`, `answer_start` and `answer_end` those to read in a table with
    these names: without offsets where it has no column of them, and with the answer or else its end. Raises InputError
    for offsets without either."""
    start, end, answer = (columns[key] for key in (START, END, "answer"))
    used = {key: columns[key] for key in ("question", "context")}
    if start == START and start not in names:
        return used | {"answer": answer}
    used |= {START: start}
    if isinstance(end, int) or (end in names and answer not in names):
        return used | {END: end}
    if isinstance(start, int) or str(answer).partition(".")[0] in names:
        return used | {"answer": answer}
    raise InputError(
        f"{path}: has a column {start!r} and neither {answer!r}, the answer's text, nor {end!r}, the offset behind its "
        "last character; name one of them with --set data.answer=COLUMN or --set data.answer_end=COLUMN"
    )


def placed_answers(row: Row, columns: Mapping[str, str | int]) -> list[tuple[str, int]]:
    """The answers of a row that have an offset, the first ones. Raises InputError for offsets that do not fit."""
    context, cell = row.fields[1:3]
    starts = _offsets(cell, f"{row.place}: {columns[START]}")
    if END in columns:
        ends = _offsets(row.fields[3], f"{row.place}: {columns[END]}")
        if len(starts) != len(ends):
            raise InputError(
                f"{row.place}: {len(starts)} offsets, but {len(ends)} ends; expected one each"
            )
        return [
            (_between(context, *pair, columns, row.place), pair[0])
            for pair in zip(starts, ends, strict=True)
        ]
    texts = (row.fields[3], *row.others)
    if len(starts) > len(texts):
        raise InputError(
            f"{row.place}: {len(starts)} offsets, but {len(texts)} answers; expected one each"
        )
    for text, start in zip(texts, starts, strict=False):
        if not context.startswith(text, start):
            found, first = (
                quoted(context[start : start + len(text)], LONGEST),
                context.find(text),
            )
            where = "which is not in it" if first < 0 else f"which begins at {first}"
            raise InputError(
                f"{row.place}: {columns[START]} is {start}, where the context has {found} and not the answer "
                f"{quoted(text, LONGEST)}, {where}"
            )
    return list(zip(texts, starts, strict=False))


def _offsets(cell: str, what: str) -> list[int]:
    """The offsets in a cell, one or a list of them."""
    cells = [each for each in cell.split(ITEM) if each.strip()]
    found = [OFFSET.fullmatch(each.strip()) for each in cells]
    if None in found:
        raise InputError(
            f"{what} is {quoted(cells[found.index(None)], LONGEST)}; expected a whole number from 0"
        )
    return [int(each[1]) for each in found if each is not None]


def _between(
    context: str, start: int, end: int, columns: Mapping[str, str | int], place: str
) -> str:
    """The text between two offsets. Raises InputError for none."""
    text = context[start:end]
    if not text.strip() or end > len(context):
        raise InputError(
            f"{place}: {columns[START]} is {start} and {columns[END]} {end}, but the context has {len(context)} "
            "characters; expected the offsets of its first character and of the one behind its last"
        )
    return text
