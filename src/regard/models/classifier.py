"""What the models that tell classes share."""

from torch import Tensor, nn
from torch.nn import functional

from regard.shapes import Float, Int


class Classifier(nn.Module):
    """A model that tells classes: it returns `logits_or_loss` of what its `output` gives."""

    output: nn.Linear


def logits_or_loss(
    logits: Float[Tensor, "batch class"], expected: Int[Tensor, " batch"] | None, smoothing: float
) -> Tensor:
    """The logits; where classes are `expected`, the cross-entropy with these instead, summed."""
    if expected is None:
        return logits
    return functional.cross_entropy(logits, expected, reduction="sum", label_smoothing=smoothing)
