"""One text or two with special tokens between, as BERT reads them."""

from collections.abc import Sequence

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.bert_inputs import Ids, bert_input
from regard.data.token_words import side
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.models.bert import BertClassifier, BertConfig
from regard.tasks.classification.batch import MarkedBatch, Target, collate_marked, shortened
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.protocol import Form, Joined

Texts = tuple[Ids, ...]
"""The tokens of one text, or of two."""


class MarkedTexts(Form[Texts]):
    """At most `context` tokens, special tokens included; more are refused, or with `truncate` cut, the longer of two
    texts first. The tokens attend to each other."""

    attention_modules = BertClassifier.self_attention
    several = True

    texts = frozenset({1, 2})
    config: BertConfig

    def encoded(self, example: Labelled) -> Texts:
        texts = tuple(self.tokenizer.encode(text) for text in example.texts)
        most = self.config.context - 1 - len(texts)
        tokens = sum(map(len, texts))
        if tokens > most and not self.truncate:
            raise InputError(
                f"{example.place}: {tokens} tokens and {1 + len(texts)} special tokens, but the model takes "
                f"{self.config.context}; shorten it, or train with --set truncate=true, which "
                "cuts such texts, or with a larger model.context"
            )
        return shortened(texts, most)

    def positions(self, encoded: Texts) -> int:
        return sum(map(len, encoded)) + 1 + len(encoded)

    def collate(self, examples: Sequence[tuple[Texts, Target]]) -> MarkedBatch:
        return collate_marked(examples, self.tokenizer.special)

    def attention(self, example: Labelled, maps: Maps, joined: Joined) -> Alignment:
        """The attention between all tokens. Raises InputError as `joined` does."""
        tokens = self._tokens(example)
        return Alignment(joined(maps), tokens, tokens)

    def gradient(self, example: Labelled, found: Sequence[Contributed], label: str) -> Alignment:
        """One row, the label's."""
        return Alignment(found[0].shares(), self._tokens(example), (label,))

    def _tokens(self, example: Labelled) -> tuple[str, ...]:
        """The pieces of the input, special tokens included."""
        return tuple(self.tokenizer.pieces(bert_input(self.tokenizer.special, *self.encoded(example))[0]))

    def side(self, example: Labelled) -> Side:
        return side(self.tokenizer, bert_input(self.tokenizer.special, *self.encoded(example))[0])
