"""Texts as parts that a model can read, and batches of them.

A part is [start] tokens [end]; a longer text has several, which begin with a word. The first token of a word stands for
it (Devlin 2019, section 5.3)."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import (
    Batch,
    Ids,
    batch_size,
    bert_input,
    count_special,
    pad_rows,
    require_room,
    token_batches,
)
from regard.data.cache import Chunks, JsonCodec, LazyMap, cache_value, split_into_chunks
from regard.data.splits import Splits
from regard.data.tokens import BYTES
from regard.errors import InputError
from regard.metrics import OUTSIDE, are_plain, entity_metrics, find_entities
from regard.models.catalog import build_tagger
from regard.shapes import Float, Int
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.base import Setup, digest_splits
from regard.tasks.class_prediction import describe_constant_accuracy, order_like_start
from regard.tasks.fine_tuning import add_vector_texts, initialize_word_vectors
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    count_classes,
    describe_rows,
    describe_tokens,
    format_unit,
    measure_unknown_shares,
    request_of,
    sample_evenly,
    sort_counts,
    warn_repeated,
    warn_unknown,
)
from regard.tasks.tagging.data import Place, Tagged, Tagging
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import SpecialTokens, Tokenizer
from regard.text.special import IGNORED
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches


@dataclass(frozen=True)
class Part:
    """The ids of a part, special tokens included, and for each word with a token its number in the text and the
    position of its first token."""

    ids: Ids
    words: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class TagBatch(Batch):
    """Parts padded on the right, and the tag at each word's first token.

    `IGNORED` elsewhere.
    """

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    tags: Int[Tensor, "batch position"]
    words: int


def parts(
    text: str, words: Sequence[Place], tokenizer: Tokenizer, context: int
) -> list[Part]:
    """Return the parts of a text, of at most `context` tokens each.

    Tokens of one word are in one part, unless it alone is longer: then its first ones
    are.
    """
    ids, firsts = tokenizer.encode(text), first_tokens(words, tokenizer.offsets(text))
    ends = [first for _, first in (*firsts[1:], (0, len(ids)))]
    results: list[Part] = []
    room = context - count_special(tokenizer.special, 1)
    start, chosen = 0, []
    for (word, first), end in zip(
        firsts, ends, strict=False
    ):  # there is an end if there is no word
        if chosen and end - start > room:
            results.append(
                _part(ids[start:first], chosen, start, context, tokenizer.special)
            )
            start, chosen = first, []
        chosen.append((word, first))
    return [*results, _part(ids[start:], chosen, start, context, tokenizer.special)]


def first_tokens(
    words: Sequence[Place], offsets: Sequence[Place]
) -> list[tuple[int, int]]:
    """Return the number of each word that has a token of its own, and its first token.

    A token that belongs to two words counts for the first.
    """
    result, token = [], 0
    for number, (start, end) in enumerate(words):
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        if token < len(offsets) and offsets[token][0] < end:
            result.append((number, token))
            token += 1
    return result


def _part(
    ids: Ids,
    chosen: Sequence[tuple[int, int]],
    start: int,
    context: int,
    special: SpecialTokens,
) -> Part:
    room = context - count_special(special, 1)
    rows, _ = bert_input(special, ids[:room])
    inside = [
        (word, first - start + special.opens)
        for word, first in chosen
        if first - start < room
    ]
    return Part(
        rows,
        tuple(word for word, _ in inside),
        tuple(position for _, position in inside),
    )


def collate_parts(examples: Sequence[tuple[Part, Sequence[int]]]) -> TagBatch:
    """Return a batch of parts, each with the tags of all words of its text.

    Raises:
        ValueError: None.
    """
    if not examples:
        raise ValueError("collate_parts() got no parts; expected at least one")
    tokens, lengths = pad_rows([part.ids for part, _ in examples])
    tags = torch.full_like(tokens, IGNORED)
    for row, (part, of_words) in zip(tags, examples, strict=True):
        row[list(part.positions)] = torch.tensor(
            [of_words[word] for word in part.words], dtype=torch.int64
        )
    return TagBatch(tokens, lengths, tags, sum(len(part.words) for part, _ in examples))


def group_parts(
    texts: Sequence[Sequence[Part]], rows: int
) -> Iterator[list[tuple[int, Part]]]:
    """Return all parts with the number of their text, at most `rows` at once."""
    flat = [(number, part) for number, text in enumerate(texts) for part in text]
    for first in range(0, len(flat), rows):
        yield flat[first : first + rows]


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
        """Raise InputError for no texts, and for one longer than a batch."""
        self.valid, self.labels, self.encoder, self.settings = (
            valid,
            labels,
            encoder,
            settings,
        )
        self.train, self.examples = train, encode_parts(train, labels, encoder)
        self.lengths = self.examples.sides
        self.tokens = batch_size(self.lengths, settings.batch_tokens, "training texts")
        require_room(self.lengths, settings.batch_tokens, self.place, "text")

    def place(self, index: int) -> str:
        """Return where a part came from."""
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

    def __init__(self, tokenizer: Tokenizer, context: int | None) -> None:
        assert context is not None  # known once the model is built
        self.tokenizer, self.context = tokenizer, context

    def parts(self, text: str, words: Sequence[tuple[int, int]]) -> list[Part]:
        """Return the parts of a text."""
        return parts(text, words, self.tokenizer, self.context)

    def report_long(self, texts: Iterable[tuple[str, Sequence[Place]]]) -> None:
        """Log how many words of texts are longer than a part, if any are.

        Only their first tokens are read.
        """
        self.report(self.long_words(texts))

    def long_words(self, texts: Iterable[tuple[str, Sequence[Place]]]) -> int:
        """Return how many words of texts are longer than a part."""
        return sum(self._long(text, words) for text, words in texts)

    def report(self, count: int) -> None:
        """Log that so many words are longer than a part, if any are."""
        if count:
            choice = "1 word is" if count == 1 else f"{count:,} words are"
            log.warning(
                "%s longer than the model's maximum of %d tokens: only the beginning is read; a larger model.context "
                "reads more",
                choice,
                self.context,
            )

    def _long(self, text: str, words: Sequence[Place]) -> int:
        maximum = self.context - count_special(self.tokenizer.special, 1)
        if all(BYTES * (end - start) <= maximum for start, end in words):
            return 0
        offsets = self.tokenizer.offsets(text)
        firsts = [first for _, first in first_tokens(words, offsets)]
        return sum(
            after - first > maximum
            for first, after in pairwise([*firsts, len(offsets)])
        )


def encode_parts(
    train: Sequence[Tagged], labels: Sequence[str], encoder: Encoder
) -> Chunks[TaggedPart]:
    """Return the parts of texts, each with the numbers of all tags of its text.

    Of texts on disk they are made once.
    """
    allowed = {label: place for place, label in enumerate(labels)}

    def cut(text: Tagged) -> list[TaggedPart]:
        tags = [allowed[tag] for tag in text.tags]
        return [(part, tags) for part in encoder.parts(text.text, text.words)]

    name = f"parts {encoder.tokenizer.digest} {encoder.context} {labels}"
    return split_into_chunks(
        train, name, cut, lambda item: len(item[0].ids), JsonCodec(_to_json, _of_json)
    )


def _to_json(item: TaggedPart) -> Any:
    part, tags = item
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
    results = [torch.zeros(count, output.out_features) for count in words]

    def shares_of(group: Sequence[tuple[int, Part]]) -> Tensor:
        batch = collate_parts(
            [(part, [0] * words[number]) for number, part in group]
        ).to(device)
        return model(batch.tokens, batch.lengths).softmax(-1).cpu()

    groups = list(group_parts(texts, ROWS))
    for example, shares in zip(groups, compute_batches(shares_of, groups), strict=True):
        for row, (number, part) in zip(shares, example, strict=True):
            results[number][list(part.words)] = row[list(part.positions)]
    return results


def chosen_tags(shares: Float[Tensor, "word tag"], labels: Sequence[str]) -> list[str]:
    """Return the most likely tag of each word; O for one without a token."""
    places: list[int] = shares.argmax(-1).tolist()
    return [
        labels[place] if allowed else OUTSIDE
        for place, allowed in zip(places, shares.any(-1).tolist(), strict=True)
    ]


def metrics(
    model: nn.Module, encoder: Encoder, labels: Sequence[str], texts: Sequence[Tagged]
) -> dict[str, float]:
    """f1, precision, recall and accuracy, as `entity_metrics`."""
    result = probabilities(
        model,
        [encoder.parts(text.text, text.words) for text in texts],
        [len(item.words) for item in texts],
    )
    return entity_metrics(
        [chosen_tags(example, labels) for example in result],
        [entry.tags for entry in texts],
    )


def setup(config: Tagging, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    A tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid, or no word has a tag.
    """
    splits = config.data.load()
    tags = _tags(splits.train)
    labels = sorted({*tags, OUTSIDE})
    if len(labels) < 2:
        raise InputError(
            f"{config.data.train}: every tag is {OUTSIDE}; expected some of other kinds"
        )
    labels = order_like_start(config.training.start, labels)
    texts = LazyMap(splits.train, text_of)
    extra = (
        ()
        if config.vectors is None
        else add_vector_texts(config.vectors, list(texts), folder)
    )
    tokenizer = load_or_train(folder, config.tokenizer_settings, extra or texts)
    model = build_tagger(config.tagger, tokenizer.size, len(labels))
    initialize_word_vectors(model, config.vectors, tokenizer, extra, folder)
    encoder = Encoder(tokenizer, config.tagger.context)
    encoder.report(
        sum(_long_words(group, encoder) for group in (splits.train, splits.valid))
    )
    return Setup(
        model,
        TaggingObjective(splits.train, splits.valid, labels, encoder, config.training),
        digest_splits(splits, _written),
        f"{len(splits.train):,} texts to train on, {len(splits.valid):,} to validate, {len(splits.test):,} to test; "
        f"{_kinds(tags)}; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        files={LABELS: labels},
        fresh=("output.",),
        data=summary(config, splits, tokenizer),
        simplest=describe_constant_accuracy(
            Counter(tag for item in splits.valid for tag in item.tags)
        ),
    )


