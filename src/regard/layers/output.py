"""From features to logits, and the loss of given tokens."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.cross_entropy import cross_entropy
from regard.layers.embeddings import TokenEmbedding
from regard.shapes import Float, Tokens
from regard.text.special import PAD

NEVER = -1e4
"""The logit, but for what the features add, of a token that is never predicted: its exponential is zero."""


class Predictor(ABC):
    """What stands last in a decoder: a module from features to logits of `out_features` tokens, and their loss."""

    out_features: int

    @abstractmethod
    def __call__(self, input: Any) -> Tensor:
        """Features of `*batch` -> logits `(*batch, token)`."""

    @abstractmethod
    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """The loss of `targets (batch, position)`, padding left out, given the features there: the sum, and without a
        gradient what each position adds."""


class Output(nn.Linear, Predictor):
    """Features `(*batch, width)` to logits `(*batch, vocabulary)`; `tied` shares its weight with an embedding of the
    same vocabulary and width. Without a `bias` to learn, the first `closed` tokens can be such as are never predicted.

    Raises:
        ValueError: the embedding to tie to has other sizes.
    """

    def __init__(
        self, width: int, vocabulary: int, tied: TokenEmbedding | None = None, *, bias: bool = True, closed: int = 0
    ):
        super().__init__(width, vocabulary, bias)
        if bias:
            nn.init.zeros_(self.bias)
        else:
            del self.bias
            fixed = torch.zeros(vocabulary).index_fill(0, torch.arange(closed), NEVER)
            self.register_buffer("bias", fixed, persistent=False)
        if tied is not None:
            if (tied.vocabulary, tied.width) != (vocabulary, width):
                raise ValueError(
                    f"cannot tie an output of {vocabulary} x {width} to an embedding of {tied.vocabulary} x "
                    f"{tied.width}"
                )
            self.weight = tied.table.weight

    @torch.no_grad()
    def start_from(self, counts: Float[Tensor, "token"]) -> None:
        """Set the bias so that where the features say nothing, tokens are as likely as the training data's `counts`
        make them, each counted once more. Features that saturate, as Luong's do, are else driven to say it
        themselves."""
        self.bias.copy_((counts + 1).log() - (counts + 1).sum().log())

    def forward(self, input: Any) -> Float[Tensor, "..."]:
        return super().forward(input)

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """The cross-entropy of `targets (batch, position)`, padding left out, given the features there: the sum, and
        without a gradient what each position adds. The logits are never all stored."""
        flat = targets.flatten()
        real = (flat != PAD).nonzero()[:, 0]
        total, losses = cross_entropy(features.flatten(0, 1)[real], self.weight, self.bias, flat[real], smoothing)
        return total, losses.new_zeros(len(flat)).index_copy(0, real, losses).view(targets.shape)
