"""What the models that predict classes share."""

from typing import ClassVar

from torch import nn


class Classifier(nn.Module):
    """A model whose `forward` returns logits `(batch, class)`, which its `output` computes.

    form: the name of the form of its inputs (`tasks/classification/forms`); for `text`, `forward` takes tokens
        `(batch, position)`, padded on the right, and lengths `(batch,)`.
    """

    form: ClassVar[str] = "text"
    output: nn.Linear
