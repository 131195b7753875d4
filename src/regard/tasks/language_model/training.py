"""Training of language models: windows of text, the loss and the set-up.

Batches are pure functions of the seed and the epoch. Every epoch cuts the text at other
positions. The first token is input only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.data import order
from regard.data.batches import Batch, batch_rows
from regard.errors import InputError
from regard.models.catalog import build_language_model
from regard.models.language_model import LanguageModel
from regard.shapes import Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    TOKENIZER,
    Setup,
    check_beam,
    digest_splits,
    load_or_train,
    setup_task,
)
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.likelihood import (
    TokenStream,
    describe_convention,
    measure_texts,
    token_stream,
)
from regard.tasks.summary import summarize_text
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
    """Windows, `size` tokens long, of a text of tokens, of which a batch has `rows`."""

    tokens: TokenStream | Tensor
    size: int
    rows: int
    seed: int
    processes: int = 1

    def divide(self, epoch: int) -> tuple[int, int]:
        """Sample where an epoch's first window starts; return it and the tokens left.

        They are enough for a window in each row of all processes.
        """
        count = len(self.tokens) - 1
        spare = max(0, count - self.rows * self.processes * self.size)
        first = Random(f"{self.seed}/{epoch}").randrange(min(self.size, spare + 1))
        return first, count - first

    def cut(self, starts: Sequence[int], length: int, *, fresh: bool) -> WindowBatch:
        """Return windows of `length` tokens that begin at `starts`."""
        rows = [self.tokens[start : start + length + 1] for start in starts]
        windows = torch.stack(rows)
        return WindowBatch(windows[:, :-1], windows[:, 1:], fresh)


class Shuffled(Windows):
    """Windows in random order, each independent."""

    def batches(self, epoch: int) -> order.Order:
        _, count = self.divide(epoch)
        name = f"{self.seed}/{epoch}"
        return order.Shuffled(count // self.size, self.rows, name)

    def batch(self, epoch: int, indices: Sequence[int]) -> WindowBatch:
        first, _ = self.divide(epoch)
        starts = [first + index * self.size for index in indices]
        return self.cut(starts, self.size, fresh=True)


class Consecutive(Windows):
    """The text in as many parts as all `processes` have rows, each read in order.

    A batch continues the one before it of the same process. The last batch of an epoch
    may be shorter.
    """

    def batches(self, epoch: int) -> order.Order:
        _, count = self.divide(epoch)
        length = count // (self.rows * self.processes)
        return order.Consecutive(-(-length // self.size) * self.processes, self.rows)

    def batch(self, epoch: int, indices: Sequence[int]) -> WindowBatch:
        first, count = self.divide(epoch)
        parts = self.rows * self.processes
        length = count // parts
        done = indices[0] // parts * self.size
        starts = [first + index % parts * length + done for index in indices]
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
        self.batches = windows.batches
        self.batch = windows.batch
        self.valid = valid
        self.tokenizer = tokenizer
        self.settings = settings

    def loss(
        self, model: Any, batch: WindowBatch, update: int, carried: Carried | None
    ) -> Loss:
        state = model.begin(len(batch.inputs))
        if carried is not None and not batch.fresh:
            state = type(state)(**carried)
        features, state = model.run(batch.inputs, state)
        smoothing = self.settings.label_smoothing
        total, _ = model.output.loss(features, batch.expected, smoothing)
        after = model.detach_state(state)
        tensors = None if after is None else after.parts()
        return Loss(total, batch.expected.numel(), tensors)

    def validate(self, model: Any) -> dict[str, float]:
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
    parts = (len(tokens) - 1) // window
    if not parts:
        raise InputError(
            f"training text: shorter than one batch: needed {window + 1} tokens, found "
            f"{len(tokens)}; add text or lower window"
        )
    reason = f"the training text of {len(tokens):,} tokens is shorter than one batch"
    rows = batch_rows(parts, window, settings.batch_tokens, reason)
    if model.detach_state(model.begin(1)) is None:
        return Shuffled(tokens, window, rows, settings.seed)
    return Consecutive(
        tokens,
        window,
        rows,
        settings.seed,
        processes,
    )


def setup(config: LanguageModelling, folder: RunDirectory, processes: int) -> Setup:
    """Read the text and build tokenizer, model and objective.

    Raises:
        InputError: The text, the model or the search is invalid.
    """
    splits = config.data.load()
    settings = config.training
    assert config.tokenizer is not None
    tokenizer = load_or_train(folder, config.tokenizer, splits.train)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    model = build_language_model(config.model, tokenizer.size, tokenizer.special)
    tokens = token_stream(tokenizer, splits.train)
    windows = make_windows(
        tokens,
        model,
        settings,
        config.window,
        processes,
    )
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
