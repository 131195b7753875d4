"""Batches of texts with their targets; `inputs` are the arguments of the model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.record import Maps
from regard.attribution.gradients import Contribution
from regard.data.batches import (
    Ids,
    InputBatch,
    bert_input,
    bert_inputs,
    count_special,
    pad_rows,
)
from regard.data.tokens import Limit, side, words_of
from regard.maps import Alignment, DocumentWeights, join_words, shares
from regard.maps.alignment import TextWeights, Words
from regard.maps.heads import Side
from regard.models.bert import BertClassifier, BertConfig
from regard.models.gpt2 import GPT2Config
from regard.models.pretrained import PretrainedConfig
from regard.models.rocktaschel import RocktaschelConfig
from regard.shapes import Int, Shaped
from regard.tasks.attribution import shade_text
from regard.tasks.classification.data import Labelled
from regard.text import Tokenizer
from regard.text.special import SPECIAL, SpecialTokens

Target = int | float | Sequence[float]
"""The index of a class, a number, or several numbers."""


class LabelledBatch(InputBatch):
    """A batch of texts: a frozen dataclass of tensors. `targets` are the indices of classes, numbers, or a row of
    numbers for each text."""

    targets: Shaped[Tensor, "batch *output"]


@dataclass(frozen=True, repr=False)
class MarkedBatch(LabelledBatch):
    """One text or two of each example with special tokens, padded on the right, and the segment of each token."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths, self.segments

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, repr=False)
class TextBatch(LabelledBatch):
    """One text of each example."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True, repr=False)
class TwoTextBatch(LabelledBatch):
    """Two texts of each example, each padded by itself."""

    first: Int[Tensor, "batch first_position"]
    first_lengths: Int[Tensor, " batch"]
    second: Int[Tensor, "batch second_position"]
    second_lengths: Int[Tensor, " batch"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.first, self.first_lengths, self.second, self.second_lengths

    @property
    def size(self) -> int:
        return int(self.first_lengths.sum() + self.second_lengths.sum())


@dataclass(frozen=True, repr=False)
class DocumentBatch(LabelledBatch):
    """The sentences of all documents, a row each, the shortest first.

    `places` has the rows of each document's sentences in order, padded with row 0 past
    their number in `counts`.
    """

    tokens: Int[Tensor, "row position"]
    lengths: Int[Tensor, " row"]
    places: Int[Tensor, "batch sentence"]
    counts: Int[Tensor, " batch"]
    targets: Shaped[Tensor, "batch *output"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.tokens, self.lengths, self.places, self.counts

    @property
    def size(self) -> int:
        return int(self.lengths.sum())


def collate_marked(
    examples: Sequence[tuple[Sequence[Ids], Target]], special: SpecialTokens = SPECIAL
) -> MarkedBatch:
    """Return one text or two of each example, as tokens, with its target.

    Raises:
        ValueError: No examples at all.
    """
    targets = _targets(examples)
    return MarkedBatch(*bert_inputs(special, [texts for texts, _ in examples]), targets)


def collate_texts(examples: Sequence[tuple[Ids, Target]]) -> TextBatch:
    """Return one text of each example.

    Raises:
        ValueError: No examples at all.
    """
    targets = _targets(examples)
    return TextBatch(*pad_rows([ids for ids, _ in examples]), targets)


def collate_two_texts(examples: Sequence[tuple[Sequence[Ids], Target]]) -> TwoTextBatch:
    """Return two texts of each example.

    Raises:
        ValueError: No examples at all.
    """
    targets = _targets(examples)
    first, second = (
        pad_rows([texts[side] for texts, _ in examples]) for side in (0, 1)
    )
    return TwoTextBatch(*first, *second, targets)


def collate_documents(
    examples: Sequence[tuple[Sequence[Ids], Target]],
) -> DocumentBatch:
    """Return the sentences of each example, of which there may be none.

    Raises:
        ValueError: No examples at all.
    """
    targets = _targets(examples)
    rows = [ids for sentences, _ in examples for ids in sentences]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    place = {row: place for place, row in enumerate(order)}
    tokens, lengths = pad_rows([rows[row] for row in order])
    places, first = [], 0
    for sentences, _ in examples:
        places.append([place[row] for row in range(first, first + len(sentences))])
        first += len(sentences)
    return DocumentBatch(tokens, lengths, *pad_rows(places), targets)


def _targets(
    examples: Sequence[tuple[object, Target]],
) -> Shaped[Tensor, "batch *output"]:
    if not examples:
        raise ValueError("a batch got no examples; expected at least one")
    return torch.tensor([item for _, item in examples])


def truncate_texts(texts: Sequence[Ids], maximum: int) -> tuple[Ids, ...]:
    """Texts of together at most `most` tokens, cut at their ends, the longest first."""
    results = [list(text) for text in texts]
    while (over := sum(map(len, results)) - maximum) > 0:
        longest = max(results, key=len)
        remaining = max(
            (len(item) for item in results if item is not longest), default=0
        )
        del longest[-min(over, max(1, len(longest) - remaining)) :]
    return tuple(results)


E = TypeVar("E")
Joined = Callable[[Maps], np.ndarray]
"""Joins recorded maps into one, `(target, source)`."""
CLASS, CONTEXT = "the class", "model.context"
"""The name of what reads a text where one query does, and the key of the most tokens that a model reads."""


class Form(ABC, Generic[E]):
    """The encoding of texts as inputs of a kind of model, and the attribution to them.

    tokenizer: that of the run.
    config: the sizes of its model.
    truncate: whether texts that are longer than the model can take are cut.
    """

    texts: frozenset[int] = frozenset({1})
    """The numbers of texts that an example may have: 1, 2 or both."""
    attention_modules: str | None = None
    """The names of the modules whose weights are the attention; None for a model without."""
    several: bool = False
    """Whether every layer and head has a map of its own."""

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        self.tokenizer, self.config, self.truncate = tokenizer, config, truncate

    @abstractmethod
    def encode(self, example: Labelled) -> E:
        """Return the ids of an example.

        Raises:
            InputError: One that the model cannot take.
        """

    @property
    def longest(self) -> Limit | None:
        """The most positions that the model reads.

        None for a model that reads texts of any length.
        """
        return None

    def whole(self, example: Labelled) -> int:
        """Return the positions of an example that is not cut."""
        return self.positions(self.encode(example))

    def is_cut(self, example: Labelled, encoded: E) -> bool:
        """Return whether an example has more positions than what is encoded of it."""
        longest = self.longest
        full = longest is not None and self.positions(encoded) >= longest.tokens
        return full and self.whole(example) > self.positions(encoded)

    def require_room(self, example: Labelled, tokens: int, special: int = 0) -> None:
        """Raises InputError for more tokens, with the special ones, than the model's context, unless they are cut."""
        if tokens + special > self.config.context and not self.truncate:
            raise Limit(self.config.context, special, CONTEXT).refusal(
                example.place, tokens
            )

    @abstractmethod
    def positions(self, encoded: E) -> int:
        """Return the number of positions of an encoded example in a batch."""

    @abstractmethod
    def collate(self, examples: Sequence[tuple[E, Target]]) -> LabelledBatch:
        """Return a batch of examples with their targets."""

    def attention(
        self, example: Labelled, maps: Maps, joined: Joined
    ) -> Alignment | DocumentWeights | TextWeights | None:
        """The attention, from the maps recorded while the model read this example only; None for a model that does not
        attend. `joined` joins `several` maps into one."""
        return None

    def side(self, example: Labelled) -> Side | None:
        """Return where there are `several` maps, the pieces that attend to each other."""
        return None

    def pieces(self, example: Labelled) -> list[str] | None:
        """Return the tokens of one row as the model sees it, special tokens included.

        None for other forms.
        """
        return None

    @abstractmethod
    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        """The gradient x input of the label's log-probability with its sign, from the contributions of each call of an
        embedding while the model read this example only."""


