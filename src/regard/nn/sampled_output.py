"""An output layer over a large vocabulary, trained on samples of it."""

from typing import Any

from torch import Tensor

from regard.kernels.sampled_softmax import draw, sampled_cross_entropy
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.shapes import Float, Tokens
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
        drawn = draw(self.samples, self.out_features)
        losses = sampled_cross_entropy(features[real], self.weight, self.bias, targets[real], drawn)
        return losses.sum(), losses.new_zeros(targets.shape).masked_scatter(real, losses.detach())
