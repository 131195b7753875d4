"""Questions about paragraphs: SQuAD files (Rajpurkar 2016, 1606.05250) and tables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from regard.config.file_kinds import Kind, suffix
from regard.data.data_files import DataFiles, E
from regard.data.records import ITEM, parse_document
from regard.data.rows import Row, iterate_converted
from regard.data.tables import Tabular, names_in
from regard.errors import InputError, quote

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


def locate_answers(row: Row, columns: Mapping[str, str | int]) -> list[tuple[str, int]]:
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
            (_text_between(context, *pair, columns, row.place), pair[0])
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
                quote(context[start : start + len(text)], LONGEST),
                context.find(text),
            )
            where = "which is not in it" if first < 0 else f"which begins at {first}"
            raise InputError(
                f"{row.place}: {columns[START]} is {start}, where the context has {found} and not the answer "
                f"{quote(text, LONGEST)}, {where}"
            )
    return list(zip(texts, starts, strict=False))


def _offsets(cell: str, what: str) -> list[int]:
    """The offsets in a cell, one or a list of them."""
    cells = [part for part in cell.split(ITEM) if part.strip()]
    found = [OFFSET.fullmatch(cell.strip()) for cell in cells]
    if None in found:
        raise InputError(
            f"{what} is {quote(cells[found.index(None)], LONGEST)}; expected a whole number from 0"
        )
    return [int(item[1]) for item in found if item is not None]


def _text_between(
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


Files = str | tuple[str, ...]
"""One file of a set, or several."""


@dataclass(frozen=True)
class Answer:
    """An answer's text and the offset of its first character in the context; None if the context lacks the text."""

    text: str
    start: int | None


@dataclass(frozen=True)
class Question:
    """A question about a context, with all correct answers; none if the context does not answer it."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    place: str


@dataclass(frozen=True, kw_only=True)
class QuestionFiles(DataFiles[E], Tabular):
    """SQuAD's published .json, or tables, optionally .gz; several files of a set follow
    each other.

    In JSON, `answer` may be a list of texts. Without `valid`, the questions of some
    paragraphs of the training files are held out. Where a table has offsets of
    characters, from 0, they are the answer's place; with an end the answer's text is not
    needed.

    question: The column of the question, or its number from 1.
    context: The column of the text that has the answer.
    answer: The column of the answer; in JSON its text, a list of texts, or answers with
        their places.
    answer_start: The column of the offset of the answer's first character in the context.
    answer_end: The column of the offset behind its last character.
    """

    train: Files = ()
    valid: Files = ()
    test: Files = ()
    question: str | int = "question"
    context: str | int = "context"
    answer: str | int = "answer_text"
    answer_start: str | int = START
    answer_end: str | int = END

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "tables")
    example_type = Question
    noun = "questions"
    expected = "a file of questions, as --set data.train=FILE"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns(self.columns)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of a table. The answer is the last, which may be a list."""
        return {
            "question": self.question,
            "context": self.context,
            "answer": self.answer,
        }

    @property
    def offsets(self) -> dict[str, str | int]:
        """The columns of the offsets, which a table may have."""
        return {START: self.answer_start, END: self.answer_end}

    def is_used(self, question: Question) -> bool:
        """Whether a question is an example: it has an answer."""
        return bool(question.answers)

    def parse_question(self, question: Question) -> Question:
        """Return a question as it is used.

        Raises:
            InputError: The question is bad; with `skip_bad` it is left out.
        """
        return question

    def group(self, example: Question) -> str:
        """Return the context, whose questions stay in one set."""
        return example.context

    def examples(self, path: Files) -> Iterator[Question]:
        """Yield the questions of files. Raises InputError as `load` does."""
        for file in list_paths(path):
            questions = (q for q in self.questions(file) if self.is_used(q))
            first = next(questions, None)
            if first is None:
                raise InputError(f"{file}: has no question with an answer")
            yield from iterate_converted(
                chain([first], questions),
                self.parse_question,
                file,
                skip_bad=self.skip_bad,
            )

    def questions(self, path: str | Path) -> Iterator[Question]:
        """Yield all questions of a file.

        An answer without an offset starts where its text first occurs in the context.

        Raises:
            InputError: A record is invalid, by file and place.
        """
        document: Any = None
        if suffix(path) == "json":
            document, fault = parse_document(path)
            if fault:
                raise InputError(f"{path}: {fault}")
            if not isinstance(document, list):
                yield from _questions(document, str(path))
                return
        names = list(document[0]) if document and isinstance(document[0], dict) else []
        columns = offset_columns(
            {**self.columns, **self.offsets}, names or names_in(path), str(path)
        )
        offsets = tuple(columns[key] for key in self.offsets if key in columns)
        rows = self.streamed(path, columns, offsets, offsets)
        parse = partial(_of_row, columns=columns)
        yield from iterate_converted(rows, parse, path, skip_bad=self.skip_bad)

    def without_answer(self, paths: Files) -> tuple[int, int]:
        """Count the questions without an answer, and all questions, of files.

        Tables whose rows all have an answer are not read.

        Raises:
            InputError: A record is invalid, by file and place.
        """
        answered = []
        for file in list_paths(paths):
            if suffix(file) == "json" or self._has_ends(file):
                answered += [bool(q.answers) for q in self.questions(file)]
        return answered.count(False), len(answered)

    def _has_ends(self, path: str) -> bool:
        """Whether a table has the ends of answers, so that it needs no text of them."""
        columns = {**self.columns, **self.offsets}
        return END in offset_columns(columns, names_in(path), path)


def list_paths(files: Files) -> tuple[str, ...]:
    """The files of a set."""
    return (files,) if isinstance(files, str) else files


def join_lines(text: str) -> str:
    """The text with every run of white space as one blank."""
    return " ".join(text.split())


def locate(text: str, context: str, start: Any = None) -> Answer:
    """The answer at its offset `start` if the text is there, else at its first occurrence."""
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    first = context.find(text)
    return Answer(text, None if first < 0 else first)


def _of_row(row: Row, columns: Mapping[str, str | int]) -> Question:
    """The question of a row of these columns. Raises InputError for offsets that do not fit."""
    question, context = row.fields[:2]
    placed = locate_answers(row, columns) if START in columns else []
    others = () if END in columns else (row.fields[-1], *row.others)[len(placed) :]
    answers = (
        *(Answer(*item) for item in placed),
        *(locate(other, context) for other in others),
    )
    return Question(question, context, answers, row.place)


def _questions(document: Any, path: str) -> Iterator[Question]:
    try:
        for article, part in enumerate(document["data"]):
            for paragraph, text in enumerate(part["paragraphs"]):
                for number, entry in enumerate(text["qas"]):
                    place = (
                        f"{path}: data[{article}].paragraphs[{paragraph}].qas[{number}]"
                    )
                    question, context = (
                        _text(entry["question"], place),
                        _text(text["context"], place),
                    )
                    spans = [
                        (_text(item["text"], place), item.get("answer_start"))
                        for item in entry["answers"]
                    ]
                    yield Question(
                        question,
                        context,
                        tuple(locate(item, context, at) for item, at in spans),
                        place,
                    )
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is no SQuAD file ({error!r}); expected data > paragraphs > context, qas > question, answers"
        ) from error


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            f"{place}: got {value!r} as a text; expected a string that is not blank"
        )
    return value