class OneText(Form[Ids]):
    """The model reads tokens `(batch, position)`, padded on the right, and lengths `(batch,)`. A form of this class
    that sets `attention_modules` and overrides `attention` has weights too."""

    def encode(self, example: Labelled) -> Ids:
        (text,) = example.texts
        return self.tokenizer.encode(text)

    def positions(self, encoded: Ids) -> int:
        return max(1, len(encoded))

    def collate(self, examples: Sequence[tuple[Ids, Target]]) -> TextBatch:
        return collate_texts(examples)

    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        return self.of_tokens(
            example, result[0].amounts[0].double().cpu().numpy(), label
        )

    def of_tokens(
        self, example: Labelled, amounts: np.ndarray, label: str
    ) -> TextWeights:
        """The `amounts` of tokens, `(1, token)`, of any sign, as shares of the words."""
        return shade_text(self.tokenizer, example.texts, list(amounts), label)


class LastText(Form[Ids]):
    """At most `context` tokens without special tokens.

    A text without tokens is the end token. More are refused, or with `truncate` cut at
    the end.
    """

    attention_modules = "blocks.*.self_attention"
    several = True

    config: GPT2Config

    @property
    def longest(self) -> Limit:
        return Limit(self.config.context, 0, CONTEXT)

    def whole(self, example: Labelled) -> int:
        (text,) = example.texts
        return len(self.tokenizer.encode(text))

    def encode(self, example: Labelled) -> Ids:
        (text,) = example.texts
        ids = self.tokenizer.encode(text)
        self.require_room(example, len(ids))
        return ids[: self.config.context] or [self.tokenizer.special.end]

    def positions(self, encoded: Ids) -> int:
        return len(encoded)

    def collate(self, examples: Sequence[tuple[Ids, Target]]) -> TextBatch:
        return collate_texts(examples)

    def attention(self, example: Labelled, maps: Maps, joined: Joined) -> TextWeights:
        """What the last token, from which the class is predicted, reads of the text. Raises InputError as `joined`
        does."""
        return self._shade(example, joined(maps)[-1], CLASS)

    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        return self._shade(
            example, result[0].amounts[0, 0].double().cpu().numpy(), label
        )

    def _shade(
        self, example: Labelled, row: Float[np.ndarray, " position"], name: str
    ) -> TextWeights:
        """Return the amounts of the tokens of the text.

        None of an end token in its place.
        """
        (text,) = example.texts
        return shade_text(
            self.tokenizer,
            example.texts,
            [row[: len(self.tokenizer.encode(text))]],
            name,
        )

    def pieces(self, example: Labelled) -> list[str]:
        return self.tokenizer.pieces(self.encode(example))

    def side(self, example: Labelled) -> Side:
        return side(self.tokenizer, self.encode(example), texts=example.texts)


