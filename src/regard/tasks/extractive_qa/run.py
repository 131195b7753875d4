"""A trained model that answers questions, and what an answer reads in its window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from regard.attention.record import record
from regard.attribution.aggregation import check_kinds, text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.batches import bert_input
from regard.data.questions import Question
from regard.data.records import Records, parse_object
from regard.data.rows import convert_files
from regard.data.tokens import Limit, parts_of, report_cut, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights
from regard.maps.lookups import Lookups, mean_alignment
from regard.models.catalog import build_span_model
from regard.models.span_reader import SpanReader
from regard.pictures.heatmap import heatmap
from regard.pictures.shaded_text import draw_shaded_text
from regard.pictures.style import round_up
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution, add_ellipses, shade_parts
from regard.tasks.base import attribute_tokens
from regard.tasks.extractive_qa.data import (
    ExtractiveQA,
    Window,
    WindowSplitter,
    find_tokens,
)
from regard.tasks.extractive_qa.training import Span, SpanFinder
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READS = {"align": "words", "compare": "states"}
"""The lookups of a span reader from context to question, with their names in a picture."""
AROUND = 12
"""The words that are drawn on either side of an answer."""
NO_ANSWER = "no answer in the context"
READ = "attention weights: what the answer reads"
COMPARED = "attention weights: what each word of the context reads of the question"
FORM = '{"question": "Who won?", "context": "The cat won."}'
"""An example as a line of JSON."""
Pair = tuple[str, str]
"""A question and its context."""


@dataclass(frozen=True, repr=False)
class SpanPrediction(ShortRepr):
    """A span of the context; the text is empty where the context has no answer."""

    text: str
    start: int
    end: int
    score: float
    """The sum of the logits of its first and last token."""

    def lines(self) -> list[str]:
        """Return the span on one line."""
        return [" ".join(self.text.split())]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class WindowAttribution:
    """The attribution of an answer in the one window that has it."""

    finder: SpanFinder
    question: Question
    window: Window
    span: Span | None
    """The answer, if there is one."""

    @property
    def first(self) -> int:
        """The position of the part's first token."""
        return self.finder.splitter.first(self.window)

    @property
    def places(self) -> list[int]:
        """The tokens of the answer, counted in the part."""
        if self.span is None:
            return []
        return find_tokens(self.window.offsets, self.span.start, self.span.end)

    def attribute(self, options: AttributionOptions) -> tuple[Lookups, Alignment]:
        """Return every layer and head of all kinds, and one map of the first kind.

        Raises:
            InputError: The model has no such map.
        """
        if isinstance(self.finder.model, SpanReader):
            lookups = self.record_reader(self.finder.model)
            return lookups, mean_alignment(lookups, options.maps)
        tokenizer = self.finder.splitter.tokenizer
        window = self.window
        ids, _ = bert_input(tokenizer.special, window.question, window.part)
        texts = [self.question.question, self.question.context]
        labels = side(tokenizer, ids, texts=texts)

        def explain() -> tuple[list[str], Any]:
            (span,) = self.finder.find([(self.question, [window])])
            begins, ends = zip(*window.offsets, strict=True)
            at = [begins.index(span.start), ends.index(span.end)]
            positions = [self.first + place for place in at]
            begin, end = (labels.pieces[position] for position in positions)

            def score() -> Tensor:
                (logits,) = self.finder.logits([window])
                return select_log_probabilities(logits.T, positions)

            return [f"begins: {begin}", f"ends: {end}"], score

        return attribute_tokens(
            self.finder.model,
            labels,
            lambda: self.finder.logits([window]),
            explain,
            options,
        )

    def record_reader(self, model: SpanReader) -> Lookups:
        """Return what each word of the context reads of the question.

        Its words, then their states.
        """
        with record(model, only=[*READS]) as maps:
            self.finder.logits([self.window])
        length = len(self.window.part)
        weights = [maps[name][:, :length].double().cpu().numpy() for name in READS]
        words = self.finder.splitter.question_words(self.question)
        spans = self.window.offsets
        context = tuple(self.question.context[a:b].strip() for a, b in spans)
        return Lookups(np.stack(weights), words, context, layers=tuple(READS.values()))

    def shade(self, weights: Alignment) -> TextWeights:
        """Return what the answer reads of the question and of the window, its words framed.

        It is the mean over the answer's tokens or over the targets of a gradient; of no
        answer, what the first position reads. Special tokens are left out.
        """
        tokenizer = self.finder.splitter.tokenizer
        question = self.question
        window = self.window
        rows = weights.weights
        first = self.first
        if len(rows) == len(weights.source):
            rows = rows[[first + place for place in self.places] or [0]]
        row = rows.mean(0)
        count = len(window.question)
        asked = parts_of(
            question.question, tokenizer.offsets(question.question)[:count]
        )
        context = parts_of(question.context, window.offsets)
        spans = tokenizer.offsets(question.context)
        part = add_ellipses(
            context,
            before=window.offsets[0][0] > spans[0][0],
            after=window.offsets[-1][1] < spans[-1][1],
        )
        amounts = [row[1 : 1 + count], row[first : first + len(window.part)]]
        parts = [asked, part]
        words = {len(asked.labels) + part.indices[place] for place in self.places}
        shaded = shade_parts(parts, amounts, "the answer")
        return replace(shaded, framed=frozenset(words))

    def draw(self, weights: Alignment, title: str) -> "Figure":
        """Draw what the answer reads, or what the words around it read of the question."""
        if not isinstance(self.finder.model, SpanReader):
            return draw_shaded_text(self.shade(weights), title=title)
        visible, places = select_around(self.places, weights)
        words = f"words {places.start + 1} to {places.stop} of {len(weights.target)}"
        note = ", the answer in brackets" if self.places else ""
        title = f"{title}\n{words}{note}"
        return heatmap(visible, title=title, vmax=round_up(visible.weights))


