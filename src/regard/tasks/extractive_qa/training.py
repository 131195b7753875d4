"""Training of extractive question answering: windows in batches, the loss, the best spans and the metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.pieces import Pieces
from regard.data.squad import Question
from regard.data.token_batches import batch_size, token_batches
from regard.metrics.text import METRICS, TextMetricName
from regard.models.catalog import SPAN_MODELS
from regard.models.span_reader import SpanReaderConfig
from regard.shapes import Float, Int
from regard.tasks.extractive_qa.config import ExtractiveQA
from regard.tasks.extractive_qa.data import FORMS, Cutter, SpanBatch, Window
from regard.text import Tokenizer
from regard.text.words import is_inside_word
from regard.training.objective import Carried, Loss
from regard.training.settings import Training
from regard.work import computed

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
    """The cross-entropy of an answer's first and last position; both are 0 in a window without the answer."""

    metric, higher_is_better = "f1", True

    def __init__(
        self, train: Pieces[Window], valid: "WindowedQuestions", settings: Training
    ):
        """Raises InputError for no windows."""
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
        return self.valid.figures(model)


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
        """The best span for each question."""
        each = zip(self.questions, self.windows, strict=True)
        flat = [
            (question.context, window) for question, some in each for window in some
        ]

        def spans(first: int) -> list[Span]:
            some = flat[first : first + ROWS]
            logits = self.logits(model, [window for _, window in some]).cpu()
            return [
                best_span(*part, row, self.longest)
                for part, row in zip(some, logits, strict=True)
            ]

        left = chain.from_iterable(computed(spans, range(0, len(flat), ROWS)))
        return [best([next(left) for _ in some]) for some in self.windows]

    def logits(
        self, model: nn.Module, some: Sequence[Window]
    ) -> Float[Tensor, "window position 2"]:
        """The logits of an answer's first and last token at each position of some windows."""
        return model(
            *self.cutter.form.collate(some).to(next(model.parameters()).device).inputs
        )

    def texts(self, answers: Sequence[Span]) -> list[str]:
        """The texts of spans; empty where no answer is likelier."""
        found = [
            question.context[each.start : each.end]
            for question, each in zip(self.questions, answers, strict=True)
        ]
        if self.margin is None:
            return found
        return [
            "" if each.none + self.margin >= each.score else text
            for text, each in zip(found, answers, strict=True)
        ]

    def figures(self, model: nn.Module) -> dict[str, float]:
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
    whole = allowed & ~torch.tensor(cut[0])[:, None] & ~torch.tensor(cut[1])
    flat = scores.masked_fill(
        ~(whole if whole.any() else allowed), -torch.inf
    ).flatten()
    at = int(flat.argmax())
    begin, end = divmod(at, len(ends))
    return Span(
        window.offsets[begin][0],
        window.offsets[end][1],
        float(flat[at]),
        float(logits[0].sum()),
    )


def best(found: Sequence[Span]) -> Span:
    """The best span over a question's windows; `none` is the least over the windows."""
    chosen = max(found, key=lambda each: each.score)
    return Span(
        chosen.start, chosen.end, chosen.score, min(each.none for each in found)
    )


def windowed(
    questions: Sequence[Question], tokenizer: Tokenizer, config: ExtractiveQA
) -> WindowedQuestions:
    """Questions in windows of the run's model. Raises InputError as `Cutter.windows` does."""
    cutter = cutter_of(tokenizer, config)
    return with_windows(
        [(each, cutter.windows(each)) for each in questions], cutter, config
    )


def with_windows(
    found: Sequence[tuple[Question, Sequence[Window]]],
    cutter: Cutter,
    config: ExtractiveQA,
) -> WindowedQuestions:
    """Questions with the windows that the cutter makes of them."""
    margin = config.margin if config.data.unanswerable else None
    questions, windows = [each for each, _ in found], [cut for _, cut in found]
    return WindowedQuestions(questions, windows, cutter, config.longest_answer, margin)


def cutter_of(tokenizer: Tokenizer, config: ExtractiveQA) -> Cutter:
    """What cuts questions for the run's model."""
    reader = config.reader
    characters = reader.characters if isinstance(reader, SpanReaderConfig) else 0
    form = FORMS[SPAN_MODELS[reader.name].form](tokenizer.special, characters)
    return Cutter(tokenizer, form, reader.context, config.longest_question)
