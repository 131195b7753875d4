"""Two texts, each in a sequence of its own."""

from collections.abc import Sequence

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.token_words import words_of
from regard.maps import Alignment, join_words, shares
from regard.maps.text import TextWeights
from regard.maps.words import Words
from regard.models.rocktaschel import RocktaschelConfig
from regard.tasks.classification.batch import Target, TwoTextBatch, collate_two_texts
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.marked_texts import Texts
from regard.tasks.classification.forms.protocol import CLASS, Form, Joined
from regard.tasks.shading import shaded_text
from regard.text.special import SPECIAL

READING = "reading"


class TwoTexts(Form[Texts]):
    """Each word of the second text, or all of it, attends to the first text."""

    attention_modules = READING

    texts = frozenset({2})
    config: RocktaschelConfig

    def encoded(self, example: Labelled) -> Texts:
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
            return shaded_text(self.tokenizer, example.texts[:1], list(weights), CLASS)
        return Alignment(
            join_words(weights, first.indices, second.indices),
            first.labels,
            second.labels,
        )

    def gradient(
        self, example: Labelled, found: Sequence[Contributed], label: str
    ) -> TextWeights:
        both = [words_of(text, self.tokenizer.offsets(text)) for text in example.texts]
        return shaded_text(
            self.tokenizer, example.texts, self.amounts(found, both), label
        )

    def amounts(
        self, found: Sequence[Contributed], both: Sequence[Words]
    ) -> list[np.ndarray]:
        """The contributions of each text's tokens, from the calls of the embedding."""
        return of_each(found, both)


def of_each(found: Sequence[Contributed], both: Sequence[Words]) -> list[np.ndarray]:
    """The contributions of each text's tokens, summed over the readings: one text, then the other behind a special
    token; in a second reading, which is a second row, the texts are exchanged. A first text without tokens is not
    embedded."""
    amounts = [np.zeros(len(words.indices)) for words in both]
    for call in found:
        behind_mark = int(
            call.embedded.shape[1] > 0 and call.embedded[0, 0] == SPECIAL.start
        )
        for way, row in enumerate(call.amounts[0].double().cpu().numpy()):
            which = (way + behind_mark) % 2
            amounts[which] += row[behind_mark:][: len(amounts[which])]
    return amounts
