"""Two texts, each by itself."""

from collections.abc import Sequence

import numpy as np

from regard.data.class_batch import TwoTextBatch, collate_two_texts
from regard.data.labelled import Labelled
from regard.inference.words import words_of
from regard.maps import Alignment, join_words
from regard.models.rocktaschel import ReadingName
from regard.recording import Maps
from regard.tasks.classification.forms.marked_texts import Texts
from regard.tasks.classification.forms.protocol import Form
from regard.text import Tokenizer

READING = "reading"


class TwoTexts(Form[Texts]):
    """What is looked at is the first text, by each word of the second or by all of it."""

    listens = READING

    def __init__(self, tokenizer: Tokenizer, reading: ReadingName):
        self.tokenizer, self.reading = tokenizer, reading

    def encoded(self, example: Labelled) -> Texts:
        return tuple(self.tokenizer.encode(text) for text in example.texts)

    def positions(self, encoded: Texts) -> int:
        return 1 + max(map(len, encoded))  # a delimiter stands before either

    def collate(self, examples: Sequence[tuple[Texts, int]]) -> TwoTextBatch:
        return collate_two_texts(examples)

    def looked(self, example: Labelled, maps: Maps, numbers: Sequence[int] | None = None) -> Alignment | None:
        """A row a word of the second text. Where the texts are exchanged too, that is a second reading, which is not
        shown."""
        if self.reading == "none":
            return None
        first, second = (words_of(text, self.tokenizer.offsets(text)) for text in example.texts)
        once = self.reading == "last"
        shape = 1 if once else len(second.indices), len(first.indices)
        weights = np.zeros(shape)
        if weights.size:
            weights[:] = maps[READING][0, : shape[0], : shape[1]].double().cpu().numpy()
        rows, labels = ((0,), (example.texts[1],)) if once else (second.indices, second.labels)
        return Alignment(join_words(weights, first.indices, rows), first.labels, labels)
