"""A bidirectional LSTM with self-attention over its states, and a tag for each token.

The LSTM is that of Huang, Xu, Yu 2015, "Bidirectional LSTM-CRF models for sequence tagging" (1508.01991), without the
conditional random field. Each token reads the states of all tokens with several heads (Vaswani 2017, section 3.2.2);
the context is added to its state.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.memory import Memory
from regard.models.sizes import Share, Size, check_heads
from regard.nn.embeddings import TokenEmbedding
from regard.nn.recurrent import SequenceReader
from regard.nn.sublayers import Dropout
from regard.shapes import Float, Lengths, Tokens


@dataclass(frozen=True)
class RecurrentTaggerConfig:
    """Sizes. `width` is that of one direction of the LSTM. A row has at most `context` tokens."""

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
        self.embedding = TokenEmbedding(
            vocabulary, config.embedding, dropout=config.dropout
        )
        self.reader = SequenceReader("lstm", config.embedding, config.width)
        width = self.reader.output_width
        self.attention = MultiHead(width, config.heads)
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, tags)

    def forward(
        self, tokens: Tokens, lengths: Lengths
    ) -> Float[Tensor, "batch position tag"]:
        """Tokens `(batch, position)`, padded on the right -> logits `(batch, position, tag)`."""
        states, _ = self.reader(self.embedding(tokens), lengths)
        context = self.attention(states, Memory.of(states, lengths))
        return self.output(self.dropout(self.norm(states + context)))
