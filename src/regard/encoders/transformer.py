"""The self-attentive encoder (Vaswani 2017, section 3.1)."""

from collections.abc import Iterable

from torch import nn

from regard.encoders.protocol import Encoder
from regard.heads import MultiHead
from regard.layers.dropout import Dropout
from regard.layers.embeddings import Embedding
from regard.layers.feedforward import FeedForward
from regard.layers.positions import Positions
from regard.layers.residual import Residual
from regard.layers.summary import mean
from regard.masks import Mask, padding
from regard.memory import Memory
from regard.shapes import Lengths, States, Tokens


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside its residual."""

    def __init__(self, self_attention: MultiHead, feedforward: FeedForward, residuals: tuple[Residual, Residual]):
        super().__init__()
        self.self_attention, self.feedforward = self_attention, feedforward
        self.residuals = nn.ModuleList(residuals)

    def forward(self, states: States, mask: Mask | None) -> States:
        states = self.residuals[0](states, lambda x: self.self_attention(x, Memory(x, x, mask, clean=False)))
        return self.residuals[1](states, self.feedforward)


class TransformerEncoder(Encoder):
    """Layers over embeddings with positions. The summary is the mean of the states of real tokens."""

    self_attention = "layers.*.self_attention"

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        layers: Iterable[EncoderLayer],
        norm: nn.Module,
        dropout: float,
    ):
        super().__init__()
        self.embedding, self.positions, self.norm = embedding, positions, norm
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)
        self.memory_width = self.summary_width = embedding.width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        mask = padding(lengths, tokens.shape[1])
        states = self.dropout(self.positions(self.embedding(tokens)))
        for layer in self.layers:
            states = layer(states, mask)
        states = self.norm(states)
        return Memory.of(states, lengths, mean(states, mask, lengths), tokens)
