"""Classes told by the means of their examples: Snell, Swersky, Zemel 2017, "Prototypical networks for few-shot
learning" (1703.05175)."""

import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float, Int


def prototype_logits(
    shown: Float[Tensor, "batch shown width"],
    labels: Int[Tensor, "batch shown"],
    asked: Float[Tensor, "batch asked width"],
    ways: int,
) -> Float[Tensor, "batch asked way"]:
    """Minus the squared distance of each vector that is `asked` about to the mean of every class of those `shown`, of
    which each has its label, from 0 to `ways` - 1, and each class at least one (equations 1 and 2). In float32 at
    least, where the vectors are of less."""
    of_class = functional.one_hot(labels, ways).to(shown.dtype)
    means = of_class.mT @ shown / of_class.sum(1)[..., None]
    apart = means[:, None] - asked[:, :, None]
    return -apart.to(torch.promote_types(apart.dtype, torch.float32)).square().sum(-1)