def select_around(places: Sequence[int], weights: Alignment) -> tuple[Alignment, slice]:
    """Select the rows of an answer, in brackets, with `AROUND` words on either side.

    Without an answer the first rows.

    Returns:
        The rows, and where they are.
    """
    labels = list(weights.target)
    first = 0
    last = AROUND
    if places:
        first = places[0]
        last = places[-1]
        labels[first] = f"[{labels[first]}"
        labels[last] = f"{labels[last]}]"
    rows = slice(max(0, first - AROUND), min(len(labels), last + 1 + AROUND))
    return Alignment(weights.weights[rows], weights.source, tuple(labels[rows])), rows


class ExtractiveQARun(Run[Pair, SpanPrediction]):
    """A trained model with its tokenizer. An example is a question and its context."""

    config: ExtractiveQA
    model: nn.Module
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "columns", "skip_bad"}),
        "attribute": frozenset({"kinds", "maps"}),
    }
    inputs = {"question": str, "context": str}
    data_hint = "give a file of questions"

    def __init__(self, config: ExtractiveQA, model: nn.Module, tokenizer: Tokenizer):
        self.config = config
        self.model = model
        self.tokenizer = tokenizer
        self.finder = SpanFinder(model, WindowSplitter(tokenizer, config))

    @classmethod
    def open(cls, folder: RunDirectory, config: ExtractiveQA) -> "ExtractiveQARun":
        """Open the run in a folder, its model with fresh weights.

        Raises:
            InputError: The tokenizer is damaged.
        """
        tokenizer = Tokenizer.load(folder.file(TOKENIZER))
        return cls(config, build_span_model(config.reader, tokenizer.size), tokenizer)

    def warnings(self, example: Pair) -> list[str]:
        return text_warnings(self.tokenizer, self.record(example))

    @property
    def _limit(self) -> Limit:
        return Limit(self.config.longest_question, 0, "longest_question", "questions")

    def cut(self, example: Pair) -> str:
        tokens = len(self.tokenizer.encode(example[0]))
        return self._limit.report(1, 1) if tokens > self._limit.tokens else ""

    def parse(self, line: str, place: str = "text 1") -> Pair:
        """Return the texts of an object with `question` and `context`."""
        record, fault = parse_object(line, FORM)
        match record:
            case {"question": str(question), "context": str(context)}:
                return question, context
        raise InputError(f"{place}: {fault}")

    def example(self, values: Mapping[str, Any]) -> Pair:
        """Return a question and its context."""
        return values["question"], values["context"]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if isinstance(self.model, SpanReader):
            return ("weights",)
        names: Any = self.model.self_attention
        return text_kinds(self.model, names)

    def description(self) -> dict[str, Any]:
        kind = {"kind": "question", "model": self.config.reader.name}
        return super().description() | kind

    def record(self, example: Pair) -> dict[str, Any]:
        return {"question": example[0], "context": example[1]}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Question]:
        """Return the questions of files, as `Questions.read` does."""
        data = self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)

        def check(question: Question) -> Question:
            self.finder.splitter.split(question)
            return question

        return convert_files(files, data.read, check, skip_bad=data.skip_bad)

    def compute_metrics(
        self, examples: Sequence[Question], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return exact match and F1 of SQuAD, in percent."""
        split = self.finder.splitter.split
        return self.finder.compute_metrics([(item, split(item)) for item in examples])

    def _predict(
        self, examples: Sequence[Pair], options: PredictOptions
    ) -> list[SpanPrediction]:
        """Return the answer to each question.

        Raises:
            InputError: A question or context is blank.
        """
        cut = sum(bool(self.cut(example)) for example in examples)
        asked = self._ask(examples)
        report_cut(self._limit, cut, len(examples))
        spans = self.finder.find(asked)
        return [
            SpanPrediction(text, span.start, span.end, span.score)
            if text
            else SpanPrediction("", 0, 0, span.none)
            for text, span in zip(self.finder.texts(asked, spans), spans, strict=True)
        ]

    def _attribute(self, example: Pair, options: AttributionOptions) -> Attribution:
        """Return the attention between the tokens of the answer's window.

        A gradient is of the log-probabilities of the answer's first and last token. Of a
        span reader, what each word of the context reads of the question.

        Raises:
            InputError: Question or context is blank, or the model has no such map.
        """
        check_kinds(options.list_kinds(), self.kinds)
        (answer,) = self._predict([example], PredictOptions())
        ((question, windows),) = self._ask([example])
        spans = self.finder.find([(question, [window]) for window in windows])
        pairs = zip(windows, spans, strict=True)
        window, span = max(pairs, key=lambda pair: pair[1].score)
        chosen = span if answer.text else None
        attribution = WindowAttribution(self.finder, question, window, chosen)
        lookups, weights = attribution.attribute(options)
        detail = READ
        averaged = "all layers and heads"
        if isinstance(self.model, SpanReader):
            detail = COMPARED
            averaged = "words and states"
        if options.maps is None:
            detail += f", the mean of {averaged}"
        return Attribution(
            answer,
            f"{example[0]} → {answer.text or NO_ANSWER}",
            (lookups,),
            weights,
            options,
            has_heads=True,
            draw=lambda title: attribution.draw(weights, title),
            detail=detail,
        )

    def _ask(self, pairs: Sequence[Pair]) -> list[tuple[Question, list[Window]]]:
        """Return questions with their windows. Raises InputError for blank texts."""
        asked = []
        for number, (question, context) in enumerate(pairs, 1):
            example = Question(question, context, (), f"question {number}")
            asked.append((example, self.finder.splitter.split(example)))
        return asked
