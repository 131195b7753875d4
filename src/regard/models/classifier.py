"""What the models that predict classes share."""

from torch import nn


class Classifier(nn.Module):
    """A model whose `forward` returns logits `(batch, class)`, which its `output` computes."""

    output: nn.Linear
