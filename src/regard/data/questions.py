"""Questions about paragraphs: SQuAD files (Rajpurkar 2016, 1606.05250) and tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from regard.config.file_kinds import suffix
from regard.data.data_files import DataFiles, E
from regard.data.records import ABSENT, find_values, get_value, read_document
from regard.data.rows import RowCollector, iterate_converted
from regard.data.tables import Columns, Tabular, advise, table_files
from regard.errors import InputError, quote

START = "answer_start"
"""The usual column of the offset of an answer's first character."""
Files = str | tuple[str, ...]
"""One file of a set, or several."""


@dataclass(frozen=True)
class Answer:
    """An answer's text, and the offset of its first character in the context.

    The offset is None if the context lacks the text.
    """

    text: str
    start: int | None


@dataclass(frozen=True)
class Question:
    """A question about a context, with all correct answers; none if it has none."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    place: str


@dataclass(frozen=True, kw_only=True)
class QuestionFiles(DataFiles[E], Tabular):
    """SQuAD's published .json, or tables, optionally .gz; files of a set are joined.

    In JSON, `answer` may be a list of texts. Without `valid`, the questions of some
    paragraphs of the training files are held out. Where a table has offsets of
    characters, from 0, they are the answer's place.

    Attributes:
        question: The column of the question, or its number from 1.
        context: The column of the text that has the answer.
        answer: The column of the answer; in JSON its text or a list of texts.
        answer_start: The column of the offset of the answer's first character in the
            context.
    """

    train: Files = ()
    valid: Files = ()
    test: Files = ()
    question: str | int = "question"
    context: str | int = "context"
    answer: str | int = "answer_text"
    answer_start: str | int = START

    recognised = ("table", "tables")
    example_type = Question
    noun = "questions"
    expected = "a file of questions, as --set data.train=FILE"

    def __post_init__(self) -> None:
        self.check_columns(self.columns)

    @property
    def columns(self) -> Columns:
        """The columns of a table."""
        return {
            "question": self.question,
            "context": self.context,
            "answer": self.answer,
        }

    @property
    def optional_columns(self) -> Columns:
        return {"answer_start": self.answer_start}

    def is_used(self, question: Question) -> bool:
        """Return whether a question is an example: it has an answer."""
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
            questions = filter(self.is_used, self.questions(file))
            yield from iterate_converted(
                questions, self.parse_question, file, skip_bad=self.skip_bad
            )

    def questions(self, path: str) -> Iterator[Question]:
        """Yield all questions of a file.

        An answer without an offset starts where its text first occurs in the context.

        Raises:
            InputError: A record is invalid, by file and place.
        """
        if suffix(path) == "json" and isinstance(
            document := read_document(path), Mapping
        ):
            yield from _read_squad(document, path)
            return
        required = [self.question, self.context, self.answer]
        if self.answer_start != START:  # which is optional under its usual name
            required.append(self.answer_start)
        with advise({**self.columns, START: self.answer_start}):
            for file in table_files(path):
                collector = RowCollector(file, self.skip_bad)
                for record in self.stream_records(file, required, all_columns=True):
                    values = find_values(record, required, collector)
                    if values is None:
                        continue
                    start = get_value(record.values, self.answer_start)
                    try:
                        place = f"{file}:{record.number}"
                        parsed = _parse_question(values, start, place)
                    except InputError as error:
                        collector.refuse(record.number, str(error))
                        continue
                    collector.kept += 1
                    yield parsed
                collector.check()

    def without_answer(self, paths: Files) -> tuple[int, int]:
        """Count the questions without an answer, and all questions, of files.

        Raises:
            InputError: A record is invalid, by file and place.
        """
        answers = [
            q.answers for file in list_paths(paths) for q in self.questions(file)
        ]
        return answers.count(()), len(answers)


def list_paths(files: Files) -> tuple[str, ...]:
    """Return the files of a set."""
    return (files,) if isinstance(files, str) else files


def join_lines(text: str) -> str:
    """Replace every run of white space by one blank."""
    return " ".join(text.split())


def _list_items(value: Any) -> list[Any]:
    """Return the items of a value that may be a list or nothing."""
    if isinstance(value, list | tuple):
        return list(value)
    is_empty = value in (ABSENT, None) or not str(value).strip()
    return [] if is_empty else [value]


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"got {value!r} as a text; expected one that is not blank")
    return value


def _parse_question(values: Sequence[Any], start: Any, place: str) -> Question:
    """Return a question whose answers have these offsets, as far as there are any.

    Raises:
        InputError: A value is no text, or the context has another text at an offset.
    """
    question, context, answer, *_ = values
    _read_text(context)
    texts = list(map(_read_text, _list_items(answer)))
    starts = _list_items(start)
    if len(starts) > len(texts):
        raise InputError(
            f"{len(starts)} offsets, but {len(texts)} answers; expected one each"
        )
    answers = []
    for text, offset in zip_longest(texts, starts):
        located = locate(text, context)
        if offset is not None:
            # A data frame with empty cells writes offsets as `5.0`.
            digits = str(offset).strip().removesuffix(".0")
            if not digits.isdecimal():
                raise InputError(f"offset {offset!r}; expected a whole number from 0")
            first = int(digits)
            if not context.startswith(text, first):
                excerpt = quote(context[first : first + len(text)])
                raise InputError(
                    f"the context has {excerpt} at offset {first} and not the answer "
                    f"{quote(text)}, which begins at {located.start}"
                )
            located = Answer(text, first)
        answers.append(located)
    return Question(_read_text(question), context, tuple(answers), place)


def locate(text: str, context: str, start: Any = None) -> Answer:
    """Return the answer at its offset if the text is there, else where it occurs first."""
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    first = context.find(text)
    return Answer(text, None if first < 0 else first)


def _read_squad(document: Any, path: str) -> Iterator[Question]:
    """Yield the questions of a published file."""
    place = path
    try:
        for article, part in enumerate(document["data"]):
            for paragraph, passage in enumerate(part["paragraphs"]):
                for number, entry in enumerate(passage["qas"]):
                    place = (
                        f"{path}: data[{article}].paragraphs[{paragraph}].qas[{number}]"
                    )
                    context = _read_text(passage["context"])
                    answers = tuple(
                        locate(_read_text(item["text"]), context, item.get(START))
                        for item in entry["answers"]
                    )
                    question = _read_text(entry["question"])
                    yield Question(question, context, answers, place)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is no SQuAD file ({error!r}); expected data > paragraphs > "
            "context, qas > question, answers"
        ) from error
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
