"""How a run searches: the settings of its `search:` section, and the search they ask for."""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.decoders.protocol import Decoder
from regard.decoding.beam import beam
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import LengthPenalty
from regard.decoding.sampling import Sampler, greedy, sample
from regard.memory import Memory

SEEDS = 2**63
"""How many seeds a generator takes."""


@dataclass(frozen=True)
class Search:
    """Beam 1 is greedy. An output has at most `length_ratio` x the source's tokens + `length_extra`, END included.

    With a `temperature` outputs are drawn, as `Sampler` says, and the beam is not used; the same seed draws the same
    for the same batch.

    Raises:
        ValueError: temperature, top_k, top_p or seed out of range, or top_k or top_p without a temperature.
    """

    beam: Annotated[int, Field(ge=1)] = 1
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    length_ratio: Annotated[float, Field(ge=0)] = 2.0
    length_extra: Annotated[int, Field(ge=1)] = 10
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        Sampler(1.0 if self.temperature is None else self.temperature, self.top_k, self.top_p)
        if not 0 <= self.seed < SEEDS:
            raise ValueError(f"seed is {self.seed}; it must be at least 0 and below {SEEDS}")
        if self.temperature is None and (self.top_k or self.top_p < 1):
            raise ValueError(f"top_k is {self.top_k} and top_p {self.top_p}, but nothing is drawn; give a temperature")

    def searching(self, beam: int) -> "Search":
        """The same with this beam, and nothing drawn."""
        return replace(self, beam=beam, temperature=None, top_k=0, top_p=1.0)

    def limit(self, lengths: Tensor) -> Tensor:
        """The most tokens an output may have for sources of `lengths (batch,)`."""
        return (lengths * self.length_ratio).long() + self.length_extra

    def __call__(self, decoder: Decoder, memory: Memory, limit: Tensor, n_best: int = 1) -> list[list[Hypothesis]]:
        """The `n_best` best hypotheses for each row, or as many drawn, best first.

        Raises:
            ValueError: n_best above the beam, or below 1, or more than one at temperature 0.
        """
        penalty = LengthPenalty(self.length_penalty)
        if self.temperature is not None:
            if n_best < 1 or (n_best > 1 and self.temperature == 0):
                raise ValueError(f"n_best is {n_best}; it must be at least 1, and 1 at temperature 0")
            generator = torch.Generator(memory.value.device).manual_seed(self.seed)
            sampler = Sampler(self.temperature, self.top_k, self.top_p, generator)
            draws = [sample(decoder, memory, sampler, max_length=limit, penalty=penalty) for _ in range(n_best)]
            return [sorted((one for (one,) in row), key=lambda one: -one.score) for row in zip(*draws, strict=True)]
        if self.beam == 1 and n_best == 1:
            return greedy(decoder, memory, max_length=limit, penalty=penalty)
        return beam(decoder, memory, width=self.beam, max_length=limit, penalty=penalty, n_best=n_best)
