"""Two texts whose words attend to each other's."""

from collections.abc import Sequence

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.token_words import words_of
from regard.maps import Alignment, join_words, shares
from regard.maps.words import Words
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.protocol import Joined
from regard.tasks.classification.forms.two_texts import TwoTexts

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
        self, found: Sequence[Contributed], both: Sequence[Words]
    ) -> list[np.ndarray]:
        """The model embeds the first text, then the second."""
        return [
            call.amounts[0, 0].double().cpu().numpy()[: len(words.indices)]
            for call, words in zip(found, both, strict=True)
        ]
