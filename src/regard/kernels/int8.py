"""Int8 matrices: the plain form of the int8 products in `layer.cpp`."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float, Int

FILL = 64
"""Rows are padded with zeros to a multiple of this many bytes."""
LARGEST = 127


@dataclass(frozen=True, eq=False)
class Codes:
    """A matrix `(output, input)` in int8: each row is integers from -127 to 127 times the row's scale. `shift` is 128
    times the sum of a row; the kernel subtracts it because it stores inputs with an offset of 128."""

    codes: Int[Tensor, "output filled"]
    scale: Float[Tensor, "output"]
    shift: Int[Tensor, "output"]
    inputs: int

    @classmethod
    def of(cls, weight: Float[Tensor, "output input"]) -> "Codes":
        """Quantise a matrix."""
        codes, scale = rounded(weight)
        shift = 128 * codes.sum(-1, dtype=torch.int32)
        filled = functional.pad(codes, (0, -weight.shape[1] % FILL)).contiguous()
        return cls(filled, scale[:, 0].contiguous(), shift, weight.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return len(self.codes), self.inputs

    def matrix(self) -> Float[Tensor, "output input"]:
        """The matrix that the codes represent."""
        return self.codes[:, : self.inputs] * self.scale[:, None]

    def multiply(
        self, states: Float[Tensor, "*batch input"]
    ) -> Float[Tensor, "*batch output"]:
        """W x, with x quantised like the rows of W: one scale per position (dynamic quantisation)."""
        codes, scale = rounded(states)
        whole = (
            codes.double() @ self.codes[:, : self.inputs].double().mT
        )  # sums of bytes are exact in float64
        return (whole * scale * self.scale).to(states.dtype)


def rounded(
    numbers: Float[Tensor, "*row width"],
) -> tuple[Int[Tensor, "*row width"], Float[Tensor, "*row 1"]]:
    """Integers from -127 to 127 for each row, and the row's scale."""
    most = (
        numbers.abs().amax(-1, keepdim=True)
        if numbers.shape[-1]
        else numbers.new_zeros(*numbers.shape[:-1], 1)
    )
    codes = (numbers * torch.where(most > 0, LARGEST / most, 0.0) + 0.5).floor()
    return codes.nan_to_num(0.0, 0.0, 0.0).to(torch.int8), most / LARGEST
