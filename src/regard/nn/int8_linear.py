"""Linear maps whose weights are bytes, for inference."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.fused_layer import Affine, linear, serves
from regard.kernels.int8 import Codes
from regard.nn.output import Output, Predictor
from regard.shapes import Float, Tokens
from regard.text.special import PAD

ROWS = 512
"""Positions whose logits are there at a time while a loss is taken."""


class Int8Linear(nn.Module):
    """W x + b, W in bytes with a scale for each row, x rounded to bytes with a scale for each position."""

    def __init__(self, plain: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        found, bias = Codes.of(plain.weight.detach()), plain.bias
        self.codes, self.scale, self.shift = (
            nn.Buffer(each, persistent=False) for each in (found.codes, found.scale, found.shift)
        )
        self.bias = None if bias is None else nn.Buffer(bias.detach(), persistent=False)

    @property
    def affine(self) -> Affine:
        """As the kernel takes it."""
        return Affine(Codes(self.codes, self.scale, self.shift, self.in_features), self.bias)

    @property
    def weight(self) -> Float[Tensor, "output input"]:
        """The matrix that the bytes stand for."""
        return self.codes[:, : self.in_features] * self.scale[:, None]

    def forward(self, input: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        if serves(input):
            return linear(input, self.affine)
        found = Codes(self.codes, self.scale, self.shift, self.in_features).multiply(input)
        return found if self.bias is None else found + self.bias


class Int8Output(Int8Linear, Predictor):
    """An output layer of bytes."""

    def loss(
        self, features: Any, targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        parts = zip(features.flatten(0, 1).split(ROWS), targets.flatten().split(ROWS), strict=True)
        losses = [
            functional.cross_entropy(self(each), wanted, ignore_index=PAD, reduction="none", label_smoothing=smoothing)
            for each, wanted in parts
        ]
        each = torch.cat(losses)
        return each.sum(), each.detach().view(targets.shape)


def with_int8(model: nn.Module) -> int:
    """Put bytes in place of the weights of all linear maps in a model -> how many numbers they were. What it embeds
    tokens with keeps its own, though an output layer shared it."""
    replaced = 0
    for parent in list(model.modules()):
        for name, each in list(parent.named_children()):
            kind = {nn.Linear: Int8Linear, Output: Int8Output}.get(type(each))
            if kind is not None and isinstance(each, nn.Linear):
                replaced += each.weight.numel()
                setattr(parent, name, kind(each).train(each.training))
    return replaced
