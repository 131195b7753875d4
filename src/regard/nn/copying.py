"""An output layer that generates a word of the vocabulary or copies a word of the source."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from regard.nn.output import Output, Predictor
from regard.shapes import Float, Tokens, wide
from regard.text.special import IGNORED


@dataclass(frozen=True, eq=False)
class Copying:
    """The input of `CopyOutput`, for each of `*batch`.

    features: `(*batch, width)`, input of the vocabulary's softmax
    gate: `(*batch,)`, logit of generating rather than copying
    weights: `(*batch, key)`, attention over the source
    tokens: `(*batch, key)`, ids of the source words; ids from the vocabulary's size on are words of this source only
    room: `(*batch, own)`, zeros; `own` is the largest number of such words in a source of the batch
    """

    features: Tensor
    gate: Tensor
    weights: Tensor
    tokens: Tensor
    room: Tensor

    def at(self, position: int) -> "Copying":
        """One position of `(batch, position, ...)`."""
        return Copying(
            *(getattr(self, each.name)[:, position] for each in fields(self))
        )


def stacked(steps: Sequence[Copying]) -> Copying:
    """Join steps `(batch, ...)` into `(batch, position, ...)`."""
    return Copying(
        *(
            torch.stack([getattr(step, each.name) for step in steps], 1)
            for each in fields(Copying)
        )
    )


class CopyOutput(nn.Module, Predictor):
    """P(w) = p P_vocabulary(w) + (1 - p) sum_{i: x_i = w} a_i over the vocabulary and the source's own words (See 2017,
    1704.04368, equation 9), where p is the sigmoid of the gate and `written` computes P_vocabulary. If the weights sum
    to less than 1, the rest goes to P_vocabulary, like a sentinel's weight (Merity 2017, 1609.07843, equation 6)."""

    def __init__(self, written: Output):
        super().__init__()
        self.written, self.out_features = written, written.out_features

    def forward(self, input: Copying) -> Float[Tensor, "*batch extended"]:
        """The logarithm of P; minus infinity where P is 0."""
        write, copy = shares(input)
        written = wide(self.written(input.features)).softmax(-1) * write[..., None]
        copied = wide(input.weights) * copy[..., None]
        both = torch.cat([written, input.room.to(written.dtype)], -1).scatter_add(
            -1, input.tokens, copied
        )
        return logarithm(both).masked_fill(both == 0, -torch.inf)

    def loss(
        self, features: Copying, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """-log P of the targets, in the form of `Output.loss`. Smoothing is over the words of the vocabulary only."""
        real = targets != IGNORED
        rows = Copying(
            *(getattr(features, each.name)[real] for each in fields(Copying))
        )
        target, vocabulary = targets[real], self.out_features
        known = self.written.log_likelihoods(
            rows.features, target.clamp(max=vocabulary - 1)
        ).exp()
        found = (wide(rows.weights) * (rows.tokens == target[:, None])).sum(-1)
        write, copy = shares(rows)
        both = write * known.masked_fill(target >= vocabulary, 0.0) + copy * found
        losses = -(1 - smoothing) * logarithm(both)
        if smoothing:
            losses = losses - smoothing * wide(self.written(rows.features)).log_softmax(
                -1
            ).mean(-1)
        return losses.sum(), losses.new_zeros(targets.shape).masked_scatter(
            real, losses.detach()
        )


def shares(input: Copying) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """The share of generating, and the factor of the attention weights; both `*batch`."""
    gate, weights = wide(input.gate), wide(input.weights)
    left = 1 - weights.sum(-1)
    rounding = weights.shape[-1] * torch.finfo(weights.dtype).eps
    copy = (-gate).sigmoid()
    return gate.sigmoid() + copy * left.masked_fill(left <= rounding, 0.0), copy


def logarithm(probabilities: Tensor) -> Tensor:
    """Logarithm of probabilities, finite at 0."""
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
