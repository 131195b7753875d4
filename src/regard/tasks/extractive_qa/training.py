"""The training on windows of questions, and the answers that logits give."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.cache import Chunks, JsonCodec, split_into_chunks
from regard.data.questions import Question
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.errors import InputError
from regard.metrics import METRICS
from regard.models.catalog import build_span_model
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    Setup,
    TextBatch,
    TokenBatchObjective,
    digest_splits,
    setup_task,
)
from regard.tasks.extractive_qa.data import (
    ExtractiveQA,
    Questions,
    Window,
    WindowSplitter,
)
from regard.tasks.fine_tuning import initialize_word_vectors
from regard.tasks.summary import DataSummary, request_of, summarize_texts
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer
from regard.text.words import is_inside_word
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches

ROWS = 32
"""Windows in one batch of inference."""
Asked = tuple[Question, Sequence[Window]]
"""A question with all its windows."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Span:
    """An answer: characters `start` to `end` of the context."""

    start: int
    end: int
    score: float
    """The sum of the logits of its first and last token."""
    none: float
    """The same score for no answer."""


@dataclass(frozen=True)
class SpanFinder:
    """A model that finds answers in windows."""

    model: nn.Module
    splitter: WindowSplitter

    def logits(self, windows: Sequence[Window]) -> Float[Tensor, "window position 2"]:
        """Compute the logits of an answer's first and last token at each position."""
        device = next(self.model.parameters()).device
        return self.model(*self.splitter.collate(windows).to(device).inputs)

    @torch.no_grad()
    def find(self, questions: Sequence[Asked]) -> list[Span]:
        """Return the best span for each question."""
        pairs = [(asked, window) for asked, group in questions for window in group]

        def find_spans(first: int) -> list[Span]:
            group = pairs[first : first + ROWS]
            logits = self.logits([window for _, window in group]).cpu()
            return [
                self.best_span(question.context, window, row)
                for (question, window), row in zip(group, logits, strict=True)
            ]

        batches = compute_batches(find_spans, range(0, len(pairs), ROWS))
        spans = chain.from_iterable(batches)
        return [best([next(spans) for _ in windows]) for _, windows in questions]

    def best_span(
        self, context: str, window: Window, logits: Float[Tensor, "position 2"]
    ) -> Span:
        """Return the best span of a window's part, of whole words where it has one."""
        first = self.splitter.first(window)
        longest = self.splitter.config.longest_answer
        begins, ends = logits[first : first + len(window.part)].unbind(-1)
        scores = begins[:, None] + ends[None, :]
        allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(longest - 1)
        cuts_begin = []
        cuts_end = []
        for begin, end in window.offsets:
            cuts_begin.append(is_inside_word(context, begin))
            cuts_end.append(is_inside_word(context, end))
        complete = (
            allowed & ~torch.tensor(cuts_begin)[:, None] & ~torch.tensor(cuts_end)
        )
        if complete.any():
            allowed = complete
        scores.masked_fill_(~allowed, -torch.inf)
        begin, end = divmod(int(scores.argmax()), len(ends))
        return Span(
            window.offsets[begin][0],
            window.offsets[end][1],
            float(scores[begin, end]),
            float(logits[0].sum()),
        )

    def texts(self, questions: Sequence[Asked], spans: Sequence[Span]) -> list[str]:
        """Return the texts of spans; empty where no answer is likelier."""
        config = self.splitter.config
        texts = []
        for (question, _), span in zip(questions, spans, strict=True):
            empty = config.data.unanswerable and span.none + config.margin >= span.score
            texts.append("" if empty else question.context[span.start : span.end])
        return texts

    def compute_metrics(self, questions: Sequence[Asked]) -> dict[str, float]:
        """Return exact match and F1, each the best over a question's answers, in percent."""
        outputs = self.texts(questions, self.find(questions))
        references = [
            tuple(answer.text for answer in question.answers) or ("",)
            for question, _ in questions
        ]
        return {
            "f1": METRICS["squad-f1"](outputs, references),
            "exact-match": METRICS["squad-exact-match"](outputs, references),
        }


def best(spans: Sequence[Span]) -> Span:
    """Return the best span over a question's windows, with the least `none` of them."""
    chosen = max(spans, key=lambda span: span.score)
    return replace(chosen, none=min(span.none for span in spans))


