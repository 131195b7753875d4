"""Cross-entropy over a large vocabulary, estimated from a few of its words.

The words are drawn from a log-uniform distribution over ids, P(k) = log((k + 2) / (k + 1)) / log(V + 1), near that of
words whose ids go by how frequent they are.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float, Int


def log_uniform(words: Int[Tensor, "*batch"], vocabulary: int) -> Float[Tensor, "*batch"]:
    """P of each of these words, in float64."""
    return (words.double() + 1).reciprocal().log1p() / math.log(vocabulary + 1)


def draw(samples: int, vocabulary: int) -> Int[Tensor, " sample"]:
    """Words, each drawn by itself, from the CPU's global random state whatever the device: the same ones everywhere."""
    places = torch.rand(samples, dtype=torch.float64) * math.log(vocabulary + 1)
    return (places.exp().long() - 1).clamp(0, vocabulary - 1)


def sampled_cross_entropy(
    features: Float[Tensor, "row width"],
    weight: Float[Tensor, "word width"],
    bias: Float[Tensor, " word"],
    targets: Int[Tensor, " row"],
    drawn: Int[Tensor, " sample"],
) -> Float[Tensor, " row"]:
    """log(1 + sum_k exp(o_k - o_t) / (S P(k))) over the S words drawn, but for the target t, o = W f + b: importance
    sampling of the sum over the vocabulary (Bengio, Senecal 2003; Jozefowicz 2016, 1602.02410, section 3.1).

    The exponential of this has as its expectation that of the exact loss.
    """
    wide = torch.promote_types(weight.dtype, torch.float32)
    told = (features * weight[targets]).sum(-1).to(wide) + bias[targets]
    correction = (log_uniform(drawn, len(weight)) * len(drawn)).log().to(bias)
    drawn = drawn.to(targets.device)
    others = functional.linear(features, weight[drawn], bias[drawn]).to(wide) - correction
    others = others.masked_fill(drawn == targets[:, None], -torch.inf)
    return torch.cat([told[:, None], others], 1).logsumexp(1) - told
