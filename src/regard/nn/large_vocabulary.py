"""Output layers over a large vocabulary: one is trained on samples of it, one predicts rare words in clusters."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.cross_entropy import draw, sampled_cross_entropy
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output, Part, wide
from regard.shapes import Float, Int, Tokens
from regard.text.special import IGNORED


class SampledOutput(Output):
    """As `Output`, but while training the loss is estimated from words drawn from the vocabulary, whose ids must go by
    how frequent they are; the same `samples` words for all positions, other ones at each call."""

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
        """As `Output.loss`. Raises ValueError for smoothing while training: most words have no logit."""
        if not self.training:
            return super().loss(features, targets, smoothing)
        if smoothing:
            raise ValueError(f"smoothing is {smoothing}, but a sampled softmax has no logits of all words; set it to 0")
        real = targets != IGNORED
        sampled = draw(self.samples, self.out_features)
        losses = sampled_cross_entropy(features[real], self.weight, self.bias, targets[real], sampled)
        return losses.sum(), losses.new_zeros(targets.shape).masked_scatter(real, losses.detach())


class AdaptiveOutput(Output):
    """As `Output`, in two steps: a softmax over the frequent words and one class for each cluster of rarer ones, then
    one over the words of the cluster (Grave 2017, 1609.04309, section 4; Goodman 2001). Nothing is estimated, and
    training is quicker because few targets are in large clusters.

    Words go by their ids: below the first of `cutoffs` they are frequent, and each further cutoff ends a cluster, the
    vocabulary the last. Cutoffs that lie beyond the vocabulary count for nothing. All words keep vectors of the full
    width, unlike in the paper, so that they may be tied to an embedding.
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
        """The logarithm of the probability of each word."""
        (weight, bias), *rare = self._layers()
        first = wide(functional.linear(input, weight, bias)).log_softmax(-1)
        found = [first[..., : self.frequent]]
        for cluster, (weight, bias) in enumerate(rare, self.frequent):
            found.append(first[..., cluster, None] + wide(functional.linear(input, weight, bias)).log_softmax(-1))
        return torch.cat(found, -1)

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """As `Output.loss`. Raises ValueError for smoothing: the words of other clusters have no logit."""
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
        yield Part(torch.arange(len(targets), device=targets.device), weight, bias, first)
        for logits, (begin, _), (weight, bias) in zip(inside, self.spans, rare, strict=True):
            rows = logits.nonzero()[:, 0]
            yield Part(rows, weight, bias, targets[rows] - begin)

    def _layers(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of the first step, the frequent words and then a class for each cluster, and of each
        cluster."""
        if self.clusters is None:
            return [(self.weight, self.bias)]
        sizes = [self.frequent, *(end - begin for begin, end in self.spans)]
        (weight, *weights), (bias, *biases) = self.weight.split(sizes), self.bias.split(sizes)
        first = torch.cat([weight, self.clusters.weight]), torch.cat([bias, self.clusters.bias])
        return [first, *zip(weights, biases, strict=True)]
