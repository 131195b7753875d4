"""Attribution of an answer in the one window that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from regard.attention.record import record
from regard.attribution.aggregation import (
    check_kinds,
    supported_text_kinds,
    to_single_map,
)
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import attribute_gradient, attribute_text
from regard.data.batches import bert_input
from regard.data.questions import Question
from regard.data.records import Records, get_value, parse_object
from regard.data.rows import convert_files
from regard.data.tokens import Limit, parts_of, report_cut, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, mean_alignment, with_maps
from regard.models.catalog import build_span_model
from regard.models.span_reader import SpanReader
from regard.pictures.heatmap import heatmap
from regard.pictures.shaded_text import draw_shaded_text
from regard.pictures.style import round_up
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import (
    Attribution,
    append_ellipsis,
    prepend_ellipsis,
    shade_parts,
)
from regard.tasks.extractive_qa.data import ExtractiveQA
from regard.tasks.extractive_qa.training import (
    Span,
    WindowedQuestions,
    cutter_of,
    split_windows,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

READS = {"align": "words", "compare": "states"}
"""The lookups of a span reader from context to question, with the names that a picture gives them."""


def attribute_window(
    model: nn.Module,
    tokenizer: Tokenizer,
    cut: WindowedQuestions,
    kind: Kind,
    maps: Sequence[int] | None,
) -> tuple[Lookups, Alignment]:
    """Return one kind of attribution in the one window.

    Every layer and head, and the one map of those with numbers `maps`.

    Raises:
        InputError: the model has no such map.
    """
    if isinstance(model, SpanReader):
        lookups = _from_context(model, cut)
        return lookups, mean_alignment(lookups, maps)
    if kind == "gradient":
        gradient = _gradient(model, tokenizer, cut, maps)
        return to_single_map(gradient, kind), gradient
    names = str(model.self_attention)
    return attribute_text(
        model, names, _side(tokenizer, cut), lambda: cut.answers(model), maps, kind=kind
    )


def _from_context(model: SpanReader, cut: WindowedQuestions) -> Lookups:
    """Return what each word of the context reads of the question.

    Its words, then their states.
    """
    (question,), window = cut.questions, cut.windows[0][0]
    with record(model, only=[*READS]) as result:
        cut.logits(model, [window])
    words, length = cut.cutter.question_words(question), len(window.part)
    weights = np.stack(
        [result[name][:, :length].double().cpu().numpy() for name in READS]
    )
    context = tuple(
        question.context[begin:end].strip() for begin, end in window.offsets
    )
    return Lookups(weights, words, context, layers=tuple(READS.values()))


def _gradient(
    model: nn.Module,
    tokenizer: Tokenizer,
    cut: WindowedQuestions,
    maps: Sequence[int] | None,
) -> Alignment:
    """Gradient x input of the log-probabilities of the best span's first and last token."""
    window, (span,) = cut.windows[0][0], cut.answers(model)
    begins, ends = ([pair[side] for pair in window.offsets] for side in (0, 1))
    places = [
        window.first + begins.index(span.start),
        window.first + ends.index(span.end),
    ]
    tokens = _side(tokenizer, cut).pieces
    targets = [
        f"{name}: {tokens[place]}"
        for name, place in zip(("begins", "ends"), places, strict=True)
    ]
    return attribute_gradient(
        model,
        tokens,
        targets,
        lambda: select_log_probabilities(cut.logits(model, [window])[0].T, places),
        maps,
    )


def _side(tokenizer: Tokenizer, cut: WindowedQuestions) -> Side:
    """Return the labels of a window in one row, special tokens included."""
    window, question = cut.windows[0][0], cut.questions[0]
    ids, _ = bert_input(tokenizer.special, window.question, window.part)
    return side(tokenizer, ids, texts=[question.question, question.context])


if TYPE_CHECKING:
    from matplotlib.figure import Figure

AROUND = 12
"""The words that are drawn on either side of an answer."""


def of_one_row(
    tokenizer: Tokenizer,
    cut: WindowedQuestions,
    span: Span | None,
    weights: Alignment,
    title: str,
) -> Figure:
    """The question and the window that has the answer, shaded by what the answer reads of them, its words framed."""
    return draw_shaded_text(answer_weights(tokenizer, cut, span, weights), title=title)


