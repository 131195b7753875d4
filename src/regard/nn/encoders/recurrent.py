"""Recurrent encoders."""

from regard.attention.memory import Memory
from regard.nn.embeddings import Embedding
from regard.nn.encoders.protocol import Encoder
from regard.nn.recurrent import Reader
from regard.nn.sublayers import Dropout
from regard.shapes import Lengths, Tokens


class RecurrentEncoder(Encoder):
    """Embeddings through a recurrent reader. The summary is the reader's final state (see `regard.nn.recurrent`)."""

    def __init__(self, embedding: Embedding, reader: Reader, dropout: float = 0.0):
        super().__init__()
        self.embedding, self.reader = embedding, reader
        self.dropout = Dropout(dropout)
        self.memory_width = self.summary_width = reader.output_width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        states, final = self.reader(self.embedding(tokens), lengths)
        return Memory.of(self.dropout(states), lengths, final, tokens)