class ExtractiveQAObjective(TokenBatchObjective[Window, TextBatch]):
    """The cross-entropy of an answer's first and last position."""

    metric = "f1"
    higher_is_better = True

    def __init__(
        self,
        train: Chunks[Window],
        valid: Sequence[Asked],
        splitter: WindowSplitter,
        settings: Training,
    ):
        """Raise InputError for no windows."""
        self.splitter = splitter
        super().__init__(train, valid, settings, train.sides, "windows")

    def collate(self, examples: Sequence[Window]) -> TextBatch:
        return self.splitter.collate(examples)

    def loss(
        self,
        model: nn.Module,
        batch: TextBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        loss = span_loss(model(*batch.inputs), batch.targets)
        return Loss(loss, len(batch.targets), read=batch.size)

    def validate(self, model: nn.Module) -> dict[str, float]:
        return SpanFinder(model, self.splitter).compute_metrics(self.valid)


def span_loss(
    logits: Float[Tensor, "batch position 2"], answers: Int[Tensor, "batch 2"]
) -> Float[Tensor, ""]:
    """Return the mean of the cross-entropies of both positions, summed over the batch."""
    return functional.cross_entropy(logits, answers, reduction="sum") / 2


def window_to_json(window: Window) -> list[Any]:
    """Return a window without its offsets, which training does not need."""
    words = [tensor.tolist() for tensor in window.words]
    return [window.question, window.part, window.answer, words]


def window_of_json(value: Any) -> Window:
    """Return the window of values that `window_to_json` gives."""
    question, part, answer, words = value
    return Window(question, part, (), tuple(answer), tuple(map(torch.tensor, words)))


def split_training_set(
    questions: Sequence[Question], splitter: WindowSplitter, data: Questions
) -> Chunks[Window]:
    """Split the training questions, those on disk once.

    Raises:
        InputError: A question has no window; with `skip_bad` it is counted.
    """

    def split(question: Question) -> list[Window]:
        try:
            return splitter.split(question)
        except InputError:
            if not data.skip_bad:
                raise
            return []

    config = splitter.config
    name = f"windows of {splitter.tokenizer.digest} {config.reader} {data.skip_bad}"
    name += f" {config.longest_question}"
    codec = JsonCodec(window_to_json, window_of_json)
    chunks = split_into_chunks(questions, name, split, splitter.length, codec)
    missing = len(questions) - len(np.unique(chunks.owners))
    if missing:
        log.warning("%s questions have no window and are left out", f"{missing:,}")
    return chunks


def setup(config: ExtractiveQA, folder: RunDirectory, processes: int) -> Setup:
    """Read the questions and build tokenizer, model and objective.

    Raises:
        InputError: The questions or the model are invalid.
    """
    splits = config.data.load()
    tokenizer, texts = config.build_tokenizer(folder, splits.train, read_texts)
    model = build_span_model(config.reader, tokenizer.size)
    initialize_word_vectors(model, config.vectors, tokenizer, texts, folder)
    splitter = WindowSplitter(tokenizer, config)
    held_out = convert_sets(
        replace(splits, train=()),
        lambda question: (question, splitter.split(question)),
        config.data,
    )
    valid = held_out.valid
    test = [question for question, _ in held_out.test]
    windows = split_training_set(splits.train, splitter, config.data)
    splits = Splits(splits.train, [question for question, _ in valid], test)
    return setup_task(
        model,
        ExtractiveQAObjective(windows, valid, splitter, config.training),
        splits,
        digest_splits(splits, describe_question),
        summarize(config, splits, tokenizer),
        counts=[f"in {len(windows):,} windows"],
        details=[f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
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


def describe_question(question: Question) -> str:
    """Return a line that identifies a question, for the digest of the data."""
    return f"{question.question}\0{question.context}\0{question.answers}\n"


def summarize(
    config: ExtractiveQA, splits: Splits[Question], tokenizer: Tokenizer
) -> DataSummary:
    """Summarize the questions and their contexts."""
    first = splits.train[0]
    warnings = []
    data = config.data
    for name in () if data.unanswerable else splits.by_name:
        count, total = data.without_answer(getattr(data, name))
        if count:
            share = f"{count:,} of {total:,} ({100 * count / total:.3g} %)"
            warnings.append(
                f"{share} questions of {name} have no answer and are left out; "
                "data.unanswerable=true keeps them"
            )
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
    )
    request = request_of(question=first.question, context=first.context)
    return replace(summary, request=request)