def of_two_sides(
    cut: WindowedQuestions, span: Span | None, weights: Alignment, title: str
) -> Figure:
    """Return what the words of the answer.

    They are in brackets, and those around it read of the question.
    """
    visible, places = around_answer(is_inside(cut, span), weights)
    words = f"words {places.start + 1} to {places.stop} of {len(weights.target)}"
    return heatmap(
        visible,
        title=f"{title}\n{words}{', the answer in brackets' if span else ''}",
        vmax=round_up(visible.weights),
    )


def answer_weights(
    tokenizer: Tokenizer, cut: WindowedQuestions, span: Span | None, weights: Alignment
) -> TextWeights:
    """What the answer reads, the mean over its tokens or over the targets of a gradient, as shares of the words of the
    question and of the window, beyond which an ellipsis is; of no answer, what the first position reads. Special tokens
    are left out."""
    (question,), window, places = cut.questions, cut.windows[0][0], is_inside(cut, span)
    full = tokenizer.offsets(question.context)
    rows = weights.weights
    if len(rows) == len(weights.source):
        rows = rows[[window.first + place for place in places] or [0]]
    row, current = (
        rows.mean(0),
        tokenizer.offsets(question.question)[: len(window.question)],
    )
    context = parts_of(question.context, window.offsets)
    context = (
        append_ellipsis(context)
        if full and window.offsets[-1][1] < full[-1][1]
        else context
    )
    context = (
        prepend_ellipsis(context)
        if full and window.offsets[0][0] > full[0][0]
        else context
    )
    parts = [parts_of(question.question, current), context]
    amounts = [
        row[1 : 1 + len(current)],
        row[window.first : window.first + len(window.part)],
    ]
    before = len(parts[0].labels)
    framed = frozenset(before + parts[1].indices[place] for place in places)
    return replace(shade_parts(parts, amounts, "the answer"), framed=framed)


def around_answer(places: Sequence[int], weights: Alignment) -> tuple[Alignment, slice]:
    """The rows of an answer at these places, in brackets, with `AROUND` words on either side, and where they are; the
    first rows without an answer."""
    labels, first, last = list(weights.target), 0, AROUND
    if places:
        first, last = places[0], places[-1]
        labels[first] = f"[{labels[first]}"
        labels[last] = f"{labels[last]}]"
    visible = slice(max(0, first - AROUND), min(len(labels), last + 1 + AROUND))
    return Alignment(
        weights.weights[visible], weights.source, tuple(labels[visible])
    ), visible


def is_inside(cut: WindowedQuestions, span: Span | None) -> list[int]:
    """Return the tokens of the part of the one window that a span has."""
    if span is None:
        return []
    offsets = cut.windows[0][0].offsets
    return [
        place
        for place, (begin, end) in enumerate(offsets)
        if begin < span.end and end > span.start
    ]


NO_ANSWER = "no answer in the context"
READ = "attention weights: what the answer reads"
COMPARED = "attention weights: what each word of the context reads of the question"
NAMES = "question", "context"
FORM = '{"question": "Who won?", "context": "The cat won."}'
"""An example as a line of JSON."""


@dataclass(frozen=True, repr=False)
class SpanPrediction(ShortRepr):
    """A span of the context, its characters `start` to `end`, and the sum of the logits of both. The text is empty
    where the context has no answer."""

    text: str
    start: int
    end: int
    score: float

    def lines(self) -> list[str]:
        """Return the span."""
        return [" ".join(self.text.split())]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))


