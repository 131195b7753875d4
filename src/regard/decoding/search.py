"""The `search:` section of a run file, and the search that it defines."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam import Beam, DiverseBeam
from regard.decoding.constrained_beam import ConstrainedBeam, Phrase
from regard.decoding.constraints import DecodingConstraints, Tokens
from regard.decoding.hypothesis import CoveragePenalty, Hypothesis, LengthPenalty
from regard.decoding.logits_processors import LogitsProcessor, NoRepeat, Prefix
from regard.decoding.sampling import Sampler, greedy, sample
from regard.decoding.streaming import Step, StepOptions, stream
from regard.nn.decoders.protocol import Decoder

SEEDS = 2**63
"""Number of seeds of a generator."""


@dataclass(frozen=True)
class Search:
    """Settings of a search. Beam 1 is greedy. An output has at most `length_ratio` x the source's tokens +
    `length_extra` tokens, the end included. A `temperature` samples outputs by `Sampler` instead of a beam; the same
    seed gives the same samples for the same batch.

    Raises:
        ValueError: temperature, top_k, top_p, seed, groups or diversity out of range, top_k or top_p without a
            temperature, or groups that do not divide the beam.
    """

    beam: Annotated[int, Field(ge=1)] = 1
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    length_offset: Annotated[float, Field(ge=0)] = 5.0
    """Added to a length before it is penalised; 0 with a `length_penalty` of 1 gives the mean over the tokens."""
    coverage_penalty: Annotated[float, Field(ge=0)] = 0.0
    no_repeat: Annotated[int, Field(ge=0)] = 0
    """Forbid repeated n-grams of this many tokens in one output; 0 allows them."""
    groups: int = 1
    """Groups of a diverse beam; `diversity` is the strength of its penalty."""
    diversity: float = 0.5
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
            raise ValueError(f"top_k is {self.top_k} and top_p {self.top_p}, without sampling; set a temperature")
        DiverseBeam(self.beam, groups=self.groups, strength=self.diversity)

    def searching(self, beam: int) -> "Search":
        """The same settings with this beam, in one group and without sampling."""
        return replace(self, beam=beam, groups=1, temperature=None, top_k=0, top_p=1.0)

    def limit(self, lengths: Tensor) -> Tensor:
        """The maximal number of output tokens for sources of `lengths (batch,)`."""
        return (lengths * self.length_ratio).long() + self.length_extra

    def __call__(
        self, decoder: Decoder, memory: Memory, limit: Tensor, constraints: DecodingConstraints | None = None
    ) -> list[list[Hypothesis]]:
        """The best or sampled hypotheses for each row of the memory, as many as `constraints` requires. The first one
        does not depend on their number.

        Raises:
            ValueError: n_best below 1, above the beam, or above 1 at temperature 0; phrases longer than the limit of a
                row, or with groups or a temperature.
        """
        constraints = DecodingConstraints() if constraints is None else constraints
        constraints.check(limit.tolist())
        processors = self.processors(constraints, len(limit), decoder.special.end)
        if self.temperature is not None:
            if any(constraints.phrases):
                raise ValueError("phrases need a beam; samples cannot be made to contain them")
            return self.sample(decoder, memory, limit, constraints.n_best, processors)
        if self.beam == constraints.n_best == 1 and not self.coverage_penalty and not any(constraints.phrases):
            return greedy(decoder, memory, max_length=limit, penalty=self.length, processors=processors)
        coverage = CoveragePenalty(self.coverage_penalty) if self.coverage_penalty else None
        search = self.kind(constraints.phrases_of(len(limit)))(self.beam, self.length, coverage, processors)
        return search(decoder, memory, max_length=limit, n_best=constraints.n_best)

    def stream(
        self, decoder: Decoder, memory: Memory, limit: Tensor, prefixes: Sequence[Tokens], options: StepOptions
    ) -> Iterator[Step]:
        """Decode one sequence for each row of the memory, behind its prefix, step by step: sampled with a temperature,
        else greedy, since a beam has no result before its end. Raises ValueError as `__call__` does."""
        constraints = DecodingConstraints(prefixes=tuple(prefixes))
        constraints.check(limit.tolist())
        processors, choose = (
            self.processors(constraints, len(limit), decoder.special.end),
            self.sampler(memory.value.device),
        )
        return stream(
            decoder, memory, options, max_length=limit, choose=choose, penalty=self.length, processors=processors
        )

    @property
    def length(self) -> LengthPenalty:
        """The length penalty of these settings."""
        return LengthPenalty(self.length_penalty, self.length_offset)

    def sampler(self, device: torch.device) -> Sampler:
        """The sampler of these settings. Without a temperature it chooses the best token."""
        if self.temperature is None:
            return Sampler(temperature=0.0)
        return Sampler(self.temperature, self.top_k, self.top_p, torch.Generator(device).manual_seed(self.seed))

    def processors(self, constraints: DecodingConstraints, rows: int, end: int) -> tuple[LogitsProcessor, ...]:
        """The logits processors of every step; a prefix may contain repeated n-grams."""
        prefix = [Prefix(constraints.prefixes_of(rows))] if any(constraints.prefixes) else []
        return (*prefix, *([NoRepeat(self.no_repeat, end)] if self.no_repeat else []))

    def kind(self, phrases: Sequence[Sequence[Phrase]]) -> Callable[..., Beam]:
        """The beam search of these settings. Raises ValueError for groups with phrases."""
        if any(phrases):
            if self.groups > 1:
                raise ValueError(f"groups is {self.groups}, but phrases need a beam in one group")
            return partial(ConstrainedBeam, phrases=phrases)
        return Beam if self.groups == 1 else partial(DiverseBeam, groups=self.groups, strength=self.diversity)

    def sample(
        self, decoder: Decoder, memory: Memory, limit: Tensor, n_best: int, processors: tuple[LogitsProcessor, ...]
    ) -> list[list[Hypothesis]]:
        """`n_best` samples for each row. The first is the same for every `n_best`; the others follow, best first.
        Raises ValueError for an `n_best` out of range."""
        assert self.temperature is not None
        if n_best < 1 or (n_best > 1 and self.temperature == 0):
            raise ValueError(f"n_best is {n_best}; it must be at least 1, and 1 at temperature 0")
        sampler = self.sampler(memory.value.device)
        draws = [
            sample(decoder, memory, sampler, max_length=limit, penalty=self.length, processors=processors)
            for _ in range(n_best)
        ]
        rows = [[one for (one,) in row] for row in zip(*draws, strict=True)]
        return [[first, *sorted(rest, key=lambda one: -one.score)] for first, *rest in rows]
