"""The texts and the windows of questions, of which those of large files are on disk."""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import batch_size, token_batches
from regard.data.cache import (
    CachedSet,
    Chunks,
    JsonCodec,
    LazyMap,
    cache_value,
    split_into_chunks,
)
from regard.data.questions import Question
from regard.data.rows import RowCollector, convert_sets
from regard.data.splits import Splits
from regard.errors import InputError
from regard.metrics import METRICS, TextMetricName
from regard.models.catalog import SPAN_MODELS, build_span_model
from regard.models.span_reader import SpanReaderConfig
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup, digest_splits
from regard.tasks.extractive_qa.data import (
    FORMS,
    Cutter,
    ExtractiveQA,
    Questions,
    SpanBatch,
    Window,
)
from regard.tasks.fine_tuning import add_vector_texts, initialize_word_vectors
from regard.tasks.summary import (
    DataSummary,
    describe_rows,
    describe_tokens,
    measure_text_lengths,
    measure_unknown_shares,
    request_of,
    sample_evenly,
    warn_repeated,
    warn_unknown,
)
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import Tokenizer
from regard.text.words import is_inside_word
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches


@dataclass(frozen=True, eq=False)
class QuestionTexts:
    """The different contexts and questions of examples, as often as they are iterated over."""

    examples: Sequence[Question]

    def __iter__(self) -> Iterator[str]:
        visible: set[int] = (
            set()
        )  # of a large set the texts themselves would take the memory that it is on disk for
        for example in self.examples:
            for text in (example.context, example.question):
                if (number := hash(text)) not in visible:
                    visible.add(number)
                    yield text


def kept_windows(windows: Sequence[Sequence[Window]]) -> Chunks[Window]:
    """Return the windows of questions in memory."""
    return split_into_chunks(windows, "", list, _length, CODEC)


def window_pieces(
    questions: CachedSet[Question], cutter: Cutter, data: Questions
) -> tuple[CachedSet[Question], Chunks[Window]]:
    """Return the questions on disk that have windows, and these, which are made once.

    Raises:
        BadRecord: A question without; with `skip_bad` it is left out.
    """
    path = ", ".join(questions.paths)

    def cut(example: Question) -> list[Window]:
        try:
            return cutter.windows(example)
        except InputError as error:
            RowCollector(path, data.skip_bad).refuse_record(_fault(example, error))
            return []

    name = f"windows {cutter.tokenizer.digest} {cutter.form} {cutter.context} {cutter.longest_question} {data.skip_bad}"
    pieces = split_into_chunks(questions, name, cut, _length, CODEC)
    retained = np.unique(pieces.owners)
    if len(retained) == len(questions):
        return questions, pieces
    collector = RowCollector(
        path, data.skip_bad
    )  # another process, or an earlier start, skipped them
    for row in np.setdiff1d(np.arange(len(questions)), retained).tolist():
        collector.refuse_record(
            f"{questions[row].place}: it has no window, for want of words or of room"
        )
    collector.check(len(retained))
    rows = retained if questions.rows is None else questions.rows[retained]
    return questions.part(rows, f"{questions.name} {name}"), pieces


def _fault(example: Question, error: InputError) -> str:
    text = str(error)
    return text if text.startswith(example.place) else f"{example.place}: {text}"


def _length(window: Window) -> int:
    return window.length


def _to_json(item: Window) -> list[Any]:
    """Return a window without its places in the context, which training does not need."""
    tensors = [
        _pack(tensor)
        for tensor in (item.features, item.question_spellings, item.spellings)
    ]
    return [item.question, item.part, tensors, item.first, item.answer, item.marks]


def _of_json(value: Any) -> Window:
    question, part, tensors, first, answer, marks = value
    features, question_spellings, spellings = map(_unpack, tensors)
    ends = answer[0], answer[1]
    return Window(
        question, part, (), features, question_spellings, spellings, first, ends, marks
    )


def _pack(tensor: Tensor) -> list[Any]:
    """Return a tensor as the name of its type, its shape and its bytes."""
    array = tensor.contiguous().numpy()
    return [array.dtype.str, list(array.shape), b64encode(array.tobytes()).decode()]


def _unpack(value: Any) -> Tensor:
    kind, shape, content = value
    return torch.from_numpy(
        np.frombuffer(b64decode(content), dtype=kind).reshape(shape).copy()
    )


CODEC = JsonCodec(_to_json, _of_json)


ROWS = 32
"""Windows in one batch of inference."""


@dataclass(frozen=True)
class Span:
    """An answer: characters `start` to `end` of the context, and the sum of the two logits; `none` is the same score
    for no answer."""

    start: int
    end: int
    score: float
    none: float