def summary(
    config: Tagging, splits: Splits[Tagged], tokenizer: Tokenizer
) -> DataSummary:
    """Return the texts before training and their entities."""
    unknown = measure_unknown_shares(
        tokenizer,
        {name: LazyMap(group, text_of) for name, group in splits.named.items()},
    )
    first = next(
        (item for item in splits.train if set(item.tags) != {OUTSIDE}), splits.train[0]
    )
    visible = "tags" if are_plain(_tags(splits.train)) else "entities"
    result = ", ".join(
        f"{first.text[first.words[start][0] : first.words[end - 1][1]]} ({label})"
        for start, end, label in find_entities(first.tags)
    )
    return DataSummary(
        unit="texts",
        rows=describe_rows(config.data, splits),
        classes=sort_counts(_counts(splits.train, visible)),
        classified=visible,
        lengths={
            "text": Lengths.of(
                [
                    len(tokenizer.encode(example.text)) + 2
                    for example in sample_evenly(splits.train)
                ]
            )
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        request=request_of(text=first.text),
        example={
            "text": describe_tokens(tokenizer, tokenizer.encode(first.text)),
            visible: result or "none",
        },
        warnings=(
            *_unseen(splits),
            *warn_repeated(config.data, splits, lambda entry: entry.text),
            *warn_unknown(tokenizer, unknown),
        ),
    )


def _unseen(splits: Splits[Tagged]) -> Sequence[str]:
    """Tags that only texts for validation or test have, which the model never predicts."""
    allowed = set(_tags(splits.train))
    second = {
        tag for item in (*splits.valid, *splits.test) for tag in item.tags
    } - allowed
    return (
        [
            f"no training text has the tags {', '.join(sorted(second))}, so they are never predicted"
        ]
        if second
        else []
    )


def text_of(item: Tagged) -> str:
    """Return the text of an example."""
    return item.text


def _tags(texts: Sequence[Tagged]) -> list[str]:
    """Return the tags that occur; those of a set on disk are collected once."""
    return cache_value(
        texts, "tags", lambda: sorted({tag for text in texts for tag in text.tags})
    )


def _long_words(texts: Sequence[Tagged], encoder: Encoder) -> int:
    """Return how many words are longer than a part."""
    name = f"long words {encoder.tokenizer.digest} {encoder.context}"
    return cache_value(
        texts,
        name,
        lambda: encoder.long_words((text.text, text.words) for text in texts),
    )


def _kinds(tags: Sequence[str]) -> str:
    """Return how many kinds of entities there are, or plain tags."""
    if are_plain(tags):
        return f"{len(tags)} tags"
    kinds = {label for _, _, label in find_entities(tags)}
    return f"{len(kinds)} {format_unit('kinds of entities', len(kinds))} in {len({*tags, OUTSIDE})} tags"


def _counts(texts: Sequence[Tagged], of: str) -> dict[str, int]:
    """Return how often each kind of entity occurs, or each of the `tags`."""

    def counts() -> dict[str, int]:
        if of == "tags":
            return count_classes(tag for text in texts for tag in text.tags)
        return count_classes(
            label for item in texts for _, _, label in find_entities(item.tags)
        )

    return cache_value(texts, f"counts of {of}", counts)


def _written(item: Tagged) -> str:
    return "\0".join((item.text, *item.tags)) + "\n"
