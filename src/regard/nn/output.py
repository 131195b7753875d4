"""From features to logits, and the loss of given tokens."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.cross_entropy import cross_entropy
from regard.nn.embeddings import TokenEmbedding
from regard.shapes import Float, Int, Tokens
from regard.text.special import IGNORED

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
        """The loss of `targets (batch, position)` given the features there, `IGNORED` left out: the sum, and without a
        gradient what each position adds."""


@dataclass(frozen=True, eq=False)
class Part:
    """A softmax over some words or classes of words: of which rows it tells something, `(row,)`, the weight
    `(class, width)` and bias `(class,)` of its logits, and which class is told in each row, `(row,)`."""

    rows: Tensor
    weight: Tensor
    bias: Tensor
    targets: Tensor


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

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """The cross-entropy of `targets (batch, position)` given the features there, `IGNORED` left out: the sum, and
        without a gradient what each position adds. The logits are never all stored."""
        flat = targets.flatten()
        real = (flat != IGNORED).nonzero()[:, 0]
        total, each = self.weight.new_zeros(()), self.weight.new_zeros(len(flat))
        for part in self.parts(flat[real]):
            rows = real[part.rows]
            loss, losses = cross_entropy(features.flatten(0, 1)[rows], part.weight, part.bias, part.targets, smoothing)
            total, each = total + loss, each.index_add(0, rows, losses)
        return total, each.view(targets.shape)

    def log_likelihoods(
        self, features: Float[Tensor, "row width"], targets: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        """log p of each target given its features, with a gradient; unlike `loss`, logits are stored."""
        found = wide(features.new_zeros(len(targets)))
        for part in self.parts(targets):
            logs = wide(functional.linear(features[part.rows], part.weight, part.bias)).log_softmax(-1)
            found = found.index_add(0, part.rows, logs.gather(1, part.targets[:, None])[:, 0])
        return found

    def parts(self, targets: Int[Tensor, " row"]) -> Iterator[Part]:
        """The softmaxes whose probabilities, multiplied, are those of `targets`: here a single one."""
        yield Part(torch.arange(len(targets), device=targets.device), self.weight, self.bias, targets)


def wide(numbers: Tensor) -> Tensor:
    """In at least fp32."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))
