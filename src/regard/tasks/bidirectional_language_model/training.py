"""Language modelling in both directions: texts to batches, a loss, and the perplexities of held-out text."""

import torch
from torch import nn

from regard.data.batching import token_batches
from regard.metrics.perplexity import perplexity
from regard.models.elmo import Elmo
from regard.tasks.bidirectional_language_model.char_words import SpelledBatch, SpelledTexts
from regard.text.special import IGNORED
from regard.training.objective import Carried, Loss
from regard.training.settings import Training


class BidirectionalObjective:
    """Maximum likelihood of each word given those before it, and of each given those behind it."""

    metric, higher_is_better = "perplexity", False

    def __init__(self, train: SpelledTexts, valid: SpelledTexts, settings: Training):
        self.train, self.valid, self.settings = train, valid, settings

    def batches(self, epoch: int) -> list[list[int]]:
        return cut(self.train, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> SpelledBatch:
        return self.train.batch(indices)

    def loss(self, model: nn.Module, batch: SpelledBatch, update: int, carried: Carried | None = None) -> Loss:
        (forward, _), (backward, _) = model(
            batch.characters, batch.lengths, expected=batch.tokens, smoothing=self.settings.label_smoothing
        )
        return Loss(forward + backward, 2 * told(batch))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Elmo)
        return figures(model, self.valid, self.settings.batch_tokens)


def cut(texts: SpelledTexts, tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """An epoch's batches of parts of texts."""
    return token_batches([(length, length) for length in texts.lengths], tokens, seed, epoch)


def told(batch: SpelledBatch) -> int:
    """How many words each direction tells."""
    return int((batch.tokens[:, 1:] != IGNORED).sum())


@torch.no_grad()
def figures(model: Elmo, texts: SpelledTexts, tokens: int) -> dict[str, float]:
    """How well words, and the ends of texts, are told: forward-perplexity from what is before them, backward-perplexity
    from what is behind them (there the beginnings of texts count), perplexity from the mean loss of both."""
    device = next(model.parameters()).device
    count, forward, backward = 0, 0.0, 0.0
    for examples in cut(texts, tokens, 0, 0):
        batch = texts.batch(examples).to(device)
        (ahead, _), (back, _) = model(batch.characters, batch.lengths, expected=batch.tokens)
        forward, backward, count = forward + float(ahead), backward + float(back), count + told(batch)
    return {
        "perplexity": perplexity((forward + backward) / (2 * count)),
        "forward-perplexity": perplexity(forward / count),
        "backward-perplexity": perplexity(backward / count),
    }