class ExtractiveQARun(Run[tuple[str, str], SpanPrediction]):
    """A trained model with its tokenizer and its run file.

    An example is a question and its context.
    """

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
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: ExtractiveQA) -> ExtractiveQARun:
        """Return the run in a folder, its model with fresh weights.

        Raises:
            InputError: A damaged tokenizer.
        """
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build_span_model(config.reader, tokenizer.size), tokenizer)

    def warnings(self, example: tuple[str, str]) -> list[str]:
        return text_warnings(
            self.tokenizer, {"question": example[0], "context": example[1]}
        )

    @property
    def _longest(self) -> Limit:
        return Limit(self.config.longest_question, 0, "longest_question", "questions")

    def cut(self, example: tuple[str, str]) -> str:
        tokens = len(self.tokenizer.encode(example[0]))
        return self._longest.report(1, 1) if tokens > self._longest.tokens else ""

    def parse(self, line: str, place: str = "text 1") -> tuple[str, str]:
        """The texts of an object with `question` and `context`, or with the columns that the run was trained on."""
        current = (
            str(self.config.data.question),
            str(self.config.data.context),
        )  # numbers are keys of no object
        also = (
            ""
            if current == NAMES
            else f", or with the keys {current[0]!r} and {current[1]!r} of its training data"
        )
        record, fault = parse_object(line, FORM + also)
        for names in (NAMES, current) if isinstance(record, Mapping) else ():
            match [get_value(record, name) for name in names]:
                case [str(question), str(context)]:
                    return question, context
        raise InputError(f"{place}: {fault}")

    def example(self, values: Mapping[str, Any]) -> tuple[str, str]:
        """Return a question and its context."""
        return values["question"], values["context"]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if isinstance(self.model, SpanReader):
            return ("weights",)
        names: Any = self.model.self_attention
        return supported_text_kinds(self.model, names)

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "kind": "question",
            "model": self.config.reader.name,
        }

    def record(self, example: tuple[str, str]) -> dict[str, Any]:
        return dict(zip(NAMES, example, strict=True))

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Question]:
        """Return the questions of files of SQuAD.

        Raises:
            InputError: As `Questions.read`.
        """
        data = self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)
        cutter = cutter_of(self.tokenizer, self.config)

        def cut(item: Question) -> Question:
            cutter.windows(item)
            return item

        return convert_files(files, data.read, cut, skip_bad=data.skip_bad)

    def compute_metrics(
        self, examples: Sequence[Question], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return exact match and F1 of SQuAD, in percent."""
        windows = split_windows(examples, self.tokenizer, self.config)
        return windows.compute_metrics(self.model)

    def _predict(
        self, examples: Sequence[tuple[str, str]], options: PredictOptions
    ) -> list[SpanPrediction]:
        """Return the answer to each question.

        Raises:
            InputError: A question or context that is blank.
        """
        cut = self._split(examples)
        report_cut(
            self._longest, sum(map(bool, map(self.cut, examples))), len(examples)
        )
        result = cut.answers(self.model)
        return [
            SpanPrediction(text, item.start, item.end, item.score)
            if text
            else SpanPrediction("", 0, 0, item.none)
            for text, item in zip(cut.texts(result), result, strict=True)
        ]

    def _attribute(
        self, example: tuple[str, str], options: AttributionOptions
    ) -> Attribution:
        """BERT: the attention between the tokens of the answer's window, special tokens included; for the kind
        gradient, gradient x input of the log-probabilities of the answer's first and last token. A span reader: what
        each word of the context reads of the question.

        Raises:
            InputError: question or context is blank, or the model has no such map.
        """
        check_kinds(options.list_kinds(), self.kinds)
        (answer,) = self._predict([example], PredictOptions())
        cut = self._split([example])
        windows = [replace(cut, windows=[[window]]) for window in cut.windows[0]]
        best = max(windows, key=lambda item: item.answers(self.model)[0].score)
        results = [
            attribute_window(self.model, self.tokenizer, best, kind, options.maps)
            for kind in options.list_kinds()
        ]
        span = best.answers(self.model)[0] if answer.text else None
        lookups, weights = with_maps(*(entry for entry, _ in results)), results[0][1]
        title = f"{example[0]} → {answer.text or NO_ANSWER}"
        if isinstance(self.model, SpanReader):
            detail, averaged, draw = (
                COMPARED,
                "words and states",
                partial(of_two_sides, best, span, weights),
            )
        else:
            draw = partial(of_one_row, self.tokenizer, best, span, weights)
            detail, averaged = READ, "all layers and heads"
        if options.maps is None:
            detail += f", the mean of {averaged}"
        return Attribution(
            answer,
            title,
            (lookups,),
            weights,
            options,
            has_heads=True,
            draw=draw,
            detail=detail,
        )

    def _split(self, questions: Sequence[tuple[str, str]]) -> WindowedQuestions:
        """Return questions in windows.

        Raises:
            InputError: A blank question or context.
        """
        for number, item in enumerate(questions, 1):
            if not all(text.strip() for text in item):
                raise InputError(
                    f"question {number}: question or context is blank; give both"
                )
        numbered = [
            Question(*question, (), f"question {number}")
            for number, question in enumerate(questions, 1)
        ]
        return split_windows(numbered, self.tokenizer, self.config)
