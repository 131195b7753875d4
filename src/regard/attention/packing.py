"""Sequences of different lengths without their padding: what is done to each token by itself is done to real ones."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.shapes import Float, Int, Lengths, States

PAYS = 0.9
"""Up to this share of real tokens it takes less time without the others."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Which places `(token,)` of a flattened batch of `batch` rows and `positions` columns have a token."""

    places: Int[Tensor, " token"]
    batch: int
    positions: int

    @classmethod
    def of(cls, lengths: Lengths, positions: int) -> "Packing | None":
        """That of `lengths (batch,)`; None where it does not pay: little is padding, counting it would wait for an
        accelerator, or a graph for all sizes is made."""
        if not lengths.is_cpu or torch.compiler.is_exporting():
            return None
        if int(lengths.sum()) > PAYS * len(lengths) * positions:
            return None
        inside = torch.arange(positions) < lengths[:, None]
        return cls(inside.flatten().nonzero()[:, 0], len(lengths), positions)

    def pack(self, states: States) -> Float[Tensor, "token width"]:
        """The real tokens of `(batch, position, width)`, row by row."""
        return states.flatten(0, 1).index_select(0, self.places)

    def unpack(self, states: Float[Tensor, "token width"]) -> States:
        """Each where it was, and zeros where there is none."""
        empty = states.new_zeros(self.batch * self.positions, states.shape[1])
        return empty.index_copy(0, self.places, states).unflatten(0, (self.batch, self.positions))
