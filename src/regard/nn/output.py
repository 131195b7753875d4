"""Output layers: from features to logits, and the loss of targets."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.cross_entropy import cross_entropy
from regard.nn.embeddings import TokenEmbedding
from regard.shapes import Float, Int, Tokens, wide
from regard.text.special import IGNORED

NEVER = -1e4
"""Bias of a token that is never predicted: its exponential is zero."""


class Predictor(ABC):
    """The last module of a decoder: from features to logits of `out_features` tokens, and the loss of targets."""

    out_features: int

    @abstractmethod
    def __call__(self, input: Any) -> Tensor:
        """Features of `*batch` -> logits `(*batch, token)`."""

    @abstractmethod
    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """The loss of `targets (batch, position)` from the features there, without positions that are `IGNORED`: the
        sum, and the loss of each position without a gradient."""


@dataclass(frozen=True, eq=False)
class Part:
    """A softmax over some words or classes of words: `rows (row,)`, the positions it applies to; `weight (class,
    width)` and `bias (class,)` of its logits; `targets (row,)`, the correct class of each row."""

    rows: Tensor
    weight: Tensor
    bias: Tensor
    targets: Tensor


class Output(nn.Linear, Predictor):
    """Features `(*batch, width)` -> logits `(*batch, vocabulary)`. `tied` shares its weight with an embedding of the
    same vocabulary and width. Without a learned `bias`, the first `closed` tokens are never predicted.

    Raises:
        ValueError: the embedding to tie to has other sizes.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        tied: TokenEmbedding | None = None,
        *,
        bias: bool = True,
        closed: int = 0,
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
        """Set the bias to the log-frequencies of the tokens in `counts`, each count plus 1. Without this, features that
        saturate (Luong's tanh) must learn the frequencies themselves."""
        self.bias.copy_((counts + 1).log() - (counts + 1).sum().log())

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """The cross-entropy of `targets (batch, position)` from the features there, without positions that are
        `IGNORED`: the sum, and the loss of each position without a gradient. The logits are never all stored."""
        flat = targets.flatten()
        real = (flat != IGNORED).nonzero()[:, 0]
        total, each = self.weight.new_zeros(()), self.weight.new_zeros(len(flat))
        for part in self.parts(flat[real]):
            rows = real[part.rows]
            loss, losses = cross_entropy(
                features.flatten(0, 1)[rows],
                part.weight,
                part.bias,
                part.targets,
                smoothing,
            )
            total, each = total + loss, each.index_add(0, rows, losses)
        return total, each.view(targets.shape)

    def log_likelihoods(
        self, features: Float[Tensor, "row width"], targets: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        """log p of each target given its features, with a gradient. Unlike `loss` it stores the logits."""
        found = wide(features.new_zeros(len(targets)))
        for part in self.parts(targets):
            logs = wide(
                functional.linear(features[part.rows], part.weight, part.bias)
            ).log_softmax(-1)
            found = found.index_add(
                0, part.rows, logs.gather(1, part.targets[:, None])[:, 0]
            )
        return found

    def parts(self, targets: Int[Tensor, " row"]) -> Iterator[Part]:
        """The softmaxes whose probabilities multiply to those of `targets`; here only one."""
        yield Part(
            torch.arange(len(targets), device=targets.device),
            self.weight,
            self.bias,
            targets,
        )
