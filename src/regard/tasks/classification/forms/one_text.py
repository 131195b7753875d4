"""One text as the sequence of its tokens."""

from collections.abc import Sequence

import numpy as np

from regard.attribution.gradients import Contributed
from regard.data.bert_inputs import Ids
from regard.maps.text import TextWeights
from regard.tasks.classification.batch import Target, TextBatch, collate_texts
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.protocol import Form
from regard.tasks.shading import shaded_text


class OneText(Form[Ids]):
    """The model reads tokens `(batch, position)`, padded on the right, and lengths `(batch,)`. A form of this class
    that sets `attention_modules` and overrides `attention` has weights too."""

    def encoded(self, example: Labelled) -> Ids:
        (text,) = example.texts
        return self.tokenizer.encode(text)

    def positions(self, encoded: Ids) -> int:
        return max(1, len(encoded))

    def collate(self, examples: Sequence[tuple[Ids, Target]]) -> TextBatch:
        return collate_texts(examples)

    def gradient(
        self, example: Labelled, found: Sequence[Contributed], label: str
    ) -> TextWeights:
        return self.of_tokens(
            example, found[0].amounts[0].double().cpu().numpy(), label
        )

    def of_tokens(
        self, example: Labelled, amounts: np.ndarray, label: str
    ) -> TextWeights:
        """The `amounts` of tokens, `(1, token)`, of any sign, as shares of the words."""
        return shaded_text(self.tokenizer, example.texts, list(amounts), label)
