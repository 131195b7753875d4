"""Two texts, each in a sequence of its own."""

from collections.abc import Sequence

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.token_words import words_of
from regard.maps import Alignment, join_words, shares
from regard.maps.words import Words
from regard.models.rocktaschel import RocktaschelConfig
from regard.tasks.classification.batch import Target, TwoTextBatch, collate_two_texts
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.documents import together
from regard.tasks.classification.forms.marked_texts import Texts
from regard.tasks.classification.forms.protocol import Form, Joined
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

    def attention(self, example: Labelled, maps: Maps, joined: Joined) -> Alignment | None:
        """A row for each word of the second text. The second reading of a model that also exchanges the texts is left
        out."""
        if self.config.reading == "none":
            return None
        first, second = (words_of(text, self.tokenizer.offsets(text)) for text in example.texts)
        once = self.config.reading == "last"
        shape = 1 if once else len(second.indices), len(first.indices)
        weights = np.zeros(shape)
        if weights.size:
            weights[:] = shares(maps[READING][0, : shape[0], : shape[1]].double().cpu().numpy())
        rows, labels = ((0,), (example.texts[1],)) if once else (second.indices, second.labels)
        return Alignment(join_words(weights, first.indices, rows), first.labels, labels)

    def gradient(self, example: Labelled, found: Sequence[Contributed], label: str) -> Alignment:
        """One row, the label's; the first text's words, then the second's."""
        both = [words_of(text, self.tokenizer.offsets(text)) for text in example.texts]
        amounts = [together(np.abs(each), words) for each, words in zip(of_each(found, both), both, strict=True)]
        row = shares(np.concatenate(amounts))
        return Alignment(row[None], tuple(word for words in both for word in words.labels), (label,))


def of_each(found: Sequence[Contributed], both: Sequence[Words]) -> list[np.ndarray]:
    """The contributions of each text's tokens, summed over the readings: one text, then the other behind a special
    token; in a second reading, which is a second row, the texts are exchanged. A first text without tokens is not
    embedded."""
    amounts = [np.zeros(len(words.indices)) for words in both]
    for call in found:
        behind_mark = int(call.embedded.shape[1] > 0 and call.embedded[0, 0] == SPECIAL.start)
        for way, row in enumerate(call.amounts[0].double().cpu().numpy()):
            which = (way + behind_mark) % 2
            amounts[which] += row[behind_mark:][: len(amounts[which])]
    return amounts
