"""BERT with a layer that tells where an answer begins and ends (Devlin et al. 2019, section 4.2)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import padding
from regard.models.bert import BertConfig, BertEncoder, start
from regard.shapes import Int, Lengths, Tokens


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
        *,
        expected: Int[Tensor, "batch 2"] | None = None,
    ) -> Any:
        """Logits `(batch, position, 2)`, minus infinity past each length; with `expected`, the first and last positions
        of the answers, the mean of both cross-entropies instead, summed over the batch."""
        logits = self.output(self.encoder(tokens, lengths, segments))
        logits = logits.masked_fill(~padding(lengths, tokens.shape[1]).readable()[..., None], -torch.inf)
        if expected is None:
            return logits
        return functional.cross_entropy(logits, expected, reduction="sum") / 2
