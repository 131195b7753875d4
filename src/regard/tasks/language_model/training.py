"""Language modelling: windows of running text to batches, a loss, and the perplexity of held-out text."""

import logging
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.data.token_batches import batch_rows
from regard.errors import InputError
from regard.metrics.perplexity import perplexity
from regard.models.language_model import LanguageModel
from regard.tasks.language_model.batch import (
    Consecutive,
    Shuffled,
    Tokens,
    WindowBatch,
    Windows,
)
from regard.tasks.language_model.cache import Cache
from regard.tasks.language_model.likelihood import losses
from regard.text import Tokenizer
from regard.training.objective import Carried, Loss
from regard.training.settings import Training

log = logging.getLogger("regard")


class LanguageModelObjective:
    """Maximum likelihood of each token given those before it."""

    metric, higher_is_better = "perplexity", False

    def __init__(
        self,
        windows: Windows,
        valid: Sequence[str],
        tokenizer: Tokenizer,
        settings: Training,
        model: LanguageModel,
    ):
        self.windows, self.valid, self.tokenizer, self.settings = (
            windows,
            valid,
            tokenizer,
            settings,
        )
        self.model = model

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
        total, _ = model.output.loss(
            features, batch.expected, self.settings.label_smoothing
        )
        after = model.carried(state)
        return Loss(
            total, batch.expected.numel(), None if after is None else after.tensors()
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, LanguageModel)
        return figures(model, self.tokenizer, self.valid)


def running(tokenizer: Tokenizer, texts: Sequence[str]) -> Tensor:
    """The tokens of consecutive texts, `(position,)`, END behind each and one END before all."""
    end = tokenizer.special.end
    ids = [end]
    for text in texts:
        ids += [*tokenizer.encode(text), end]
    return torch.tensor(ids)


def make_windows(
    tokens: Tokens,
    model: LanguageModel,
    settings: Training,
    window: int,
    processes: int,
) -> Windows:
    """The windows of the training text: consecutive for a model with a carried state, else shuffled.

    Raises:
        InputError: the text is too short, or the window is not the model's context.
    """
    if model.context not in (None, window):
        raise InputError(
            f"window is {window} and the model's context {model.context}; make them equal, so that all of its "
            "positions are trained and no others are used"
        )
    rows = rows_of(len(tokens), window, settings.batch_tokens)
    if model.carried(model.begin(1)) is None:
        return Shuffled(tokens, window, rows, settings.seed)
    return Consecutive(tokens, window, rows, settings.seed, processes)


def rows_of(tokens: int, window: int, most: int) -> int:
    """The windows of a batch of at most `most` tokens, or a quarter of those of a text that is shorter than one."""
    reason = f"the training text of {tokens:,} tokens is shorter than one batch"
    return batch_rows((tokens - 1) // window, window, most, reason)


def convention(model: LanguageModel) -> str:
    """The convention of the metrics, in a line."""
    read = (
        "what was read is carried on from text to text"
        if model.context is None
        else f"read in windows of {model.context} that overlap by half"
    )
    return f"perplexity counts every token and the end of every text, the last window too; {read}"


def figures(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    cache: Cache | None = None,
    *,
    counted: bool = False,
) -> dict[str, float]:
    """The perplexity of consecutive texts, over all tokens and the ends of texts.

    loss: natural logarithm, a token. perplexity: exp(loss). word_perplexity: of words between blanks, and ends of
    texts, whatever the tokens are. bits_per_character: characters and ends of texts. If `counted`, the log has the
    number of tokens.
    """
    found = losses(model, running(tokenizer, texts), cache).double()
    total, tokens = float(found.sum()), len(found)
    if counted:
        log.info("scored: %s tokens, the ends of texts included", f"{tokens:,}")
    words = sum(len(text.split()) + 1 for text in texts)
    characters = sum(len(text) + 1 for text in texts)
    return {
        "perplexity": perplexity(total / tokens),
        "loss": total / tokens,
        "word_perplexity": perplexity(total / words),
        "bits_per_character": total / characters / math.log(2),
    }
