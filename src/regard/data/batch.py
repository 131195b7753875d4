"""What all batches are: tensors that go to a device together, padded on the right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.data.batching import rounded
from regard.shapes import Int

B = TypeVar("B", bound="Batch")


class Batch:
    """A frozen dataclass of tensors and numbers."""

    def to(self: B, device: torch.device | str) -> B:
        """The same batch on `device`."""
        parts = vars(self).items()
        moved = {name: part.to(device, non_blocking=True) for name, part in parts if isinstance(part, Tensor)}
        changed: Any = replace(self, **moved)  # pyright: ignore[reportArgumentType]
        return changed


def padded(
    rows: Sequence[Sequence[int]], multiple: int = 1, fill: int = 0
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, " batch"]]:
    """Ids as one tensor, `fill` behind the short ones up to a multiple of `multiple`, and how many each has. Models go
    by the lengths, so the id that fills may be any."""
    lengths = [len(row) for row in rows]
    longest = rounded(max(lengths, default=0), multiple)
    whole = [[*row, *[fill] * (longest - len(row))] for row in rows]
    return torch.tensor(whole, dtype=torch.int64).reshape(len(rows), longest), torch.tensor(lengths, dtype=torch.int64)
