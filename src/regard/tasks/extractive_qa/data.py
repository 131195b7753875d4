"""Questions as windows of their contexts, for models that predict a span.

Each window begins half a window after the one before it, so that an answer of at most
half a window is whole in one of them (Devlin 2019, section 4.2). BERT reads a window as
one row, [start] question [end] part-of-the-context [end]; a span reader reads question
and part apart.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from regard.data.batches import Ids, bert_inputs, count_special, pad_rows
from regard.data.questions import Question, QuestionFiles
from regard.errors import InputError
from regard.models.catalog import SPAN_MODELS, SpanModelConfig
from regard.models.sizes import Size
from regard.shapes import Float, Shaped
from regard.tasks.base import TextBatch
from regard.tasks.fine_tuning import FineTuning
from regard.text import Tokenizer
from regard.text.words import spell

STEM = 4
MULTIPLE = 16
"""Contexts are padded to a multiple of so many tokens: oneDNN keeps memory for each length that an LSTM has read."""
Offsets = Sequence[tuple[int, int]]
"""Half-open spans of characters."""


@dataclass(frozen=True, kw_only=True)
class Questions(QuestionFiles[Question]):
    """Questions about paragraphs; an imported run has none to train on."""

    kind: Literal["spans"] = "spans"
    unanswerable: bool = False
    """Whether to keep questions without an answer."""

    def is_used(self, question: Question) -> bool:
        """Return whether a question is an example."""
        return self.unanswerable or bool(question.answers)

    def parse_question(self, question: Question) -> Question:
        """Return a question whose answers have places.

        Raises:
            InputError: An answer is not in the context.
        """
        if question.answers and question.answers[0].start is None:
            raise InputError(
                f"{question.place}: the answer {question.answers[0].text[:40]!r} is not "
                "in the context; correct it"
            )
        return question


@dataclass(frozen=True, kw_only=True)
class ExtractiveQA(FineTuning):
    """A run file of answers that are spans of a context."""

    takes: ClassVar[tuple[str, ...]] = tuple(SPAN_MODELS)

    task: Literal["extractive-qa"] = "extractive-qa"
    data: Questions
    model: SpanModelConfig | None = None
    longest_question: Size = 64
    """Questions are cut to so many tokens."""
    longest_answer: Size = 30
    """Largest number of tokens of an answer."""
    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """With `data.unanswerable`, how much better than no answer a span must be, in logits."""

    @property
    def reader(self) -> Any:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model


def word_features(
    question: Sequence[str], context: Sequence[str]
) -> Float[Tensor, "position 6"]:
    """Return six numbers in [0, 1] for each word of the context.

    1 where the question has the word whatever its case, or its first four letters; 1 for
    a capital, a digit, punctuation; and its share of the context's words.
    """
    asked = {word.lower() for word in question}
    stems = {word[:STEM] for word in asked}
    counts = Counter(word.lower() for word in context)
    rows = []
    for word in context:
        small = word.lower()
        rows.append(
            (
                small in asked,
                small[:STEM] in stems,
                word[:1].isupper(),
                any(map(str.isdigit, word)),
                not any(map(str.isalnum, word)),
                counts[small] / len(context),
            )
        )
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 6)


@lru_cache(maxsize=2**17)
def spell_word(word: str, size: int) -> tuple[int, ...]:
    """Return the characters of a word (`regard.text.words`)."""
    return tuple(spell(word, size)) if size else ()


@dataclass(frozen=True)
class Window:
    """A question's tokens with those of a part of its context."""

    question: Ids
    part: Ids
    offsets: Offsets
    """The characters of each token of the part in the context."""
    answer: tuple[int, int] = (0, 0)
    """The positions of the answer's first and last token among the logits; both 0 where
    the part does not have it whole."""
    words: tuple[Tensor, ...] = ()
    """What a span reader reads of words: the features of the part's, the characters of the
    question's, and those of the part's."""


