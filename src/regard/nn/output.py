"""Output layers beside the full softmax: sampled and adaptive softmax, copying and CTC."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.cross_entropy import (
    estimate_cross_entropy,
    sample_ids,
)
from regard.nn.layers import Output, OutputLayer, SoftmaxPart
from regard.shapes import (
    Float,
    Int,
    Lengths,
    Numbers,
    RowIds,
    Scalar,
    States,
    TokenLosses,
    Tokens,
    to_float32,
)
from regard.text.kinds import IGNORED


class LogitsOutput(nn.Identity, OutputLayer):
    """The output layer of a model whose features are the logits themselves."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.out_features = vocabulary

    def features(self, states: Tensor) -> Tensor:
        """Return the logits."""
        return states

    @property
    def output(self) -> "LogitsOutput":
        """This layer, where a model has other layers before its output layer."""
        return self

    def loss(
        self,
        features: Any,
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """Return the sum of the cross-entropies, and that of each position."""
        losses = functional.cross_entropy(
            to_float32(features).flatten(0, 1),
            targets.flatten(),
            ignore_index=IGNORED,
            reduction="none",
            label_smoothing=smoothing,
        )
        return losses.sum(), losses.detach().view(targets.shape)


class Connectionist(nn.Module):
    """The likelihood of tokens that are emitted in the order of the keys.

    The keys at which they are emitted are summed over (equation 8).

    Each key emits a token or a blank; equal tokens of successive keys count once.

    Beside the loss of a decoder that attends to the same states, this loss leads the
    states to the order of the tokens (Kim, Hori, Watanabe 2017, 1609.06773).
    """

    def __init__(self, width: int, vocabulary: int):
        super().__init__()
        self.linear = nn.Linear(width, vocabulary)

    def forward(
        self,
        states: States,
        lengths: Lengths,
        targets: Int[Tensor, "batch token"],
        target_lengths: Lengths,
        *,
        blank: int,
    ) -> Scalar:
        """Return the loss of target tokens in nats, summed over the batch.

        There are `target_lengths (batch,)` tokens and `lengths (batch,)` states of
        `(batch, key, width)`.

        `blank` is an id that no target has. A sequence with fewer states than its
        tokens need has no path and counts 0.
        """
        scores = to_float32(self.linear(states)).log_softmax(-1)
        return functional.ctc_loss(
            scores.transpose(0, 1),
            targets,
            lengths,
            target_lengths,
            blank,
            reduction="sum",
            zero_infinity=True,
        )


class SampledOutput(Output):
    """An `Output` whose training loss is estimated from `samples` words of the vocabulary.

    One sample serves all positions of a call. Ids must be sorted by frequency.
    """

    def __init__(self, *sizes: Any, samples: int, **options: Any):
        super().__init__(*sizes, **options)
        self.samples = samples

    def loss(
        self,
        features: Any,
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """Compute the loss as `Output.loss` does.

        Raises:
            ValueError: Smoothing in training, since most words have no logit.
        """
        if not self.training:
            return super().loss(features, targets, smoothing)
        if smoothing:
            raise ValueError(
                f"smoothing is {smoothing}, but a sampled softmax has no logits of all words; set it to 0"
            )
        real = targets != IGNORED
        sampled = sample_ids(self.samples, self.out_features)
        layer = features[real], self.weight, self.bias
        losses = estimate_cross_entropy(*layer, targets[real], sampled)
        return losses.sum(), losses.new_zeros(targets.shape).masked_scatter(
            real, losses.detach()
        )


class AdaptiveOutput(Output):
    """An `Output` in two steps.

    A softmax over the frequent words and one class per cluster of rarer words, then a
    softmax over the cluster's words (Grave 2017, 1609.04309, section 4; Goodman 2001).
    The loss is exact, and training is faster because few targets are in large clusters.

    Ids must be sorted by frequency. Ids below the first of `cutoffs` are frequent; each
    further cutoff ends a cluster, and the vocabulary ends the last. Cutoffs beyond the
    vocabulary are ignored. Unlike in the paper all words keep vectors of the full
    width, so that they can be tied to an embedding.
    """

    def __init__(self, *sizes: Any, cutoffs: Sequence[int], **options: Any):
        super().__init__(*sizes, **options)
        width, vocabulary = self.in_features, self.out_features
        ends = [cutoff for cutoff in cutoffs if cutoff < vocabulary]
        self.frequent = ends[0] if ends else vocabulary
        self.spans = tuple(pairwise([*ends, vocabulary]))
        self.clusters = nn.Linear(width, len(self.spans)) if self.spans else None

    def forward(self, input: Any) -> Float[Tensor, "..."]:
        """Return the log-probability of each word."""
        (weight, bias), *rare = self._layers()
        first = to_float32(functional.linear(input, weight, bias)).log_softmax(-1)
        parts = [first[..., : self.frequent]]
        for cluster, (weight, bias) in enumerate(rare, self.frequent):
            words = to_float32(functional.linear(input, weight, bias)).log_softmax(-1)
            parts.append(first[..., cluster, None] + words)
        return torch.cat(parts, -1)

    def loss(
        self,
        features: Any,
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """Compute the loss as `Output.loss` does.

        Raises:
            ValueError: Smoothing, since words of other clusters have no logit.
        """
        if smoothing:
            raise ValueError(
                f"smoothing is {smoothing}, but an adaptive softmax has no logits of all words; set it to 0"
            )
        return super().loss(features, targets)

    def parts(self, targets: RowIds) -> Iterator[SoftmaxPart]:
        inside = [(targets >= begin) & (targets < end) for begin, end in self.spans]
        first = targets
        for cluster, logits in enumerate(inside, self.frequent):
            first = first.masked_fill(logits, cluster)
        (weight, bias), *rare = self._layers()
        rows = torch.arange(len(targets), device=targets.device)
        yield SoftmaxPart(
            rows,
            weight,
            bias,
            first,
        )
        clusters = zip(
            inside,
            self.spans,
            rare,
            strict=True,
        )
        for mask, (begin, _), (weight, bias) in clusters:
            rows = mask.nonzero()[:, 0]
            yield SoftmaxPart(
                rows,
                weight,
                bias,
                targets[rows] - begin,
            )

    def _layers(self) -> list[tuple[Tensor, Tensor]]:
        """Return the weight and bias of the first step, then those of each cluster.

        The first step chooses a frequent word or a cluster.
        """
        if self.clusters is None:
            return [(self.weight, self.bias)]
        sizes = [self.frequent, *(end - begin for begin, end in self.spans)]
        (weight, *weights), (bias, *biases) = (
            self.weight.split(sizes),
            self.bias.split(sizes),
        )
        weight = torch.cat([weight, self.clusters.weight])
        bias = torch.cat([bias, self.clusters.bias])
        return [(weight, bias), *zip(weights, biases, strict=True)]


@dataclass(frozen=True, eq=False)
class CopyFeatures:
    """The input of `CopyOutput`, for each of `*batch`.

    Attributes:
        features: The input of the vocabulary's softmax, `(*batch, width)`.
        gate: The logit of generating rather than copying, `(*batch,)`.
        weights: Attention over the source, `(*batch, key)`.
        tokens: Ids of the source's words, `(*batch, key)`; those from the vocabulary's
            size on are words of this source only.
        room: Zeros, `(*batch, own)`: `own` is the largest number of such words in a source.
    """

    features: Tensor
    gate: Tensor
    weights: Tensor
    tokens: Tensor
    room: Tensor

    def __getitem__(self, index: Any) -> "CopyFeatures":
        """Return a part of `*batch`, as indexing a tensor does."""
        return CopyFeatures(*(part[index] for part in self.parts()))

    def parts(self) -> list[Tensor]:
        """Return the fields in their order."""
        return [getattr(self, field.name) for field in fields(self)]


class CopyOutput(nn.Module, OutputLayer):
    """A softmax over the vocabulary, mixed with attention over the source's words.

        P(w) = p P_vocabulary(w) + (1 - p) sum_{i: x_i = w} a_i

    See 2017, 1704.04368, equation 9. The sum is over the places of w in the source, p is
    the sigmoid of the gate, and `written` computes P_vocabulary.
    If the weights sum to less than 1, the rest goes to P_vocabulary, like a sentinel's
    weight (Merity 2017, 1609.07843, equation 6).
    """

    def __init__(self, written: Output):
        super().__init__()
        self.written = written
        self.out_features = written.out_features

    def forward(self, input: CopyFeatures) -> Float[Tensor, "*batch extended"]:
        """Return the logarithm of P; minus infinity where P is 0."""
        write, copy = gate_weights(input)
        written = to_float32(self.written(input.features)).softmax(-1)
        written = written * write[..., None]
        copied = to_float32(input.weights) * copy[..., None]
        mixture = torch.cat([written, input.room.to(written.dtype)], -1)
        mixture = mixture.scatter_add(-1, input.tokens, copied)
        return logarithm(mixture).masked_fill(mixture == 0, -torch.inf)

    def loss(
        self,
        features: CopyFeatures,
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """-log P of the targets, in the form of `Output.loss`.

        Smoothing is over the words of the vocabulary only.
        """
        real = targets != IGNORED
        rows = features[real]
        target = targets[real]
        vocabulary = self.out_features
        words = target.clamp(max=vocabulary - 1)
        likelihood = self.written.log_prob(rows.features, words).exp()
        likelihood = likelihood.masked_fill(target >= vocabulary, 0.0)
        is_copy = rows.tokens == target[:, None]
        copied = (to_float32(rows.weights) * is_copy).sum(-1)
        write, copy = gate_weights(rows)
        losses = -(1 - smoothing) * logarithm(write * likelihood + copy * copied)
        if smoothing:
            logits = to_float32(self.written(rows.features))
            losses = losses - smoothing * logits.log_softmax(-1).mean(-1)
        return losses.sum(), losses.new_zeros(targets.shape).masked_scatter(
            real, losses.detach()
        )


def gate_weights(
    input: CopyFeatures,
) -> tuple[Numbers, Numbers]:
    """Return the share of generating, and the factor of the attention weights.

    Both `*batch`.
    """
    gate = to_float32(input.gate)
    weights = to_float32(input.weights)
    remainder = 1 - weights.sum(-1)
    rounding = weights.shape[-1] * torch.finfo(weights.dtype).eps
    remainder = remainder.masked_fill(remainder <= rounding, 0.0)
    copy = (-gate).sigmoid()
    return gate.sigmoid() + copy * remainder, copy


def logarithm(probabilities: Tensor) -> Tensor:
    """Logarithm of probabilities, finite at 0."""
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