Texts = tuple[Ids, ...]
"""The tokens of one text, or of two."""


class MarkedTexts(Form[Texts]):
    """At most `context` tokens, special tokens included.

    More are refused, or with `truncate` cut, the longer of two texts first. The tokens
    attend to each other.
    """

    attention_modules = BertClassifier.self_attention
    several = True

    texts = frozenset({1, 2})
    config: BertConfig

    @property
    def longest(self) -> Limit:
        return Limit(
            self.config.context, count_special(self.tokenizer.special, 1), CONTEXT
        )

    def whole(self, example: Labelled) -> int:
        return self.positions(tuple(map(self.tokenizer.encode, example.texts)))

    def encode(self, example: Labelled) -> Texts:
        texts = tuple(self.tokenizer.encode(text) for text in example.texts)
        around = count_special(self.tokenizer.special, len(texts))
        self.require_room(example, sum(map(len, texts)), around)
        return truncate_texts(texts, self.config.context - around)

    def positions(self, encoded: Texts) -> int:
        return sum(map(len, encoded)) + count_special(
            self.tokenizer.special, len(encoded)
        )

    def collate(self, examples: Sequence[tuple[Texts, Target]]) -> MarkedBatch:
        return collate_marked(examples, self.tokenizer.special)

    def attention(self, example: Labelled, maps: Maps, joined: Joined) -> TextWeights:
        """What the first position, from which the class is predicted, reads of the texts; special tokens are left out.
        Raises InputError as `joined` does."""
        return self._shade(example, joined(maps)[0], CLASS)

    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        return self._shade(
            example, result[0].amounts[0, 0].double().cpu().numpy(), label
        )

    def _shade(
        self, example: Labelled, row: Float[np.ndarray, " position"], name: str
    ) -> TextWeights:
        """Return the amounts of the positions of the texts."""
        amounts, first = [], int(self.tokenizer.special.opens)
        for ids in self.encode(example):
            amounts.append(row[first : first + len(ids)])
            first += len(ids) + self.tokenizer.special.between
        return shade_text(self.tokenizer, example.texts, amounts, name)

    def pieces(self, example: Labelled) -> list[str]:
        return self.tokenizer.pieces(
            bert_input(self.tokenizer.special, *self.encode(example))[0]
        )

    def side(self, example: Labelled) -> Side:
        ids, _ = bert_input(self.tokenizer.special, *self.encode(example))
        return side(self.tokenizer, ids, texts=example.texts)


