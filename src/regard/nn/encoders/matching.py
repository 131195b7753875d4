"""An encoder of one text whose words are compared with each other, such as a question in front of its paragraph."""

import torch
from torch import nn

from regard.attention import Attend
from regard.attention.masks import Dense, padding
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.nn.embeddings import Embedding
from regard.nn.encoders.protocol import Encoder
from regard.nn.recurrent import SequenceReader
from regard.nn.sublayers import Dropout
from regard.shapes import Lengths, Tokens


class MatchingEncoder(Encoder):
    """A bidirectional LSTM over embeddings, each beside the other words of its text that are like it (the aligned
    embedding of Chen 2017, 1704.00051, section 3.2, within one text):

        c_i = sum_j softmax_j(relu(W x_i) . relu(W x_j)) x_j  over j /= i,  h = BiLSTM([x; c])

    A word that occurs twice finds itself, however rare it is. The only word of a text finds zeros. The summary is the
    LSTM's final state.
    """

    def __init__(self, embedding: Embedding, width: int, dropout: float = 0.0):
        super().__init__()
        size = embedding.width
        self.embedding, self.dropout = embedding, Dropout(dropout)
        self.alike, self.attend = (
            nn.Sequential(nn.Linear(size, size), nn.ReLU()),
            Attend(Dot()),
        )
        self.reader = SequenceReader("lstm", 2 * size, width)
        self.memory_width = self.summary_width = self.reader.output_width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        size = tokens.shape[1]
        others = padding(lengths, size) & Dense(
            ~torch.eye(size, dtype=torch.bool, device=tokens.device)
        )
        words = self.embedding(tokens)
        alike = self.alike(words)
        matched = self.attend(alike, Memory(alike, words.to(alike), others))
        states, final = self.reader(torch.cat([words, matched], -1), lengths)
        return Memory.of(self.dropout(states), lengths, final, tokens)
