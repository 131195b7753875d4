"""What a model learns."""

from torch import nn


def count_parameters(model: nn.Module) -> int:
    """How many numbers its parameters are; those that modules share count once."""
    return sum(parameter.numel() for parameter in model.parameters())
