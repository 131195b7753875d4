"""Language modelling in both directions: texts to batches, a loss, and the perplexities of held-out text."""

import torch
from torch import Tensor, nn

from regard.data.batching import token_batches
from regard.data.char_words import SpelledBatch, SpelledTexts
from regard.metrics.perplexity import perplexity
from regard.models.elmo import Elmo
from regard.shapes import Float
from regard.text.special import IGNORED
from regard.training.objective import Carried, Loss
from regard.training.settings import Training

Losses = tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]


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
        assert isinstance(model, Elmo)
        (forward, _), (backward, _) = losses(model, batch, self.settings.label_smoothing)
        words = count_words(batch)
        return Loss(forward + backward, 2 * words, read=words)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Elmo)
        return figures(model, self.valid, self.settings.batch_tokens)


def losses(model: Elmo, batch: SpelledBatch, smoothing: float = 0.0) -> tuple[Losses, Losses]:
    """The losses of each word given those before it, and of each given those behind it, as `Output.loss` returns
    them."""
    assert model.output is not None
    ahead, back = model.features(batch.characters, batch.lengths)
    after, before = batch.tokens[:, 1:], batch.tokens[:, :-1].where(batch.tokens[:, 1:] != IGNORED, IGNORED)
    return model.output.loss(ahead, after, smoothing), model.output.loss(back, before, smoothing)


def cut(texts: SpelledTexts, tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """An epoch's batches of parts of texts."""
    return token_batches([(length, length) for length in texts.lengths], tokens, seed, epoch)


def count_words(batch: SpelledBatch) -> int:
    """The number of words that each direction predicts."""
    return int((batch.tokens[:, 1:] != IGNORED).sum())


@torch.no_grad()
def figures(model: Elmo, texts: SpelledTexts, tokens: int) -> dict[str, float]:
    """The perplexity of words and ends of texts: forward-perplexity given the words before, backward-perplexity given
    the words behind (which counts the beginnings of texts), perplexity of the mean loss of both."""
    device = next(model.parameters()).device
    count, forward, backward = 0, 0.0, 0.0
    for examples in cut(texts, tokens, 0, 0):
        batch = texts.batch(examples).to(device)
        (ahead, _), (back, _) = losses(model, batch)
        forward, backward, count = forward + float(ahead), backward + float(back), count + count_words(batch)
    return {
        "perplexity": perplexity((forward + backward) / (2 * count)),
        "forward-perplexity": perplexity(forward / count),
        "backward-perplexity": perplexity(backward / count),
    }
