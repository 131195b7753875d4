"""The training of models that answer by a span of a context, and the trained run."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.attribution.attention import check_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.batches import bert_input, count_special
from regard.data.cache import Chunks, split_into_chunks
from regard.data.questions import Question
from regard.data.records import Records, parse_object
from regard.data.rows import convert_files, convert_sets
from regard.data.tokens import Limit, parts_of, report_cut, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights
from regard.maps.lookups import Lookups, mean_alignment
from regard.metrics import METRICS, Metrics
from regard.models.catalog import SPAN_MODELS
from regard.models.span_reader import SpanReader
from regard.pictures.canvas import round_up
from regard.pictures.heatmap import heatmap
from regard.pictures.shaded_text import draw_shaded_text
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import ELLIPSIS, Attribution, shade_parts, surround
from regard.tasks.base import (
    Explained,
    ReadingObjective,
    ReadingRun,
    Setup,
    TextBatch,
    attribute_tokens,
    digest_splits,
    setup_task,
)
from regard.tasks.extractive_qa.data import (
    ExtractiveQA,
    Window,
    WindowSplitter,
    cut_words,
    find_tokens,
)
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    PredictOptions,
    ShortRepr,
)
from regard.tasks.run import ScoredOutput, Task
from regard.tasks.summary import request_of, summarize_texts
from regard.text import Tokenizer
from regard.text.words import is_inside_word
from regard.training.objectives import Loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READS = {"align": "words", "compare": "states"}
"""The lookups of a span reader from context to question, with their names in a picture."""
AROUND = 12
"""The words that are drawn on either side of an answer."""
NO_ANSWER = "no answer in the context"
READ = "attention weights: what the answer attends to"
COMPARED = "attention weights: what each word of the context attends to in the question"
FORM = '{"question": "Who won?", "context": "The cat won."}'
"""An example as a line of JSON."""
Pair = tuple[str, str]
"""A question and its context."""
log = logging.getLogger("regard")


class AnswerSpan(NamedTuple):
    """The best span of a window: characters `start` to `end` of the context."""

    window: Window
    start: int
    end: int
    score: float
    """The sum of the logits of its first and last token."""
    none: float
    """The same score for no answer."""


@dataclass(frozen=True, repr=False)
class SpanPrediction(ShortRepr):
    """A span of the context; the text is empty where the context has no answer."""

    text: str
    start: int
    end: int
    score: float
    """The sum of the logits of its first and last token."""


def split_training_set(
    questions: Sequence[Question], splitter: WindowSplitter
) -> Chunks[Window]:
    """Split the training questions, those on disk once.

    Raises:
        InputError: A question has no window; with `skip_bad` it is counted.
    """
    config = splitter.config
    skip_bad = config.data.skip_bad
    special = count_special(splitter.tokenizer.special, 2)

    def split(question: Question) -> list[Window]:
        try:
            windows = splitter.split(question)
        except InputError:
            if not skip_bad:
                raise
            return []
        # training needs no offsets
        return [window._replace(offsets=()) for window in windows]

    chunks = split_into_chunks(
        questions,
        f"question windows {splitter.tokenizer.digest} {config.sizes} {skip_bad} "
        f"{config.longest_question}",
        split,
        lambda window: len(window.question) + len(window.part) + special,
        Window,
    )
    missing = len(questions) - len(np.unique(chunks.owners))
    if missing:
        log.warning("%s questions have no window and are left out", f"{missing:,}")
    return chunks


def setup(config: ExtractiveQA, folder: RunDirectory, processes: int) -> Setup:
    """Read the questions and build tokenizer, model and objective.

    Raises:
        InputError: The questions or the model are invalid.
    """
    data = config.data
    splits = data.load()
    train = splits.train
    tokenizer, model = config.build(folder, train, read_texts, SPAN_MODELS.build)
    run = ExtractiveQARun(config, model, tokenizer)
    held_out = convert_sets(replace(splits, train=()), run.check, data)
    splits = replace(held_out, train=train)
    windows = split_training_set(train, run.splitter)
    warnings = []
    for name in () if data.unanswerable else splits.by_name:
        count, total = data.without_answer(getattr(data, name))
        if count:
            share = f"{count:,} of {total:,} ({100 * count / total:.3g} %)"
            warnings.append(
                f"{share} questions of {name} have no answer and are left out; "
                "data.unanswerable=true keeps them"
            )
    first = train[0]
    summary = summarize_texts(
        data,
        splits,
        {
            "question": (tokenizer, lambda question: question.question),
            "context": (tokenizer, lambda question: question.context),
        },
        unit="questions",
        example={"answer": first.answers[0].text if first.answers else "none"},
        warnings=warnings,
        request=request_of(question=first.question, context=first.context),
    )
    return setup_task(
        run,
        ReadingObjective(run, splits, windows, "windows"),
        splits,
        digest_splits(splits, lambda q: f"{q.question}\0{q.context}\0{q.answers}\n"),
        summary,
        counts=[f"in {len(windows):,} windows"],
        fresh=("output.",),
    )


def read_texts(questions: Sequence[Question]) -> Iterator[str]:
    """Yield the different contexts and questions of examples."""
    hashes: set[int] = set()  # texts of a large set would take too much memory
    for question in questions:
        for text in (question.context, question.question):
            if hash(text) not in hashes:
                hashes.add(hash(text))
                yield text


class ExtractiveQARun(ReadingRun[Pair, SpanPrediction]):
    """A trained model with its tokenizer. An example is a question and its context."""

    does = "Finds the answer to a question in a text."
    config: ExtractiveQA
    inputs = {"question": str, "context": str}
    data_hint = "give a file of questions"
    rows = 32

    def __init__(self, config: ExtractiveQA, model: nn.Module, tokenizer: Tokenizer):
        super().__init__(config, model, tokenizer)
        self.limit = Limit(config.longest_question, 0, "longest_question", "questions")
        self.splitter = WindowSplitter(tokenizer, config)

    @staticmethod
    def build(config: ExtractiveQA, tokenizer: Tokenizer) -> nn.Module:
        return SPAN_MODELS.build(config.sizes, tokenizer.size)

    def collate(self, parts: Sequence[Window]) -> TextBatch:
        return self.splitter.collate(parts)

    def compute_loss(self, outputs: Tensor, batch: TextBatch) -> Loss:
        """Return the mean of the cross-entropies of an answer's first and last position."""
        total = functional.cross_entropy(outputs, batch.targets, reduction="sum") / 2
        return Loss(total, len(batch.targets), read=batch.size)

    def cut(self, example: Pair) -> str:
        tokens = len(self.tokenizer.encode(example[0]))
        return self.limit.report(1, 1) if tokens > self.limit.tokens else ""

    def parse(self, line: str, place: str = "text 1") -> Pair:
        """Return the texts of an object with `question` and `context`."""
        values, fault = parse_object(line, FORM)
        match values:
            case {"question": str(question), "context": str(context)}:
                return question, context
        raise InputError(f"{place}: {fault}, or 'QUESTION' 'CONTEXT'")

    def parse_arguments(self, texts: Sequence[str]) -> list[Pair]:
        """Return an object each, or of two texts the question and its context."""
        if len(texts) == 2 and not any(text.startswith("{") for text in texts):
            texts = [json.dumps(dict(zip(self.inputs, texts, strict=True)))]
        return super().parse_arguments(texts)

    def example(self, values: Json) -> Pair:
        """Return a question and its context."""
        return values["question"], values["context"]

    def record(self, example: Pair) -> Json:
        return dict(zip(self.inputs, example, strict=True))

    @property
    def kinds(self) -> Sequence[Kind]:
        return ("weights",) if isinstance(self.model, SpanReader) else super().kinds

    @property
    def cut_modules(self) -> Sequence[str]:
        return [*READS] if isinstance(self.model, SpanReader) else super().cut_modules

    def description(self) -> Json:
        kind = {"kind": "question", "model": self.config.sizes.name}
        return super().description() | kind

    def check(self, question: Question) -> Question:
        """Return a question. Raises InputError for one without a window."""
        self.splitter.split(question)
        return question

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Question]:
        """Return the questions of files, as `Questions.read` does."""
        data = self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)
        return convert_files(files, data.read, self.check, skip_bad=data.skip_bad)

    def compute_metrics(
        self, examples: Sequence[Question], options: EvaluationOptions
    ) -> Metrics:
        """Return exact match and F1, each the best over a question's answers, in percent."""
        outputs = [prediction.text for prediction, _ in self.find_answers(examples)]
        references = [
            tuple(answer.text for answer in question.answers) or ("",)
            for question in examples
        ]
        return {
            "f1": METRICS["squad-f1"](outputs, references),
            "exact-match": METRICS["squad-exact-match"](outputs, references),
        }

    def _predict(
        self, examples: Sequence[Pair], options: PredictOptions
    ) -> list[SpanPrediction]:
        """Return the answer to each question.

        Raises:
            InputError: A question or context is blank.
        """
        questions = [
            Question(*pair, (), f"question {number}")
            for number, pair in enumerate(examples, 1)
        ]
        answers = self.find_answers(questions)
        cut = sum(bool(self.cut(example)) for example in examples)
        report_cut(self.limit, cut, len(examples))
        return [prediction for prediction, _ in answers]

    def find_answers(
        self, questions: Sequence[Question]
    ) -> list[tuple[SpanPrediction, AnswerSpan]]:
        """Return the answer to each question, and the best span of all its windows.

        Raises:
            InputError: A question or context is blank.
        """
        groups = list(map(self.splitter.split, questions))
        outputs = self.compute_outputs([window for group in groups for window in group])
        answers = []
        for question, windows in zip(questions, groups, strict=True):
            spans = [
                self.best_span(question.context, window, next(outputs))
                for window in windows
            ]
            answers.append(self.choose_answer(question, spans))
        return answers

    def best_span(
        self, context: str, window: Window, logits: Float[Tensor, "position 2"]
    ) -> AnswerSpan:
        """Return the best span of a window's part, of whole words where it has one."""
        part = logits[window.first : window.first + len(window.part)]
        scores = part[:, :1] + part[None, :, 1]
        longest = self.config.longest_answer
        allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(longest - 1)
        cuts = torch.tensor(
            [[is_inside_word(context, at) for at in span] for span in window.offsets]
        )
        complete = allowed & ~cuts[:, :1] & ~cuts[:, 1]
        if complete.any():
            allowed = complete
        scores.masked_fill_(~allowed, -torch.inf)
        begin, end = divmod(int(scores.argmax()), len(scores))
        first, last = window.offsets[begin][0], window.offsets[end][1]
        score = float(scores[begin, end])
        return AnswerSpan(window, first, last, score, float(logits[0].sum()))

    def choose_answer(
        self, question: Question, spans: Sequence[AnswerSpan]
    ) -> tuple[SpanPrediction, AnswerSpan]:
        """Return the prediction of the best span, empty where no answer is likelier."""
        span = max(spans, key=lambda span: span.score)
        none = min(span.none for span in spans)
        if self.config.data.unanswerable and none + self.config.margin >= span.score:
            return SpanPrediction("", 0, 0, none), span
        text = question.context[span.start : span.end]
        return SpanPrediction(text, span.start, span.end, span.score), span

    def _attribute(self, example: Pair, options: AttributionOptions) -> Attribution:
        """Return the attention between the tokens of the answer's window.

        A gradient is of the log-probabilities of the answer's first and last token. Of a
        span reader, what each word of the context attends to in the question.

        Raises:
            InputError: Question or context is blank, or the model has no such map.
        """
        check_kinds(options.list_kinds(), self.kinds)
        question = Question(*example, (), "question 1")
        ((answer, span),) = self.find_answers([question])
        report_cut(self.limit, bool(self.cut(example)), 1)
        window = span.window
        tokens = find_tokens(window.offsets, span.start, span.end)
        places = tokens if answer.text else []
        detail, averaged = COMPARED, "words and states"
        if isinstance(self.model, SpanReader):
            lookups = self._record_reader(question, window)
            weights = mean_alignment(lookups, options.maps)
        else:
            ids, _ = bert_input(self.tokenizer.special, window.question, window.part)
            labels = side(self.tokenizer, ids, texts=example)
            ends = [window.first + tokens[0], window.first + tokens[-1]]
            begin, end = (labels.pieces[position] for position in ends)
            explained = Explained(
                [f"begins: {begin}", f"ends: {end}"],
                ends,
                lambda: self.call([window])[0].T,
            )
            lookups, weights = attribute_tokens(self.model, labels, explained, options)
            detail, averaged = READ, "all layers and heads"

        def draw(title: str) -> "Figure":
            if isinstance(self.model, SpanReader):
                return draw_around(places, weights, title)
            shades = shade_window(self.tokenizer, question, window, places, weights)
            return draw_shaded_text(shades, title=title)

        if options.maps is None:
            detail += f", the mean of {averaged}"
        return Attribution(
            answer,
            f"{example[0]} → {answer.text or NO_ANSWER}",
            (lookups,),
            weights,
            options,
            has_heads=True,
            draw=draw,
            detail=detail,
        )

    def _find_output(
        self, example: Pair, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        """Return the answer, and the first and last token of its window's best span."""
        question = Question(*example, (), "question 1")
        ((answer, span),) = self.find_answers([question])
        window = span.window
        tokens = find_tokens(window.offsets, span.start, span.end)
        ends = [window.first + tokens[0], window.first + tokens[-1]]
        pieces = self.tokenizer.pieces(
            [window.part[tokens[0]], window.part[tokens[-1]]]
        )

        def predict() -> tuple[list[str], SpanPrediction]:
            best = self.best_span(
                question.context, window, self.call([window])[0].cpu()
            )
            prediction, _ = self.choose_answer(question, [best])
            return [prediction.text or NO_ANSWER], prediction

        return ScoredOutput(
            [answer.text or NO_ANSWER],
            [f"begins: {pieces[0]}", f"ends: {pieces[1]}"],
            lambda: select_log_probabilities(self.call([window])[0].T, ends),
            predict,
        )

    def _record_reader(self, question: Question, window: Window) -> Lookups:
        """Return what each word of the context attends to in the question.

        Its words, then their states.
        """
        with record(self.model, only=[*READS]) as maps:
            self.call([window])
        length = len(window.part)
        weights = [maps[name][:, :length].double().cpu().numpy() for name in READS]
        words = self.splitter.question_words(question)
        context = cut_words(question.context, window.offsets)
        return Lookups(np.stack(weights), words, context, layers=tuple(READS.values()))


def shade_window(
    tokenizer: Tokenizer,
    question: Question,
    window: Window,
    places: Sequence[int],
    weights: Alignment,
) -> TextWeights:
    """Return what the answer attends to in question and window, its words framed.

    It is the mean over the answer's tokens or over the targets of a gradient; of no
    answer, what the first position reads. Special tokens are left out.

    Args:
        tokenizer: The tokenizer of the run.
        window: The window that has the answer.
        places: The tokens of the answer, counted in the window's part.
        weights: Of shape (position, position) or (target, position).
    """
    rows = weights.weights
    if len(rows) == len(weights.source):
        rows = rows[[window.first + place for place in places] or [0]]
    row = rows.mean(0)
    count = len(window.question)
    offsets = tokenizer.offsets(question.question)[:count]
    asked = parts_of(question.question, offsets)
    spans = tokenizer.offsets(question.context)
    part = surround(
        parts_of(question.context, window.offsets),
        [ELLIPSIS] * (window.offsets[0] != spans[0]),
        [ELLIPSIS] * (window.offsets[-1] != spans[-1]),
    )
    last = window.first + len(window.part)
    amounts = [row[1 : 1 + count], row[window.first : last]]
    return shade_parts([asked, part], amounts, "the answer", places)


def draw_around(places: Sequence[int], weights: Alignment, title: str) -> "Figure":
    """Draw what the words around an answer, in brackets, read of the question."""
    first, last = (places[0], places[-1]) if places else (0, AROUND)
    rows = range(len(weights.target))[max(0, first - AROUND) : last + 1 + AROUND]
    labels = [
        f"[{weights.target[row]}]" if row in places else weights.target[row]
        for row in rows
    ]
    visible = Alignment(weights.weights[rows], weights.source, tuple(labels))
    words = f"words {rows.start + 1} to {rows.stop} of {len(weights.target)}"
    return heatmap(visible, title=f"{title}\n{words}", vmax=round_up(visible.weights))


TASK = Task(
    ExtractiveQA,
    setup,
    ExtractiveQARun,
    command="regard predict {} --question QUESTION --context CONTEXT",
)
