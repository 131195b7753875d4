"""Training of taggers: texts as parts that a model can read, the loss and the set-up.

A part is [start] tokens [end]; a longer text has several, which begin with a word. The
first token of a word stands for it (Devlin 2019, section 5.3).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch, Ids, bert_input, count_special, pad_rows
from regard.data.cache import JsonCodec, cache_value, split_into_chunks
from regard.data.splits import Splits
from regard.errors import InputError
from regard.metrics import OUTSIDE, entity_metrics, find_entities
from regard.models.catalog import build_tagger
from regard.shapes import Float, Int
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.base import Setup, TokenBatchObjective, digest_splits, setup_task
from regard.tasks.class_prediction import describe_constant_accuracy, order_like_start
from regard.tasks.fine_tuning import initialize_word_vectors
from regard.tasks.summary import (
    DataSummary,
    count_classes,
    sample_evenly,
    summarize_texts,
)
from regard.tasks.tagging.data import Place, Tagged, Tagging
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer
from regard.text.special import IGNORED
from regard.training.objectives import Carried, Loss
from regard.work import compute_batches

ROWS = 64
"""Parts in one batch of inference."""


@dataclass(frozen=True)
class Part:
    """A part of a text."""

    ids: Ids
    """The tokens, special tokens included."""
    words: tuple[int, ...]
    """The index in the text of each word that has a token."""
    positions: tuple[int, ...]
    """The position of the first token of each of these words."""
    cut: bool = False
    """Whether it is the beginning of a word that is longer than a part."""


TaggedPart = tuple[Part, list[int]]
"""A part of a text, and the indices of the tags of all words of the text."""


@dataclass(frozen=True, repr=False)
class TagBatch(Batch):
    """Parts, padded, and the tag at each word's first token, `IGNORED` elsewhere."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    tags: Int[Tensor, "batch position"]
    words: int


@dataclass(frozen=True)
class Encoder:
    """Encodes texts as parts of at most `context` tokens."""

    tokenizer: Tokenizer
    context: int

    def parts(self, text: str, words: Sequence[Place]) -> list[Part]:
        """Return the parts of a text.

        Tokens of one word are in one part, unless it alone is longer: then its first ones
        are.
        """
        special = self.tokenizer.special
        ids = self.tokenizer.encode(text)
        firsts = find_first_tokens(words, self.tokenizer.offsets(text))
        room = self.context - count_special(special, 1)
        count = len(ids)
        bounds = [0]
        for (_, first), (_, end) in pairwise([*firsts, (0, count)]):
            begin = bounds[-1]
            if end - begin > room and first > begin:
                bounds.append(first)
        parts = []
        for start, end in pairwise([*bounds, count]):
            last = min(end, start + room)
            tokens, _ = bert_input(special, ids[start:last])
            names = []
            positions = []
            for word, first in firsts:
                if start <= first < last:
                    names.append(word)
                    positions.append(first - start + special.opens)
            is_cut = end > last
            parts.append(Part(tokens, tuple(names), tuple(positions), is_cut))
        return parts

    def all_parts(self, texts: Sequence[Tagged]) -> list[list[Part]]:
        """Return the parts of each text."""
        return [self.parts(text.text, text.words) for text in texts]


def find_first_tokens(
    words: Sequence[Place], offsets: Sequence[Place]
) -> list[tuple[int, int]]:
    """Return the index of each word that has a token of its own, and its first token.

    A token that belongs to two words counts for the first.
    """
    firsts = []
    token = 0
    for index, (start, end) in enumerate(words):
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        if token < len(offsets) and offsets[token][0] < end:
            firsts.append((index, token))
            token += 1
    return firsts


def warn_cut(texts: Sequence[Sequence[Part]], context: int) -> list[str]:
    """Return a warning on words that are longer than a part, if there are any."""
    cut = sum(part.cut for parts in texts for part in parts)
    if not cut:
        return []
    return [
        f"{cut:,} of the words of {len(texts):,} texts are longer than the model's maximum "
        f"of {context} tokens: only their beginning is read; a larger model.context reads "
        "more"
    ]


def collate_parts(examples: Sequence[TaggedPart]) -> TagBatch:
    """Pad parts with the tags of all words of their texts."""
    tokens, lengths = pad_rows([part.ids for part, _ in examples])
    tags = torch.full_like(tokens, IGNORED)
    for row, (part, text_tags) in zip(tags, examples, strict=True):
        for word, position in zip(part.words, part.positions, strict=True):
            row[position] = text_tags[word]
    return TagBatch(tokens, lengths, tags, sum(len(part.words) for part, _ in examples))


def part_of_json(value: Any) -> TaggedPart:
    """Return the part of values in JSON, with the indices of its tags."""
    ids, words, positions, tags = value
    return Part(ids, tuple(words), tuple(positions)), tags


