"""A beam whose groups say different things."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.beam_state import BeamState, Extensions, join
from regard.text.special import END


@dataclass(frozen=True)
class DiverseBeam(Beam):
    """`groups` beams of width / groups each, in turn at every step: a token that n hypotheses of earlier groups took at
    this step is chosen as if its log-probability were lower by n * `strength` (Vijayakumar 2018, 1610.02424, Hamming
    diversity). Scores stay the model's own.

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
        taken = extended.new_zeros(len(extended), 1, extended.shape[-1])
        ending, going = [], []
        for first in range(0, self.width, size):
            group = extended[:, first : first + size]
            lowered = Extensions.best(group - self.strength * taken, 2 * size)
            own = group.flatten(1).gather(1, lowered.parents * group.shape[-1] + lowered.tokens)
            found = Extensions(own, lowered.parents + first, lowered.tokens)
            end = found.tokens == END
            ending.append(Extensions(*(each[:, :size] for each in found.only(end))))
            order = lowered.only(~end).scores.topk(size).indices
            going.append(Extensions(*(each.gather(1, order) for each in found.only(~end))))
            chosen = (going[-1].scores > -torch.inf).to(taken)
            taken[:, 0].scatter_add_(1, going[-1].tokens, chosen)
        return join(ending), join(going)