class ExtractiveQAObjective:
    """The cross-entropy of an answer's first and last position.

    Both are 0 in a window without the answer.
    """

    metric, higher_is_better = "f1", True

    def __init__(
        self, train: Chunks[Window], valid: "WindowedQuestions", settings: Training
    ):
        """Raise InputError for no windows."""
        self.train, self.valid, self.settings = train.items, valid, settings
        self.lengths = train.sides
        self.tokens = batch_size(
            self.lengths, settings.batch_tokens, "windows of training questions"
        )

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> SpanBatch:
        return self.valid.cutter.form.collate([self.train[index] for index in indices])

    def loss(
        self,
        model: nn.Module,
        batch: SpanBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        loss = span_loss(model(*batch.inputs), batch.answers)
        return Loss(loss, len(batch.answers), read=batch.size)

    def validate(self, model: nn.Module) -> dict[str, float]:
        return self.valid.compute_metrics(model)


def span_loss(
    logits: Float[Tensor, "batch position 2"], answers: Int[Tensor, "batch 2"]
) -> Float[Tensor, ""]:
    """The mean of the cross-entropies of first and last positions, summed over the batch."""
    return functional.cross_entropy(logits, answers, reduction="sum") / 2


@dataclass(frozen=True)
class WindowedQuestions:
    """Questions with all their windows, and the limits of their answers."""

    questions: Sequence[Question]
    windows: Sequence[Sequence[Window]]
    cutter: Cutter
    longest: int
    margin: float | None

    @torch.no_grad()
    def answers(self, model: nn.Module) -> list[Span]:
        """Return the best span for each question."""
        entry = zip(self.questions, self.windows, strict=True)
        flat = [
            (question.context, window) for question, group in entry for window in group
        ]

        def spans(first: int) -> list[Span]:
            example = flat[first : first + ROWS]
            logits = self.logits(model, [window for _, window in example]).cpu()
            return [
                best_span(*part, row, self.longest)
                for part, row in zip(example, logits, strict=True)
            ]

        remaining = chain.from_iterable(
            compute_batches(spans, range(0, len(flat), ROWS))
        )
        return [best([next(remaining) for _ in item]) for item in self.windows]

    def logits(
        self, model: nn.Module, group: Sequence[Window]
    ) -> Float[Tensor, "window position 2"]:
        """The logits of an answer's first and last token at each position of some windows."""
        return model(
            *self.cutter.form.collate(group).to(next(model.parameters()).device).inputs
        )

    def texts(self, answers: Sequence[Span]) -> list[str]:
        """Return the texts of spans; empty where no answer is likelier."""
        results = [
            question.context[answer.start : answer.end]
            for question, answer in zip(self.questions, answers, strict=True)
        ]
        if self.margin is None:
            return results
        return [
            "" if item.none + self.margin >= item.score else text
            for text, item in zip(results, answers, strict=True)
        ]

    def compute_metrics(self, model: nn.Module) -> dict[str, float]:
        """exact-match and f1, each the best over a question's answers, in per cent."""
        outputs = self.texts(self.answers(model))
        references = [
            tuple(answer.text for answer in question.answers) or ("",)
            for question in self.questions
        ]
        names: dict[str, TextMetricName] = {
            "f1": "squad-f1",
            "exact-match": "squad-exact-match",
        }
        return {
            name: METRICS[metric](outputs, references) for name, metric in names.items()
        }


def best_span(
    context: str, window: Window, logits: Float[Tensor, "position 2"], longest: int
) -> Span:
    """The best span of at most `longest` tokens in a window's part of the context, of whole words where the window has
    one."""
    begins, ends = logits[window.first : window.first + len(window.part)].unbind(-1)
    scores = begins[:, None] + ends[None, :]
    allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(longest - 1)
    cut = [
        [is_inside_word(context, place) for place in sides]
        for sides in zip(*window.offsets, strict=True)
    ]
    full = allowed & ~torch.tensor(cut[0])[:, None] & ~torch.tensor(cut[1])
    flat = scores.masked_fill(~(full if full.any() else allowed), -torch.inf).flatten()
    at = int(flat.argmax())
    begin, end = divmod(at, len(ends))
    return Span(
        window.offsets[begin][0],
        window.offsets[end][1],
        float(flat[at]),
        float(logits[0].sum()),
    )


def best(result: Sequence[Span]) -> Span:
    """Return the best span over a question's windows.

    `none` is the least over the windows.
    """
    chosen = max(result, key=lambda item: item.score)
    return Span(
        chosen.start, chosen.end, chosen.score, min(example.none for example in result)
    )


def split_windows(
    questions: Sequence[Question], tokenizer: Tokenizer, config: ExtractiveQA
) -> WindowedQuestions:
    """Return questions in windows of the run's model.

    Raises:
        InputError: As `Cutter.windows` does.
    """
    cutter = cutter_of(tokenizer, config)
    return with_windows(
        [(question, cutter.windows(question)) for question in questions], cutter, config
    )


def with_windows(
    result: Sequence[tuple[Question, Sequence[Window]]],
    cutter: Cutter,
    config: ExtractiveQA,
) -> WindowedQuestions:
    """Return questions with the windows that the cutter makes of them."""
    margin = config.margin if config.data.unanswerable else None
    questions, windows = [item for item, _ in result], [cut for _, cut in result]
    return WindowedQuestions(questions, windows, cutter, config.longest_answer, margin)


def cutter_of(tokenizer: Tokenizer, config: ExtractiveQA) -> Cutter:
    """Return what cuts questions for the run's model."""
    reader = config.reader
    characters = reader.characters if isinstance(reader, SpanReaderConfig) else 0
    form = FORMS[SPAN_MODELS[reader.name].form](tokenizer.special, characters)
    assert reader.context is not None  # known once the model is built
    return Cutter(tokenizer, form, reader.context, config.longest_question)


def setup(config: ExtractiveQA, folder: RunDirectory, processes: int) -> Setup:
    """Read the questions and build tokenizer, model and objective.

    A tokenizer in the folder is reused.

    Raises:
        InputError: the questions or the model are invalid.
    """
    splits = config.data.load()
    texts = QuestionTexts(splits.train)
    extra = (
        ()
        if config.vectors is None
        else add_vector_texts(config.vectors, list(texts), folder)
    )
    tokenizer = load_or_train(folder, config.tokenizer_settings, extra or texts)
    model = build_span_model(config.reader, tokenizer.size)
    initialize_word_vectors(model, config.vectors, tokenizer, extra, folder)
    cutter = cutter_of(tokenizer, config)
    splits, windows, valid = _cut(config, splits, cutter)
    return Setup(
        model,
        ExtractiveQAObjective(
            windows, with_windows(valid, cutter, config), config.training
        ),
        digest_splits(splits, _written),
        f"{len(splits.train):,} questions to train on, in {len(windows.items):,} windows, {len(splits.valid):,} to "
        f"validate, {len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} "
        "parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        fresh=("output.",),
        data=summary(config, splits, tokenizer),
    )


def _cut(
    config: ExtractiveQA, splits: Splits[Question], cutter: Cutter
) -> tuple[Splits[Question], Chunks[Window], Sequence[tuple[Question, list[Window]]]]:
    """The usable questions of all sets, the training windows, and the validation questions with theirs."""

    def cut(item: Question) -> tuple[Question, list[Window]]:
        return item, cutter.windows(item)

    if isinstance(splits.train, CachedSet):
        read = convert_sets(replace(splits, train=()), cut, config.data)
        train, windows = window_pieces(splits.train, cutter, config.data)
    else:
        read = convert_sets(splits, cut, config.data)
        train, windows = (
            [example for example, _ in read.train],
            kept_windows([group for _, group in read.train]),
        )
    return (
        Splits(
            train, *([entry for entry, _ in value] for value in (read.valid, read.test))
        ),
        windows,
        read.valid,
    )


def _written(item: Question) -> str:
    return f"{item.question}\0{item.context}\0{item.answers}\n"


def _context_of(item: Question) -> str:
    return item.context


def summary(
    config: ExtractiveQA, splits: Splits[Question], tokenizer: Tokenizer
) -> DataSummary:
    """Return the questions before training, their contexts and answers."""
    unknown = measure_unknown_shares(
        tokenizer,
        {name: LazyMap(group, _context_of) for name, group in splits.named.items()},
    )
    first, questions = splits.train[0], sample_evenly(splits.train)
    answer = first.answers[0].text if first.answers else "none"
    example = {"question": first.question, "context": first.context, "answer": answer}
    texts = {
        "question": [item.question for item in questions],
        "context": [entry.context for entry in questions],
        "answer": [value.answers[0].text for value in questions if value.answers],
    }
    left_out = _left_out(config, splits)
    return DataSummary(
        unit="questions",
        rows={
            name: replace(
                each,
                origin=f"{each.origin}; {left_out[name][0]:,} without an answer are left out",
            )
            if name in left_out
            else each
            for name, each in describe_rows(config.data, splits).items()
        },
        lengths={
            name: measure_text_lengths(tokenizer, result)
            for name, result in texts.items()
            if result
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        example={
            name: describe_tokens(tokenizer, tokenizer.encode(text))
            for name, text in example.items()
        },
        request=request_of(question=first.question, context=first.context),
        warnings=(
            *_warn_unanswered(left_out),
            *warn_repeated(
                config.data, splits, lambda each: (each.question, each.context)
            ),
            *warn_unknown(tokenizer, unknown),
        ),
    )


def _left_out(
    config: ExtractiveQA, splits: Splits[Question]
) -> dict[str, tuple[int, int]]:
    """How many questions have no answer and are left out, of how many, for each set whose files have some."""
    data = config.data
    if data.unanswerable:
        return {}
    result = {
        "train": cache_value(
            splits.train, "without answer", lambda: data.without_answer(data.train)
        )
    }
    result |= {
        "valid": data.without_answer(data.valid),
        "test": data.without_answer(data.test),
    }
    return {
        name: (count, entries) for name, (count, entries) in result.items() if count
    }


def _warn_unanswered(left_out: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return a warning for each set with questions that are left out."""
    remedy = "have no answer and are left out; data.unanswerable=true keeps them"
    return [
        f"{count:,} of {entries:,} ({100 * count / entries:.3g} %) questions of {name} {remedy}"
        for name, (count, entries) in left_out.items()
    ]