class TaggingObjective(TokenBatchObjective[TaggedPart, TagBatch]):
    """The cross-entropy of the tags of words."""

    metric = "f1"
    higher_is_better = True

    def __init__(
        self,
        config: Tagging,
        splits: Splits[Tagged],
        labels: Sequence[str],
        encoder: Encoder,
    ) -> None:
        self.texts = splits.train
        self.labels = labels
        self.encoder = encoder
        indices = {label: index for index, label in enumerate(labels)}

        def cut(text: Tagged) -> list[TaggedPart]:
            tags = [indices[tag] for tag in text.tags]
            return [(part, tags) for part in encoder.parts(text.text, text.words)]

        chunks = split_into_chunks(
            splits.train,
            f"parts {encoder.tokenizer.digest} {encoder.context} {labels}",
            cut,
            lambda item: len(item[0].ids),
            JsonCodec(
                lambda item: [item[0].ids, item[0].words, item[0].positions, item[1]],
                part_of_json,
            ),
        )
        self.owners = chunks.owners
        super().__init__(
            chunks,
            splits.valid,
            config.training,
            chunks.sides,
            "texts",
            strict=True,
        )

    def place(self, index: int) -> str:
        return self.texts[int(self.owners[index])].origin

    def collate(self, examples: Sequence[TaggedPart]) -> TagBatch:
        return collate_parts(examples)

    def loss(
        self,
        model: nn.Module,
        batch: TagBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        total = functional.cross_entropy(
            model(batch.tokens, batch.lengths).flatten(0, 1),
            batch.tags.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )
        return Loss(total, max(1, batch.words))

    def validate(self, model: nn.Module) -> dict[str, float]:
        parts = self.encoder.all_parts(self.valid)
        return compute_metrics(model, parts, self.labels, self.valid)


@torch.no_grad()
def compute_probabilities(
    model: nn.Module, texts: Sequence[Sequence[Part]], words: Sequence[int]
) -> list[Float[Tensor, "word tag"]]:
    """Return the probability of each tag for each word; zeros for one without a token.

    Args:
        model: The tagger.
        texts: The parts of each text.
        words: The number of words of each text.
    """
    device = next(model.parameters()).device
    layer = model.get_submodule("output")
    assert isinstance(layer, nn.Linear)
    results = []
    parts = []
    for text, count in zip(texts, words, strict=True):
        rows = torch.zeros(count, layer.out_features)
        results.append(rows)
        for part in text:
            parts.append((rows, part))
    groups = []
    for first in range(0, len(parts), ROWS):
        groups.append(parts[first : first + ROWS])

    def compute(group: Sequence[tuple[Tensor, Part]]) -> Tensor:
        tokens, lengths = pad_rows([part.ids for _, part in group])
        logits = model(tokens.to(device), lengths.to(device))
        return logits.softmax(-1).cpu()

    for group, outputs in zip(groups, compute_batches(compute, groups), strict=True):
        for (rows, part), output in zip(group, outputs, strict=True):
            positions = list(part.positions)
            rows[list(part.words)] = output[positions]
    return results


def choose_tags(
    probabilities: Float[Tensor, "word tag"], labels: Sequence[str]
) -> list[str]:
    """Return the most likely tag of each word; O for one without a token."""
    return [
        labels[int(row.argmax())] if row.any() else OUTSIDE for row in probabilities
    ]


def compute_metrics(
    model: nn.Module,
    parts: Sequence[Sequence[Part]],
    labels: Sequence[str],
    texts: Sequence[Tagged],
) -> dict[str, float]:
    """Return f1, precision, recall and accuracy, as `entity_metrics`."""
    counts = [len(text.words) for text in texts]
    tags = [
        choose_tags(rows, labels)
        for rows in compute_probabilities(model, parts, counts)
    ]
    return entity_metrics(tags, [text.tags for text in texts])


def setup(config: Tagging, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    Raises:
        InputError: The texts or the model are invalid, or no word has a tag.
    """
    splits = config.data.load()
    tags = cache_value(
        splits.train,
        "tags",
        lambda: sorted({tag for text in splits.train for tag in text.tags}),
    )
    labels = sorted({*tags, OUTSIDE})
    if len(labels) < 2:
        raise InputError(
            f"{config.data.train}: every tag is {OUTSIDE}; expected some of other kinds"
        )
    labels = order_like_start(config.training.start, labels)
    tokenizer, texts = config.build_tokenizer(
        folder, splits.train, lambda group: map(text_of, group)
    )
    model = build_tagger(config.tagger, tokenizer.size, len(labels))
    initialize_word_vectors(model, config.vectors, tokenizer, texts, folder)
    assert config.tagger.context is not None  # known once the model is built
    encoder = Encoder(tokenizer, config.tagger.context)
    counts = Counter(tag for text in splits.valid for tag in text.tags)
    return setup_task(
        model,
        TaggingObjective(config, splits, labels, encoder),
        splits,
        digest_splits(splits, lambda item: "\0".join((item.text, *item.tags)) + "\n"),
        summarize(config, splits, encoder, set(tags)),
        details=[f"{len(tags)} tags", f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
        files={LABELS: labels},
        fresh=("output.",),
        simplest=describe_constant_accuracy(counts),
    )


def text_of(example: Tagged) -> str:
    """Return the text of an example."""
    return example.text


def summarize(
    config: Tagging, splits: Splits[Tagged], encoder: Encoder, tags: set[str]
) -> DataSummary:
    """Summarize the texts and their entities."""
    first = splits.train[0]
    entities = [
        f"{first.text[first.words[start][0] : first.words[end - 1][1]]} ({label})"
        for start, end, label in find_entities(first.tags)
    ]
    counts = cache_value(
        splits.train,
        "entities",
        lambda: count_classes(
            entity.label for text in splits.train for entity in find_entities(text.tags)
        ),
    )
    held_out = {tag for text in (*splits.valid, *splits.test) for tag in text.tags}
    warnings = warn_cut(encoder.all_parts(sample_evenly(splits.train)), encoder.context)
    if unseen := sorted(held_out - tags):
        warnings.append(
            f"no training text has the tags {', '.join(unseen)}, so they are never predicted"
        )
    return summarize_texts(
        config.data,
        splits,
        {"text": (encoder.tokenizer, text_of)},
        unit="texts",
        example={"entities": ", ".join(entities) or "none"},
        warnings=warnings,
        classes=counts,
        classified="entities",
    )
