"""One text or two with special tokens between, as BERT reads them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.bert_inputs import Ids, bert_input, marks
from regard.data.token_words import side
from regard.data.truncation import Limit
from regard.maps.heads import Side
from regard.maps.text import TextWeights
from regard.models.bert import BertClassifier, BertConfig
from regard.tasks.classification.batch import (
    MarkedBatch,
    Target,
    collate_marked,
    shortened,
)
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.protocol import CLASS, CONTEXT, Form, Joined
from regard.tasks.shading import shaded_text

Texts = tuple[Ids, ...]
"""The tokens of one text, or of two."""


class MarkedTexts(Form[Texts]):
    """At most `context` tokens, special tokens included; more are refused, or with `truncate` cut, the longer of two
    texts first. The tokens attend to each other."""

    attention_modules = BertClassifier.self_attention
    several = True

    texts = frozenset({1, 2})
    config: BertConfig

    @property
    def longest(self) -> Limit:
        return Limit(self.config.context, marks(self.tokenizer.special, 1), CONTEXT)

    def whole(self, example: Labelled) -> int:
        return self.positions(tuple(map(self.tokenizer.encode, example.texts)))

    def encoded(self, example: Labelled) -> Texts:
        texts = tuple(self.tokenizer.encode(text) for text in example.texts)
        around = marks(self.tokenizer.special, len(texts))
        self.require_room(example, sum(map(len, texts)), around)
        return shortened(texts, self.config.context - around)

    def positions(self, encoded: Texts) -> int:
        return sum(map(len, encoded)) + marks(self.tokenizer.special, len(encoded))

    def collate(self, examples: Sequence[tuple[Texts, Target]]) -> MarkedBatch:
        return collate_marked(examples, self.tokenizer.special)

    def attention(self, example: Labelled, maps: Maps, joined: Joined) -> TextWeights:
        """What the first position, from which the class is predicted, reads of the texts; special tokens are left out.
        Raises InputError as `joined` does."""
        return self._shaded(example, joined(maps)[0], CLASS)

    def gradient(
        self, example: Labelled, found: Sequence[Contributed], label: str
    ) -> TextWeights:
        return self._shaded(
            example, found[0].amounts[0, 0].double().cpu().numpy(), label
        )

    def _shaded(
        self, example: Labelled, row: Float[np.ndarray, " position"], name: str
    ) -> TextWeights:
        """The amounts of the positions of the texts."""
        amounts, first = [], 1
        for ids in self.encoded(example):
            amounts.append(row[first : first + len(ids)])
            first += len(ids) + self.tokenizer.special.between
        return shaded_text(self.tokenizer, example.texts, amounts, name)

    def pieces(self, example: Labelled) -> list[str]:
        return self.tokenizer.pieces(
            bert_input(self.tokenizer.special, *self.encoded(example))[0]
        )

    def side(self, example: Labelled) -> Side:
        ids, _ = bert_input(self.tokenizer.special, *self.encoded(example))
        return side(self.tokenizer, ids, texts=example.texts)
