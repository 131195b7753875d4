"""The base class of classifiers."""

from typing import ClassVar

from torch import nn


class Classifier(nn.Module):
    """A model whose `forward` returns logits `(batch, class)`, computed by its `output`.

    form: the name of the form of its inputs (`tasks/classification/forms`); for `text`, `forward` takes tokens
        `(batch, position)`, padded on the right, and lengths `(batch,)`.
    """

    form: ClassVar[str] = "text"
    output: nn.Linear
