"""A writable memory: the tape of a neural Turing machine (Graves 2014, 1410.5401)."""

from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor

from regard.attention.memory import Memory
from regard.shapes import Float, Rows

BLANK = 1e-6
"""Initial content of every row: a small number, which trains steadily (Collier 2018, 1807.08518). The paper does not
define it."""


@dataclass(frozen=True, eq=False)
class Tape:
    """Rows `(batch, row, width)` that are both keys and values. It is a value like `Memory`: writing returns a new
    tape."""

    rows: Float[Tensor, "batch row width"]

    @classmethod
    def blank(cls, batch: int, rows: int, width: int, like: Tensor) -> "Tape":
        """A blank tape with the dtype and device of `like`."""
        return cls(like.new_full((batch, rows, width), BLANK))

    def memory(self, heads: int) -> Memory:
        """The rows as a memory for each head: keys and values `(batch, head, row, width)`."""
        rows = self.rows[:, None].expand(-1, heads, -1, -1)
        return Memory(rows, rows)

    def write(
        self,
        weights: Float[Tensor, "batch head row"],
        erase: Float[Tensor, "batch head width"],
        add: Float[Tensor, "batch head width"],
    ) -> "Tape":
        """Every head erases, then every head adds, so that the order of heads does not matter (equations 3 and 4):

            M'(i) = M(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h

        Args:
            weights: how much each head writes to each row.
            erase: from 0, which keeps the row's numbers, to 1.
            add: vectors to add.
        """
        left = self.rows
        for by, what in zip(weights.unbind(1), erase.unbind(1), strict=True):
            left = left.addcmul(left * what[:, None], by[..., None], value=-1)
        return Tape(torch.baddbmm(left, rearrange(weights, "b h n -> b n h"), add))

    def select(self, rows: Rows) -> "Tape":
        """The tape of the batch rows `rows`, in this order; rows may repeat."""
        return Tape(self.rows.index_select(0, rows))
