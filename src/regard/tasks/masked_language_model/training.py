"""Training of masked language models: documents to batches, the loss and the metrics."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from regard.data.token_batches import token_batches
from regard.metrics.perplexity import perplexity
from regard.models.bert import Bert
from regard.tasks.masked_language_model.data import Document
from regard.tasks.masked_language_model.masking import MaskedBatch, MaskedTexts, Masking
from regard.text import Tokenizer
from regard.text.word_piece import INSIDE
from regard.training.objective import Carried, Loss
from regard.training.settings import Training
from regard.work import computed

SPACES = ("Ġ", "▁")
"""How entries begin that have the space before them: of byte pairs, and of SentencePiece."""
SEED = 0
"""The seed of the blanks in held-out texts."""


class MaskedObjective:
    """The cross-entropy of the masked tokens, and of whether the second text follows the first."""

    metric, higher_is_better = "masked-accuracy", True

    def __init__(self, train: MaskedTexts, valid: MaskedTexts, settings: Training):
        self.train, self.valid, self.settings = train, valid, settings

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return cut(self.train, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> MaskedBatch:
        return self.train.batch(epoch, indices)

    def loss(
        self,
        model: nn.Module,
        batch: MaskedBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Bert)
        assert model.predictions is not None
        states, count = (
            model(batch.tokens, batch.lengths, batch.segments),
            len(batch.places),
        )
        features = model.predictions.features(states.flatten(0, 1)[batch.places])
        total, _ = model.predictions.output.loss(features[None], batch.expected[None])
        if (
            batch.follows is not None
            and model.pooler is not None
            and model.next_sentence is not None
        ):
            following = model.next_sentence(model.pooler(states))
            pairs = functional.cross_entropy(following, batch.follows, reduction="sum")
            total = total + pairs * (count / len(batch.tokens))
        return Loss(total, count, read=int(batch.lengths.sum()))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Bert)
        return figures(model, self.valid, self.settings.batch_tokens)


def cut(texts: MaskedTexts, tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
    """An epoch's batches of texts."""
    lengths = [texts.length(epoch, example) for example in range(len(texts))]
    return token_batches([(length, length) for length in lengths], tokens, seed, epoch)


def masked_texts(
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    masking: Masking,
    context: int,
    *,
    paired: bool,
    seed: int,
) -> MaskedTexts:
    """Documents as texts with blanks. Raises InputError where there are too few."""
    ids = [
        [tokenizer.encode(sentence) for sentence in document] for document in documents
    ]
    return MaskedTexts(
        ids,
        inside(tokenizer),
        masking,
        context,
        paired=paired,
        seed=seed,
        special=tokenizer.special,
    )


def inside(tokenizer: Tokenizer) -> list[bool]:
    """Whether each entry of the vocabulary continues the word before it."""
    if tokenizer.backend["model"].get("type") == "WordPiece":
        return [entry.startswith(INSIDE) for entry in tokenizer.vocabulary]
    return [not entry.startswith(SPACES) for entry in tokenizer.vocabulary]


@torch.no_grad()
def figures(model: Bert, texts: MaskedTexts, tokens: int) -> dict[str, float]:
    """masked-accuracy: the share of masked tokens with a right prediction, in per cent, and their perplexity.
    next-sentence: the accuracy of whether one text follows another, in per cent, for a model that predicts it."""
    device = next(model.parameters()).device

    def sums(examples: list[int]) -> tuple[float, int, int, int, int]:
        batch = texts.batch(0, examples).to(device)
        states = model(batch.tokens, batch.lengths, batch.segments)
        assert model.predictions is not None
        logits = model.predictions(states.flatten(0, 1)[batch.places])
        total = float(
            nn.functional.cross_entropy(logits, batch.expected, reduction="sum")
        )
        right, pairs, right_pairs = (
            int((logits.argmax(-1) == batch.expected).sum()),
            0,
            0,
        )
        if (
            model.next_sentence is not None
            and model.pooler is not None
            and batch.follows is not None
        ):
            right_pairs = int(
                (
                    model.next_sentence(model.pooler(states)).argmax(-1)
                    == batch.follows
                ).sum()
            )
            pairs = len(batch.follows)
        return total, right, len(batch.places), right_pairs, pairs

    found = computed(sums, cut(texts, tokens, SEED, 0))
    total, right, count, right_pairs, pairs = map(sum, zip(*found, strict=True))
    found = {
        "masked-accuracy": 100 * right / count,
        "perplexity": perplexity(total / count),
    }
    return found | ({"next-sentence": 100 * right_pairs / pairs} if pairs else {})
