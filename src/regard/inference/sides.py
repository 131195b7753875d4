"""Queries, keys and values of heads, for one lookup to be worked out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn

from regard.heads import MultiHead
from regard.maps.lookups import Lookups, Vectors
from regard.maps.vectors import vectors_of
from regard.recording import named
from regard.scores import ScaledDot


class Sides:
    """What heads projected: by module `(batch, position, group * width)`, each time that it was called."""

    def __init__(self, heads: Sequence[MultiHead]):
        self.heads = heads
        self.seen: dict[nn.Module, list[Tensor]] = {}

    def keep(self, module: nn.Module, _: object, projected: Tensor) -> None:
        self.seen.setdefault(module, []).append(projected.detach())

    def vectors(self, lookups: Lookups) -> Vectors | None:
        """Those of the lookups, of the batch's first row; None as `vectors_of`, and where heads were not asked."""
        plain = all(isinstance(each.attend.score, ScaledDot) for each in self.heads)
        asked = all(side in self.seen for each in self.heads for side in (each.query, each.key, each.value))
        if not (self.heads and plain and asked):
            return None
        query = np.stack([self._split(each, each.query) for each in self.heads])
        key = np.stack([self._split(each, each.key) for each in self.heads])
        value = np.stack([self._split(each, each.value) for each in self.heads])
        return vectors_of(query, key, value, query.shape[-1] ** -0.5, lookups.weights)

    def _split(self, heads: MultiHead, side: nn.Module) -> np.ndarray:
        """(head, position, width) of the batch's first row, all calls joined; groups are repeated for the heads that
        share them."""
        projected, width = torch.cat(self.seen[side], 1)[0], heads.query.out_features // heads.heads
        found = rearrange(
            projected.float().cpu().numpy(), "position (group width) -> group position width", width=width
        )
        return found.repeat(heads.heads // len(found), 0)


@contextmanager
def sides(model: nn.Module, names: str | Sequence[str]) -> Iterator[Sides]:
    """Inside the block, what the heads of those names project, as `record` takes names."""
    chosen = named(model, names)
    kept = Sides([each for each in model.modules() if id(each) in chosen and isinstance(each, MultiHead)])
    projections = {side for each in kept.heads for side in (each.query, each.key, each.value)}
    handles = [side.register_forward_hook(kept.keep) for side in projections]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()
