"""Training of language models: windows of text, the loss and the set-up.

Batches are pure functions of the seed and the epoch. Every epoch cuts the text at other
positions. The first token is input only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor, nn

from regard.data import order
from regard.data.batches import Batch, batch_rows
from regard.errors import InputError
from regard.models.catalog import build_language_model
from regard.models.language_model import LanguageModel
from regard.shapes import Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup, check_beam, digest_splits, setup_task
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.likelihood import (
    TokenStream,
    describe_convention,
    measure_texts,
    token_stream,
)
from regard.tasks.summary import summarize_text
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import Tokenizer
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training


@dataclass(frozen=True, repr=False)
class WindowBatch(Batch):
    """Windows of a text, and the next token at each position."""

    inputs: Int[Tensor, "batch position"]
    expected: Int[Tensor, "batch position"]
    fresh: bool = True
    """Whether it starts from an empty state, or continues the batch before."""


@dataclass(frozen=True)
class Windows:
    """Batches of `rows` windows, `size` tokens long, of a text of tokens."""

    tokens: TokenStream | Tensor
    size: int
    rows: int
    seed: int

    def __post_init__(self) -> None:
        needed = self.rows * self.size + 1
        count = len(self.tokens)
        if count < needed:
            raise InputError(
                f"training text: shorter than one batch: needed {needed} tokens "
                f"({self.rows} x {self.size} and one), found {count}; add text, or lower "
                "training.batch_tokens or window"
            )

    def sample_start(self, epoch: int, rows: int) -> int:
        """Sample where an epoch's first window starts, which leaves `rows` windows."""
        spare = max(0, len(self.tokens) - 1 - rows * self.size)
        random = Random(f"{self.seed}/{epoch}")
        return random.randrange(min(self.size, spare + 1))

    def cut(self, starts: Sequence[int], length: int, *, fresh: bool) -> WindowBatch:
        """Return windows of `length` tokens that begin at `starts`."""
        rows = [self.tokens[start : start + length + 1] for start in starts]
        windows = torch.stack(rows)
        return WindowBatch(windows[:, :-1], windows[:, 1:], fresh)


class Shuffled(Windows):
    """Windows in random order, each independent."""

    def batches(self, epoch: int) -> order.Order:
        first = self.sample_start(epoch, self.rows)
        count = (len(self.tokens) - 1 - first) // self.size
        return order.Shuffled(count, self.rows, f"{self.seed}/{epoch}")

    def batch(self, epoch: int, examples: Sequence[int]) -> WindowBatch:
        first = self.sample_start(epoch, self.rows)
        starts = [first + example * self.size for example in examples]
        return self.cut(starts, self.size, fresh=True)


@dataclass(frozen=True)
class Consecutive(Windows):
    """The text in as many parts as all `processes` have rows, each read in order.

    A batch continues the one before it of the same process. The last batch of an epoch
    may be shorter.
    """

    processes: int = 1

    def divide(self, epoch: int) -> tuple[int, int]:
        """Return the start of an epoch's first part, and the length of each part."""
        parts = self.rows * self.processes
        first = self.sample_start(epoch, parts)
        return first, (len(self.tokens) - 1 - first) // parts

    def batches(self, epoch: int) -> order.Order:
        _, length = self.divide(epoch)
        count = -(-length // self.size) * self.processes
        return order.Consecutive(count, self.rows)

    def batch(self, epoch: int, examples: Sequence[int]) -> WindowBatch:
        first, length = self.divide(epoch)
        parts = self.rows * self.processes
        done = examples[0] // parts * self.size
        starts = [first + example % parts * length + done for example in examples]
        return self.cut(starts, min(self.size, length - done), fresh=not done)


class LanguageModelObjective:
    """Maximum likelihood of each token given those before it."""

    metric = "perplexity"
    higher_is_better = False

    def __init__(
        self,
        windows: Shuffled | Consecutive,
        valid: Sequence[str],
        tokenizer: Tokenizer,
        settings: Training,
    ):
        self.windows = windows
        self.valid = valid
        self.tokenizer = tokenizer
        self.settings = settings

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return self.windows.batches(epoch)

    def batch(self, epoch: int, indices: list[int]) -> WindowBatch:
        return self.windows.batch(epoch, indices)

    def loss(
        self, model: nn.Module, batch: WindowBatch, update: int, carried: Carried | None
    ) -> Loss:
        assert isinstance(model, LanguageModel)
        state = model.begin(len(batch.inputs))
        if carried is not None and not batch.fresh:
            state = type(state)(**carried)
        features, state = model.run(batch.inputs, state)
        smoothing = self.settings.label_smoothing
        total, _ = model.output.loss(features, batch.expected, smoothing)
        after = model.detach_state(state)
        tensors = None if after is None else after.tensors()
        return Loss(total, batch.expected.numel(), tensors)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, LanguageModel)
        return measure_texts(model, self.tokenizer, self.valid)


def make_windows(
    tokens: TokenStream | Tensor,
    model: LanguageModel,
    settings: Training,
    window: int,
    processes: int,
) -> Shuffled | Consecutive:
    """Cut the training text: in order for a model with a carried state, else shuffled.

    Raises:
        InputError: The text is too short, or the window is not the model's context.
    """
    fits = model.context is None or (model.shorter_windows and window < model.context)
    if not fits and model.context != window:
        raise InputError(
            f"window is {window} and the model's context {model.context}; make them equal, "
            "so that all of its positions are trained and no others are used"
        )
    reason = f"the training text of {len(tokens):,} tokens is shorter than one batch"
    parts = (len(tokens) - 1) // window
    rows = batch_rows(parts, window, settings.batch_tokens, reason)
    if model.detach_state(model.begin(1)) is None:
        return Shuffled(tokens, window, rows, settings.seed)
    return Consecutive(tokens, window, rows, settings.seed, processes)


def setup(config: LanguageModelling, folder: RunDirectory, processes: int) -> Setup:
    """Read the text and build tokenizer, model and objective.

    Raises:
        InputError: The text, the model or the search is invalid.
    """
    splits = config.data.load()
    settings = config.training
    tokenizer = load_or_train(folder, config.tokenizer_settings, splits.train)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    model = build_language_model(config.model, tokenizer.size, tokenizer.special)
    tokens = token_stream(tokenizer, splits.train)
    windows = make_windows(tokens, model, settings, config.window, processes)
    return setup_task(
        model,
        LanguageModelObjective(windows, splits.valid, tokenizer, settings),
        splits,
        digest_splits(splits, "{}\n".format),
        summarize_text(config.data, splits, tokenizer),
        details=[
            f"{len(tokens):,} tokens",
            f"a vocabulary of {tokenizer.size:,}",
            describe_convention(model),
        ],
        tokenizers={TOKENIZER: tokenizer},
    )
