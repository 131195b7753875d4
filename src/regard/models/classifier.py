"""The base class of classifiers, and a recurrent tagger."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.memory import Memory
from regard.models.sizes import Share, Size, check_heads
from regard.nn.layers import Dropout, TokenEmbedding
from regard.nn.recurrent import SequenceReader
from regard.shapes import Lengths, TagLogits, Tokens


class Classifier(nn.Module):
    """A model whose `forward` returns logits `(batch, class)`, computed by its `output`.

    Attributes:
        form: The name of the form of its inputs (`tasks/classification/forms`); for
            `text`, `forward` takes tokens `(batch, position)`, padded on the right, and
            lengths `(batch,)`.
    """

    form: ClassVar[str] = "text"
    output: nn.Linear


@dataclass(frozen=True)
class RecurrentTaggerConfig:
    """The sizes and options of `RecurrentTagger`.

    `width` is that of one direction of the LSTM. A row has at most `context` tokens.
    """

    name: Literal["recurrent-tagger"] = "recurrent-tagger"
    embedding: Size = 100
    width: Size = 100
    heads: Size = 4
    context: Size = 512
    dropout: Share = 0.3

    def __post_init__(self) -> None:
        check_heads(2 * self.width, self.heads)


class RecurrentTagger(nn.Module):
    """s = BiLSTM(x);  h_i = LayerNorm(s_i + attend(s_i, s));  logits_i = W h_i + b."""

    config_class = RecurrentTaggerConfig

    self_attention = "attention"

    def __init__(self, vocabulary: int, tags: int, config: RecurrentTaggerConfig):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary, config.embedding, config.dropout)
        self.reader = SequenceReader("lstm", config.embedding, config.width)
        width = self.reader.output_width
        self.attention = MultiHead(width, config.heads)
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, tags)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
    ) -> TagLogits:
        """Process tokens `(batch, position)`, padded on the right.

        Returns:
            Logits `(batch, position, tag)`.
        """
        states, _ = self.reader(self.embedding(tokens), lengths)
        context = self.attention(states, Memory.of(states, lengths))
        return self.output(self.dropout(self.norm(states + context)))
