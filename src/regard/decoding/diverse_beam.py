"""Diverse beam search."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.beam_state import BeamState, Extensions, concatenate


@dataclass(frozen=True)
class DiverseBeam(Beam):
    """Search with `groups` beams of width / groups each, one after the other at every step. Lower the log-probability
    of a token by n * `strength` where n hypotheses of earlier groups have chosen it at this step (Vijayakumar 2018,
    1610.02424, Hamming diversity). The penalty affects the choice only; scores stay the model's own.

    Raises:
        ValueError: groups below 1 or no divisor of the width, or strength negative.
    """

    groups: int = 1
    strength: float = 0.5

    def __post_init__(self) -> None:
        if self.groups < 1 or self.width % self.groups:
            raise ValueError(f"groups is {self.groups}; it must be a divisor of the beam's width {self.width}")
        if not self.strength >= 0:
            raise ValueError(f"strength is {self.strength}; it must be at least 0")

    @property
    def start(self) -> tuple[int, ...]:
        return tuple(range(0, self.width, self.width // self.groups))

    def choose(self, beam: BeamState, extended: Tensor) -> tuple[Extensions, Extensions]:
        size = self.width // self.groups
        counts = extended.new_zeros(len(extended), 1, extended.shape[-1])
        ending, going = [], []
        for first in range(0, self.width, size):
            group = extended[:, first : first + size]
            lowered = Extensions.best(group - self.strength * counts, 2 * size)
            own = group.flatten(1).gather(1, lowered.parents * group.shape[-1] + lowered.tokens)
            found = Extensions(own, lowered.parents + first, lowered.tokens)
            end = found.tokens == beam.special.end
            ending.append(Extensions(*(each[:, :size] for each in found.only(end))))
            order = lowered.only(~end).scores.topk(size).indices
            going.append(Extensions(*(each.gather(1, order) for each in found.only(~end))))
            chosen = (going[-1].scores > -torch.inf).to(counts)
            counts[:, 0].scatter_add_(1, going[-1].tokens, chosen)
        return concatenate(ending), concatenate(going)
