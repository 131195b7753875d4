"""One text whose last token has read all of it, as GPT-2's classifiers read."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.bert_inputs import Ids
from regard.data.token_words import side
from regard.data.truncation import Limit
from regard.maps.heads import Side
from regard.maps.text import TextWeights
from regard.models.gpt2 import GPT2Config
from regard.tasks.classification.batch import Target, TextBatch, collate_texts
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.protocol import CLASS, CONTEXT, Form, Joined
from regard.tasks.shading import shaded_text


class LastText(Form[Ids]):
    """At most `context` tokens without special tokens; a text without tokens is the end token. More are refused, or
    with `truncate` cut at the end."""

    attention_modules = "blocks.*.self_attention"
    several = True

    config: GPT2Config

    @property
    def longest(self) -> Limit:
        return Limit(self.config.context, 0, CONTEXT)

    def whole(self, example: Labelled) -> int:
        (text,) = example.texts
        return len(self.tokenizer.encode(text))

    def encoded(self, example: Labelled) -> Ids:
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
        return self._shaded(example, joined(maps)[-1], CLASS)

    def gradient(
        self, example: Labelled, found: Sequence[Contributed], label: str
    ) -> TextWeights:
        return self._shaded(
            example, found[0].amounts[0, 0].double().cpu().numpy(), label
        )

    def _shaded(
        self, example: Labelled, row: Float[np.ndarray, " position"], name: str
    ) -> TextWeights:
        """The amounts of the tokens of the text; none of an end token in its place."""
        (text,) = example.texts
        return shaded_text(
            self.tokenizer,
            example.texts,
            [row[: len(self.tokenizer.encode(text))]],
            name,
        )

    def pieces(self, example: Labelled) -> list[str]:
        return self.tokenizer.pieces(self.encoded(example))

    def side(self, example: Labelled) -> Side:
        return side(self.tokenizer, self.encoded(example), texts=example.texts)
