"""A trained model of extractive question answering: `load(folder).predict([(question, context)])`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from regard.attribution.available import LAYERED, check_kinds
from regard.attribution.kinds import Kind
from regard.data.memory import Records
from regard.data.records import parse_object, value_at
from regard.data.squad import Question
from regard.data.truncation import Limit, report_cut
from regard.data.usable import usable_files
from regard.errors import InputError
from regard.maps.lookups import beside
from regard.models.bert import BertSpans
from regard.models.catalog import build_span_model
from regard.models.span_reader import SpanReader
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.extractive_qa.attribution import attribute_window
from regard.tasks.extractive_qa.config import ExtractiveQA
from regard.tasks.extractive_qa.figure import of_one_row, of_two_sides
from regard.tasks.extractive_qa.training import WindowedQuestions, cutter_of, windowed
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer

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
        """The span."""
        return [" ".join(self.text.split())]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))


class ExtractiveQARun(Run[tuple[str, str], SpanPrediction]):
    """A trained model with its tokenizer and its run file. An example is a question and its context."""

    config: ExtractiveQA
    model: nn.Module
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "columns", "skip_bad"}),
        "attribute": frozenset({"kinds", "maps"}),
    }
    inputs = {"question": str, "context": str}

    def __init__(self, config: ExtractiveQA, model: nn.Module, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: ExtractiveQA) -> "ExtractiveQARun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
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
        own = (
            str(self.config.data.question),
            str(self.config.data.context),
        )  # numbers are keys of no object
        also = (
            ""
            if own == NAMES
            else f", or with the keys {own[0]!r} and {own[1]!r} of its training data"
        )
        record, fault = parse_object(line, FORM + also)
        for names in (NAMES, own) if isinstance(record, Mapping) else ():
            match [value_at(record, name) for name in names]:
                case [str(question), str(context)]:
                    return question, context
        raise InputError(f"{place}: {fault}")

    def example(self, values: Mapping[str, Any]) -> tuple[str, str]:
        """A question and its context."""
        return values["question"], values["context"]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return LAYERED if isinstance(self.model, BertSpans) else ("weights",)

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
        """The questions of files of SQuAD. Raises InputError as `Questions.read`."""
        data = self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)
        cutter = cutter_of(self.tokenizer, self.config)

        def cut(each: Question) -> Question:
            cutter.windows(each)
            return each

        return usable_files(files, data.read, cut, skip_bad=data.skip_bad)

    def _evaluate(
        self, examples: Sequence[Question] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """Exact match and F1 of SQuAD, in per cent.

        Raises:
            InputError: there are neither examples nor a test set, or an answer is not in its context.
        """
        questions = for_evaluation(
            examples, self.config.data, "give a file of questions"
        )
        with guarded(self.model):
            return windowed(questions, self.tokenizer, self.config).figures(self.model)

    def _predict(
        self, examples: Sequence[tuple[str, str]], options: PredictOptions
    ) -> list[SpanPrediction]:
        """The answer to each question. Raises InputError for a question or context that is blank."""
        cut = self._windowed(examples)
        report_cut(
            self._longest, sum(map(bool, map(self.cut, examples))), len(examples)
        )
        with guarded(self.model):
            found = cut.answers(self.model)
        return [
            SpanPrediction(text, each.start, each.end, each.score)
            if text
            else SpanPrediction("", 0, 0, each.none)
            for text, each in zip(cut.texts(found), found, strict=True)
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
        check_kinds(options.each_kind(), self.kinds)
        (answer,) = self._predict([example], PredictOptions())
        cut = self._windowed([example])
        windows = [replace(cut, windows=[[window]]) for window in cut.windows[0]]
        with guarded(self.model):
            best = max(windows, key=lambda each: each.answers(self.model)[0].score)
            found = [
                attribute_window(self.model, self.tokenizer, best, kind, options.maps)
                for kind in options.each_kind()
            ]
            span = best.answers(self.model)[0] if answer.text else None
        lookups, weights = beside(*(each for each, _ in found)), found[0][1]
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

    def _windowed(self, questions: Sequence[tuple[str, str]]) -> WindowedQuestions:
        """Questions in windows. Raises InputError for a blank question or context."""
        for number, each in enumerate(questions, 1):
            if not all(text.strip() for text in each):
                raise InputError(
                    f"question {number}: question or context is blank; give both"
                )
        numbered = [
            Question(*each, (), f"question {number}")
            for number, each in enumerate(questions, 1)
        ]
        return windowed(numbered, self.tokenizer, self.config)