class PublishedTexts(MarkedTexts):
    """The rows of a pretrained model, with the special tokens of its tokenizer."""

    attention_modules = "attention"

    config: PretrainedConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def attention(self, example: Labelled, maps: Maps, joined: Joined) -> TextWeights:
        """Return what the class reads.

        The last position of a causal model, or all, on average.
        """
        weights = joined(maps)
        row = weights[-1] if self.config.is_causal else weights.mean(0)
        return self._shade(example, row, CLASS)


READING = "reading"


class TwoTexts(Form[Texts]):
    """Each word of the second text, or all of it, attends to the first text."""

    attention_modules = READING

    texts = frozenset({2})
    config: RocktaschelConfig

    def encode(self, example: Labelled) -> Texts:
        return tuple(self.tokenizer.encode(text) for text in example.texts)

    def positions(self, encoded: Texts) -> int:
        return 1 + max(map(len, encoded))  # a delimiter stands before either

    def collate(self, examples: Sequence[tuple[Texts, Target]]) -> TwoTextBatch:
        return collate_two_texts(examples)

    def attention(
        self, example: Labelled, maps: Maps, joined: Joined
    ) -> Alignment | TextWeights | None:
        """A row for each word of the second text, or the first text where it is read once. The
        second reading of a model that also exchanges the texts is left out."""
        if self.config.reading == "none":
            return None
        first, second = (
            words_of(text, self.tokenizer.offsets(text)) for text in example.texts
        )
        once = self.config.reading == "last"
        shape = 1 if once else len(second.indices), len(first.indices)
        weights = np.zeros(shape)
        if weights.size:
            weights[:] = shares(
                maps[READING][0, : shape[0], : shape[1]].double().cpu().numpy()
            )
        if once:
            return shade_text(self.tokenizer, example.texts[:1], list(weights), CLASS)
        return Alignment(
            join_words(weights, first.indices, second.indices),
            first.labels,
            second.labels,
        )

    def gradient(
        self, example: Labelled, result: Sequence[Contribution], label: str
    ) -> TextWeights:
        pair = [words_of(text, self.tokenizer.offsets(text)) for text in example.texts]
        return shade_text(
            self.tokenizer, example.texts, self.amounts(result, pair), label
        )

    def amounts(
        self, result: Sequence[Contribution], pair: Sequence[Words]
    ) -> list[np.ndarray]:
        """The contributions of each text's tokens, from the calls of the embedding."""
        return of_each(result, pair)


def of_each(result: Sequence[Contribution], pair: Sequence[Words]) -> list[np.ndarray]:
    """Return the contributions of each text's tokens, summed over the readings.

    One text, then the other behind a special token; in a second reading, which is a
    second row, the texts are exchanged. A first text without tokens is not embedded.
    """
    amounts = [np.zeros(len(words.indices)) for words in pair]
    for call in result:
        behind_mark = int(
            call.embedded.shape[1] > 0 and call.embedded[0, 0] == SPECIAL.start
        )
        for way, row in enumerate(call.amounts[0].double().cpu().numpy()):
            choice = (way + behind_mark) % 2
            amounts[choice] += row[behind_mark:][: len(amounts[choice])]
    return amounts


READS = "second_reads"


class ComparedTexts(TwoTexts):
    """Each word of either text attends to the words of the other."""

    attention_modules = READS

    def attention(
        self, example: Labelled, maps: Maps, joined: Joined
    ) -> Alignment | None:
        """A row for each word of the second text, with its weights on the words of the first."""
        first, second = (
            words_of(text, self.tokenizer.offsets(text)) for text in example.texts
        )
        weights = shares(
            maps[READS][0, : len(second.indices), : len(first.indices)]
            .double()
            .cpu()
            .numpy()
        )
        return Alignment(
            join_words(weights, first.indices, second.indices),
            first.labels,
            second.labels,
        )

    def amounts(
        self, result: Sequence[Contribution], pair: Sequence[Words]
    ) -> list[np.ndarray]:
        """Return the model embeds the first text, then the second."""
        return [
            call.amounts[0, 0].double().cpu().numpy()[: len(words.indices)]
            for call, words in zip(result, pair, strict=True)
        ]
