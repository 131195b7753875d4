"""Training of taggers: parts of texts in batches, the loss, predicted tags and the metrics."""

import logging
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.pieces import JsonCodec, Pieces, cut_up
from regard.data.token_batches import batch_size, require_room, token_batches
from regard.data.token_words import BYTES
from regard.metrics.entities import OUTSIDE, entity_metrics
from regard.shapes import Float
from regard.tasks.tagging.data import Place, Tagged
from regard.tasks.tagging.parts import (
    Part,
    TagBatch,
    collate_parts,
    first_tokens,
    grouped,
    parts,
)
from regard.text import Tokenizer
from regard.text.special import IGNORED
from regard.training.objective import Carried, Loss
from regard.training.settings import Training
from regard.work import computed

log = logging.getLogger("regard")
ROWS = 64
"""Parts in one batch of inference."""
TaggedPart = tuple[Part, list[int]]
"""A part of a text, and the numbers of the tags of all words of the text."""
Probabilities = list[Float[Tensor, "word tag"]]
"""The probability of each tag for each word of a text; zeros for a word without a token."""


class TaggingObjective:
    """The cross-entropy of the tags of words."""

    metric, higher_is_better = "f1", True

    def __init__(
        self, train: Sequence[Tagged], valid: Sequence[Tagged], labels: Sequence[str], encoder: "Encoder",
        settings: Training,
    ):  # fmt: skip
        """Raises InputError for no texts, and for one longer than a batch."""
        self.valid, self.labels, self.encoder, self.settings = (
            valid,
            labels,
            encoder,
            settings,
        )
        self.train, self.examples = train, encoded_parts(train, labels, encoder)
        self.lengths = self.examples.sides
        self.tokens = batch_size(self.lengths, settings.batch_tokens, "training texts")
        require_room(self.lengths, settings.batch_tokens, self.place, "text")

    def place(self, index: int) -> str:
        """Where a part came from."""
        return self.train[int(self.examples.owners[index])].origin

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> TagBatch:
        return collate_parts([self.examples.items[index] for index in indices])

    def loss(
        self,
        model: nn.Module,
        batch: TagBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        logits = model(batch.tokens, batch.lengths)
        total = functional.cross_entropy(
            logits.flatten(0, 1),
            batch.tags.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )
        return Loss(total, max(1, batch.words))

    def validate(self, model: nn.Module) -> dict[str, float]:
        return metrics(model, self.encoder, self.labels, self.valid)


class Encoder:
    """Texts as parts of at most `context` tokens."""

    def __init__(self, tokenizer: Tokenizer, context: int):
        self.tokenizer, self.context = tokenizer, context

    def parts(self, text: str, words: Sequence[tuple[int, int]]) -> list[Part]:
        """The parts of a text."""
        return parts(text, words, self.tokenizer, self.context)

    def report_long(self, texts: Iterable[tuple[str, Sequence[Place]]]) -> None:
        """Log how many words of texts are longer than a part, if any are: only their first tokens are read."""
        self.report(self.long_words(texts))

    def long_words(self, texts: Iterable[tuple[str, Sequence[Place]]]) -> int:
        """How many words of texts are longer than a part."""
        return sum(self._long(text, words) for text, words in texts)

    def report(self, count: int) -> None:
        """Log that so many words are longer than a part, if any are."""
        if count:
            which = "1 word is" if count == 1 else f"{count:,} words are"
            log.warning(
                "%s longer than the model's maximum of %d tokens: only the beginning is read; a larger model.context "
                "reads more",
                which,
                self.context,
            )

    def _long(self, text: str, words: Sequence[Place]) -> int:
        most = self.context - 2
        if all(BYTES * (end - start) <= most for start, end in words):
            return 0
        offsets = self.tokenizer.offsets(text)
        firsts = [first for _, first in first_tokens(words, offsets)]
        return sum(
            after - first > most for first, after in pairwise([*firsts, len(offsets)])
        )


def encoded_parts(
    train: Sequence[Tagged], labels: Sequence[str], encoder: Encoder
) -> Pieces[TaggedPart]:
    """The parts of texts, each with the numbers of all tags of its text; of texts on disk they are made once."""
    known = {label: place for place, label in enumerate(labels)}

    def cut(text: Tagged) -> list[TaggedPart]:
        tags = [known[tag] for tag in text.tags]
        return [(part, tags) for part in encoder.parts(text.text, text.words)]

    name = f"parts {encoder.tokenizer.digest} {encoder.context} {labels}"
    return cut_up(
        train, name, cut, lambda each: len(each[0].ids), JsonCodec(_to_json, _of_json)
    )


def _to_json(each: TaggedPart) -> Any:
    part, tags = each
    return [part.ids, part.words, part.positions, tags]


def _of_json(value: Any) -> TaggedPart:
    ids, words, positions, tags = value
    return Part(ids, tuple(words), tuple(positions)), tags


@torch.no_grad()
def probabilities(
    model: nn.Module, texts: Sequence[Sequence[Part]], words: Sequence[int]
) -> Probabilities:
    """The probabilities of the tags of texts with so many `words`, from their parts."""
    device, output = next(model.parameters()).device, model.get_submodule("output")
    assert isinstance(output, nn.Linear)
    found = [torch.zeros(count, output.out_features) for count in words]

    def shares_of(some: Sequence[tuple[int, Part]]) -> Tensor:
        batch = collate_parts(
            [(part, [0] * words[number]) for number, part in some]
        ).to(device)
        return model(batch.tokens, batch.lengths).softmax(-1).cpu()

    groups = list(grouped(texts, ROWS))
    for some, shares in zip(groups, computed(shares_of, groups), strict=True):
        for row, (number, part) in zip(shares, some, strict=True):
            found[number][list(part.words)] = row[list(part.positions)]
    return found


def chosen_tags(shares: Float[Tensor, "word tag"], labels: Sequence[str]) -> list[str]:
    """The most likely tag of each word; O for one without a token."""
    places: list[int] = shares.argmax(-1).tolist()
    return [
        labels[place] if known else OUTSIDE
        for place, known in zip(places, shares.any(-1).tolist(), strict=True)
    ]


def metrics(
    model: nn.Module, encoder: Encoder, labels: Sequence[str], texts: Sequence[Tagged]
) -> dict[str, float]:
    """f1, precision, recall and accuracy, as `entity_metrics`."""
    found = probabilities(
        model,
        [encoder.parts(each.text, each.words) for each in texts],
        [len(each.words) for each in texts],
    )
    return entity_metrics(
        [chosen_tags(each, labels) for each in found], [each.tags for each in texts]
    )
