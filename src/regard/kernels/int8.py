"""Matrices of bytes: the plain form of what `layer.cpp` does with them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float, Int

FILL = 64
"""Bytes to whose multiple a row is filled up with zeros."""
LARGEST = 127


@dataclass(frozen=True, eq=False)
class Codes:
    """A matrix `(output, input)` whose every row is whole numbers from -127 to 127 times a scale of its own. `shift` is
    128 times the sum of a row, which the kernel takes off because it reads inputs as numbers around 128."""

    codes: Int[Tensor, "output filled"]
    scale: Float[Tensor, "output"]
    shift: Int[Tensor, "output"]
    inputs: int

    @classmethod
    def of(cls, weight: Float[Tensor, "output input"]) -> "Codes":
        """The nearest to a matrix."""
        codes, scale = rounded(weight)
        shift = 128 * codes.sum(-1, dtype=torch.int32)
        filled = functional.pad(codes, (0, -weight.shape[1] % FILL)).contiguous()
        return cls(filled, scale[:, 0].contiguous(), shift, weight.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return len(self.codes), self.inputs

    def matrix(self) -> Float[Tensor, "output input"]:
        """As numbers."""
        return self.codes[:, : self.inputs] * self.scale[:, None]

    def multiply(self, states: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        """W x, x rounded as the rows of W are: a scale for each position (dynamic quantisation)."""
        codes, scale = rounded(states)
        whole = codes.double() @ self.codes[:, : self.inputs].double().mT  # sums of bytes are exact in float64
        return (whole * scale * self.scale).to(states.dtype)


def rounded(numbers: Float[Tensor, "*row width"]) -> tuple[Int[Tensor, "*row width"], Float[Tensor, "*row 1"]]:
    """Of each row the whole numbers from -127 to 127, and what they are multiplied by."""
    most = numbers.abs().amax(-1, keepdim=True) if numbers.shape[-1] else numbers.new_zeros(*numbers.shape[:-1], 1)
    codes = (numbers * torch.where(most > 0, LARGEST / most, 0.0) + 0.5).floor()
    return codes.nan_to_num(0.0, 0.0, 0.0).to(torch.int8), most / LARGEST
