"""The files of SQuAD (Rajpurkar 2016, 1606.05250): questions about paragraphs, with their answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from regard.config.recognition import Kind, suffix
from regard.data.answer_offsets import END, START, offset_columns, placed_answers
from regard.data.bad_records import Row
from regard.data.columns import Ragged, Shard
from regard.data.pair import Pair
from regard.data.records import parsed_document
from regard.data.splits import HeldOut, Splits
from regard.data.stored import Stored
from regard.data.tables import Tabular, names_in
from regard.data.usable import usable_stream
from regard.errors import InputError

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


class StoredQuestions(Stored[Question]):
    """Questions, each in JSON."""

    def example(self, shard: Shard, place: int) -> Question:
        question, context, answers, origin = json.loads(
            shard.columns["example"].text(place)
        )
        return Question(
            question,
            context,
            tuple(Answer(text, start) for text, start in answers),
            origin,
        )

    @staticmethod
    def shard(questions: Sequence[Question]) -> Shard:
        """Questions as a shard."""
        parts = (
            [
                each.question,
                each.context,
                [(one.text, one.start) for one in each.answers],
                each.place,
            ]
            for each in questions
        )
        return Shard(
            {
                "example": Ragged.of_texts(
                    json.dumps(each, ensure_ascii=False) for each in parts
                )
            },
            {},
        )


@dataclass(frozen=True, kw_only=True)
class QuestionFiles(HeldOut, Tabular):
    """Questions about paragraphs: SQuAD's published .json, or tables (.jsonl, .csv, .tsv), optionally .gz. `question`,
    `context` and `answer` are the columns of a table; in JSON `answer` may be a list of texts. Several files of a set
    are concatenated. Without `valid`, the questions of some paragraphs of the training files are held out. Where a
    table has offsets of characters, from 0, they are the answer's place; with an end the answer's text is not needed.

    question: The column of the question, or its number from 1.
    context: The column of the text that has the answer.
    answer: The column of the answer; in JSON its text, a list of texts, or answers with their places.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns(self.columns)

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "tables")

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

    def questions(self) -> Splits[Question]:
        """Read all files. Raises InputError with file and place for an invalid record."""
        if not self.train:
            raise InputError(
                "data.train is not given; expected a file of questions, as --set data.train=FILE"
            )
        train = self._read_all(self.train)
        if self.valid:
            return Splits(train, self._read_all(self.valid), self.test_questions())
        what = f"{', '.join(listed(self.train))}: {len(train):,} questions"
        return Splits(
            *self.hold_out(train, what, lambda each: each.context),
            self.test_questions(),
        )

    def test_questions(self) -> list[Question]:
        """The questions of the test set, or none if there is no test set. Raises InputError as `questions` does."""
        return self._read_all(self.test)

    def read(self, path: str) -> list[Question]:
        """Read the questions of another file that have an answer. Raises InputError as `questions` does, and for a
        file without any."""
        found = [each for each in self.every_question(path) if each.answers]
        if not found:
            raise InputError(f"{path}: has no question with an answer")
        return found

    def every_question(self, path: str | Path) -> list[Question]:
        """Read all questions of another file. An answer without an offset starts where its text first occurs in the
        context. Raises InputError as `questions` does."""
        return list(self.streamed_questions(path, large=False))

    def streamed_questions(
        self, path: str | Path, *, large: bool = True
    ) -> Iterator[Question]:
        """The questions of `every_question`; of a large table with one in memory at a time."""
        document: Any = None
        if suffix(path) == "json":
            document, fault = parsed_document(path)
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
        read = self.streamed if large else self.rows
        of = partial(_of_row, columns=columns)
        yield from usable_stream(
            read(path, columns, offsets, offsets), of, path, skip_bad=self.skip_bad
        )

    def without_answer(self, paths: Files) -> tuple[int, int]:
        """How many questions of files have no answer, of how many. Tables whose rows all have one are not read. Raises
        InputError as `questions` does."""
        files = [
            each
            for each in listed(paths)
            if suffix(each) == "json" or self._has_ends(each)
        ]
        answered = [
            bool(each.answers)
            for file in files
            for each in self.streamed_questions(file)
        ]
        return answered.count(False), len(answered)

    def _has_ends(self, path: str) -> bool:
        """Whether a table has the ends of answers, so that it needs no text of them."""
        return END in offset_columns(
            {**self.columns, **self.offsets}, names_in(path), path
        )

    def _read_all(self, paths: Files) -> list[Question]:
        return [each for path in listed(paths) for each in self.read(path)]


def listed(files: Files) -> tuple[str, ...]:
    """The files of a set."""
    return (files,) if isinstance(files, str) else files


def as_pair(entry: Question) -> Pair:
    """A question with its context as the source, and the distinct answers as targets."""
    first, *others = dict.fromkeys(one_line(answer.text) for answer in entry.answers)
    return Pair(
        f"{one_line(entry.question)} {one_line(entry.context)}",
        first,
        entry.place,
        others=tuple(others),
    )


def one_line(text: str) -> str:
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
    placed = placed_answers(row, columns) if START in columns else []
    others = () if END in columns else (row.fields[-1], *row.others)[len(placed) :]
    answers = (
        *(Answer(*each) for each in placed),
        *(locate(each, context) for each in others),
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
                        (_text(each["text"], place), each.get("answer_start"))
                        for each in entry["answers"]
                    ]
                    yield Question(
                        question,
                        context,
                        tuple(locate(each, context, at) for each, at in spans),
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
