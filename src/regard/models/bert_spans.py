"""BERT with a layer that tells where an answer begins and ends (Devlin et al. 2019, section 4.2)."""

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.bert import BertConfig, BertEncoder, start
from regard.shapes import Float, Lengths, Tokens


class BertSpans(nn.Module):
    """The encoder, and the dot products of its states with two vectors: how well an answer begins and ends there."""

    self_attention = "encoder.layers.*.self_attention"

    def __init__(self, vocabulary: int, config: BertConfig):
        super().__init__()
        self.encoder = BertEncoder(vocabulary, config)
        self.output = nn.Linear(config.width, 2)
        start(self.output)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Float[Tensor, "batch position 2"]:
        """Logits `(batch, position, 2)` of where an answer begins and ends, minus infinity past each length."""
        logits = self.output(self.encoder(tokens, lengths, segments))
        return logits.masked_fill(~padding(lengths, tokens.shape[1]).readable()[..., None], -torch.inf)