@dataclass(frozen=True)
class WindowSplitter:
    """Splits questions into the windows that a run's model reads."""

    tokenizer: Tokenizer
    config: ExtractiveQA

    @property
    def one_row(self) -> bool:
        """Whether the model reads question and part in one row."""
        return SPAN_MODELS[self.config.reader.name].form == "one-row"

    def first(self, window: Window) -> int:
        """Return the position of a part's first token among the logits.

        Position 0 stands for no answer.
        """
        special = self.tokenizer.special
        around = len(window.question) + special.opens + special.between
        return around if self.one_row else 1

    def length(self, window: Window) -> int:
        """Return the number of tokens of a window, special tokens included."""
        special = count_special(self.tokenizer.special, 2)
        return len(window.question) + len(window.part) + special

    def split(self, example: Question) -> list[Window]:
        """Return all windows of a question; the answer is its first.

        Raises:
            InputError: Question, context or answer have no token, or there is no room
                for a part of the context.
        """
        question = self.tokenizer.encode(example.question)
        question = question[: self.config.longest_question]
        ids, offsets = encode_context(self.tokenizer, example.context)
        if not question or not ids:
            raise InputError(
                f"{example.place}: question or context has no token; give both"
            )
        context = self.config.reader.context
        marks = self.tokenizer.special
        room = context - count_special(marks, 2) - len(question)
        if room < 2:
            raise InputError(
                f"{example.place}: {len(question)} tokens leave no room in a "
                f"model.context of {context}"
            )
        span = find_answer(example, offsets)
        words = () if self.one_row else self.describe_words(example, offsets)
        windows = []
        stride = room // 2
        for begin in range(0, max(1, len(ids) - room + stride), stride):
            part = slice(begin, begin + room)
            window = Window(question, ids[part], offsets[part])
            if words:
                features, asked, spellings = words
                read = features[part], asked, spellings[part]
                window = replace(window, words=read)
            if span is not None and begin <= span[0] and span[1] < begin + room:
                first = self.first(window) - begin
                answer = (span[0] + first, span[1] + first)
                window = replace(window, answer=answer)
            windows.append(window)
        return windows

    def question_words(self, example: Question) -> tuple[str, ...]:
        """Return the text of each token of a question that is read."""
        spans = self.tokenizer.offsets(example.question)
        spans = spans[: self.config.longest_question]
        return tuple(example.question[begin:end].strip() for begin, end in spans)

    def describe_words(self, example: Question, offsets: Offsets) -> tuple[Tensor, ...]:
        """Return what a span reader reads of the words of question and context."""
        context = [example.context[begin:end].strip() for begin, end in offsets]
        question = self.question_words(example)
        size = self.config.reader.characters
        return (
            word_features(question, context),
            torch.tensor([spell_word(word, size) for word in question]),
            torch.tensor([spell_word(word, size) for word in context]),
        )

    def collate(self, windows: Sequence[Window]) -> TextBatch:
        """Pad windows into a batch; its targets are the answers.

        Raises:
            ValueError: There are none.
        """
        if not windows:
            raise ValueError("collate() got no windows; expected at least one")
        questions = [window.question for window in windows]
        parts = [window.part for window in windows]
        answers = torch.tensor([window.answer for window in windows])
        if self.one_row:
            pairs = list(zip(questions, parts, strict=True))
            inputs = bert_inputs(self.tokenizer.special, pairs)
            _, lengths, _ = inputs
            return TextBatch(inputs, answers, int(lengths.sum()))
        question, question_lengths = pad_rows(questions)
        context, lengths = pad_rows(parts, MULTIPLE)
        words = [window.words for window in windows]
        features, question_characters, characters = zip(*words, strict=True)
        inputs = (
            question,
            question_lengths,
            context,
            lengths,
            stack_words(features, context.shape[1]),
            stack_words(question_characters, question.shape[1]).long(),
            stack_words(characters, context.shape[1]).long(),
        )
        tokens = question_lengths.sum() + lengths.sum()
        return TextBatch(inputs, answers, int(tokens))


def stack_words(
    rows: Sequence[Tensor], positions: int
) -> Shaped[Tensor, "batch position number"]:
    """Return the numbers of the words of each row, padded with zeros."""
    stacked = pad_sequence(list(rows), batch_first=True)
    return functional.pad(stacked, (0, 0, 0, positions - stacked.shape[1]))


@lru_cache(maxsize=8)  # questions about one paragraph follow each other
def encode_context(tokenizer: Tokenizer, context: str) -> tuple[Ids, Offsets]:
    """Return the tokens of a context and their characters."""
    return tokenizer.encode(context), tokenizer.offsets(context)


def find_answer(example: Question, offsets: Offsets) -> tuple[int, int] | None:
    """Return the first and last token of the answer, counted in the context.

    Raises:
        InputError: The answer has no token, or no place in the context.
    """
    if not example.answers:
        return None
    answer = example.answers[0]
    start = len(example.context) if answer.start is None else answer.start
    inside = find_tokens(offsets, start, start + len(answer.text))
    if not inside:
        raise InputError(
            f"{example.place}: the answer {answer.text[:40]!r} has no token in the "
            "context; correct it"
        )
    return inside[0], inside[-1]


def find_tokens(offsets: Offsets, start: int, end: int) -> list[int]:
    """Return the tokens that share a character with the span."""
    tokens = enumerate(offsets)
    return [token for token, (first, stop) in tokens if first < end and stop > start]
