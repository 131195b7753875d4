"""Output layers for a large vocabulary: one trains on samples of it, one predicts rare words by clusters."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.cross_entropy import draw, sampled_cross_entropy
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output, Part
from regard.shapes import Float, Int, Tokens, wide
from regard.text.special import IGNORED


class SampledOutput(Output):
    """An `Output` whose training loss is estimated from `samples` words of the vocabulary. One sample serves all
    positions of a call. Ids must be sorted by frequency."""

    def __init__(
        self,
        width: int,
        vocabulary: int,
        tied: TokenEmbedding | None = None,
        *,
        samples: int,
        bias: bool = True,
        closed: int = 0,
    ):
        super().__init__(width, vocabulary, tied, bias=bias, closed=closed)
        self.samples = samples

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """As `Output.loss`. Raises ValueError for smoothing in training, since most words have no logit."""
        if not self.training:
            return super().loss(features, targets, smoothing)
        if smoothing:
            raise ValueError(
                f"smoothing is {smoothing}, but a sampled softmax has no logits of all words; set it to 0"
            )
        real = targets != IGNORED
        sampled = draw(self.samples, self.out_features)
        losses = sampled_cross_entropy(
            features[real], self.weight, self.bias, targets[real], sampled
        )
        return losses.sum(), losses.new_zeros(targets.shape).masked_scatter(
            real, losses.detach()
        )


class AdaptiveOutput(Output):
    """An `Output` in two steps: a softmax over the frequent words and one class per cluster of rarer words, then a
    softmax over the cluster's words (Grave 2017, 1609.04309, section 4; Goodman 2001). The loss is exact, and training
    is faster because few targets are in large clusters.

    Ids must be sorted by frequency. Ids below the first of `cutoffs` are frequent; each further cutoff ends a cluster,
    and the vocabulary ends the last. Cutoffs beyond the vocabulary are ignored. Unlike in the paper all words keep
    vectors of the full width, so that they can be tied to an embedding.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        tied: TokenEmbedding | None = None,
        *,
        cutoffs: Sequence[int],
        bias: bool = True,
        closed: int = 0,
    ):
        super().__init__(width, vocabulary, tied, bias=bias, closed=closed)
        ends = [cutoff for cutoff in cutoffs if cutoff < vocabulary]
        self.frequent = ends[0] if ends else vocabulary
        self.spans = tuple(pairwise([*ends, vocabulary]))
        self.clusters = nn.Linear(width, len(self.spans)) if self.spans else None

    def forward(self, input: Any) -> Float[Tensor, "..."]:
        """The log-probability of each word."""
        (weight, bias), *rare = self._layers()
        first = wide(functional.linear(input, weight, bias)).log_softmax(-1)
        found = [first[..., : self.frequent]]
        for cluster, (weight, bias) in enumerate(rare, self.frequent):
            found.append(
                first[..., cluster, None]
                + wide(functional.linear(input, weight, bias)).log_softmax(-1)
            )
        return torch.cat(found, -1)

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """As `Output.loss`. Raises ValueError for smoothing, since words of other clusters have no logit."""
        if smoothing:
            raise ValueError(
                f"smoothing is {smoothing}, but an adaptive softmax has no logits of all words; set it to 0"
            )
        return super().loss(features, targets)

    def parts(self, targets: Int[Tensor, " row"]) -> Iterator[Part]:
        inside = [(targets >= begin) & (targets < end) for begin, end in self.spans]
        first = targets
        for cluster, logits in enumerate(inside, self.frequent):
            first = first.masked_fill(logits, cluster)
        (weight, bias), *rare = self._layers()
        yield Part(
            torch.arange(len(targets), device=targets.device), weight, bias, first
        )
        for logits, (begin, _), (weight, bias) in zip(
            inside, self.spans, rare, strict=True
        ):
            rows = logits.nonzero()[:, 0]
            yield Part(rows, weight, bias, targets[rows] - begin)

    def _layers(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of the first step (frequent words, then one class per cluster), then those of each
        cluster."""
        if self.clusters is None:
            return [(self.weight, self.bias)]
        sizes = [self.frequent, *(end - begin for begin, end in self.spans)]
        (weight, *weights), (bias, *biases) = (
            self.weight.split(sizes),
            self.bias.split(sizes),
        )
        first = (
            torch.cat([weight, self.clusters.weight]),
            torch.cat([bias, self.clusters.bias]),
        )
        return [first, *zip(weights, biases, strict=True)]
