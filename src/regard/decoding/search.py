"""The `search:` section of a run file, and the search that it defines."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam import Beam, ConstrainedBeam, DiverseBeam, Phrase
from regard.decoding.constraints import BannedTexts, DecodingConstraints
from regard.decoding.hypothesis import (
    BrevityPenalty,
    CoveragePenalty,
    Hypothesis,
    LengthPenalty,
)
from regard.decoding.processors import (
    PROCESSORS,
    AfterPrompt,
    Banned,
    EndAtLimit,
    FirstToken,
    LogitsProcessor,
    MinimumLength,
    NoRepeat,
    Prefix,
    ProcessorName,
    Renormalize,
    RepetitionPenalty,
)
from regard.decoding.sampling import Sampler, greedy, sample
from regard.decoding.streaming import Step, StepOptions, stream
from regard.nn.decoders import Decoder

SEEDS = 2**63
"""Number of seeds of a generator."""


@dataclass(frozen=True)
class Search:
    """Settings of a search.

    Beam 1 is greedy. An output has at most `length_ratio` x the source's tokens +
    `length_extra` tokens, the end included. A `temperature` samples outputs by
    `Sampler` instead of a beam; the same seed gives the same samples for the same
    batch.

    Raises:
        ValueError: A number out of range, top_k or top_p without a temperature, an
            empty sequence, or groups that do not divide the beam.
    """

    beam: Annotated[int, Field(ge=1)] = 1
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    length_offset: Annotated[float, Field(ge=0)] = 5.0
    """Added to a length before it is penalised; 0 with a `length_penalty` of 1 gives the mean over the tokens."""
    coverage_penalty: Annotated[float, Field(ge=0)] = 0.0
    brevity_penalty: Annotated[float, Field(ge=0)] = 0.0
    """The weight of the penalty for outputs with fewer than `brevity_ratio` tokens for each of the source; 0: none."""
    brevity_ratio: Annotated[float, Field(gt=0)] = 1.0
    """The expected number of tokens of an output for each token of its source, the ends included."""
    no_repeat: Annotated[int, Field(ge=0)] = 0
    """Forbid repeated n-grams of this many tokens in one output, and its prompt if it has one; 0 allows them."""
    repetition_penalty: float = 1.0
    """Divide the scores of tokens that the output or its prompt contains (`RepetitionPenalty`); 1 changes nothing."""
    min_length: Annotated[int, Field(ge=0)] = 0
    """An output has at least this many tokens, the end included."""
    banned: tuple[tuple[int, ...], ...] = ()
    """Sequences of ids that no output contains."""
    first_token: Annotated[int, Field(ge=0)] | None = None
    """The id that every output begins with, whatever its probability."""
    end_at_limit: bool = False
    """End an output at its maximal length, whatever the probability of the end; otherwise it stays unfinished."""
    logits_processors: tuple[ProcessorName, ...] = ()
    """Further processors of every step by name."""
    renormalize: bool = False
    """Share the probability of forbidden tokens, padding too, between the others."""
    early_stopping: bool = False
    """End a beam as soon as it has as many ended hypotheses as its width, whether or not an open one scores better."""
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
        Sampler(
            1.0 if self.temperature is None else self.temperature,
            self.top_k,
            self.top_p,
        )
        if not 0 <= self.seed < SEEDS:
            raise ValueError(
                f"seed is {self.seed}; it must be at least 0 and below {SEEDS}"
            )
        if self.temperature is None and (self.top_k or self.top_p < 1):
            raise ValueError(
                f"top_k is {self.top_k} and top_p {self.top_p}, without sampling; set a temperature"
            )
        DiverseBeam(self.beam, groups=self.groups, strength=self.diversity)
        if self.repetition_penalty != 1:
            RepetitionPenalty(self.repetition_penalty)
        if self.banned:
            Banned(self.banned)

    @property
    def summary(self) -> str:
        """The search in words: greedy, a beam with its penalties, or samples."""
        if self.temperature is not None:
            return f"samples at temperature {self.temperature:g}"
        penalties = {
            "length": self.length_penalty,
            "coverage": self.coverage_penalty,
            "brevity": self.brevity_penalty,
        }
        descriptions = [
            f"{name} penalty {value:g}" for name, value in penalties.items() if value
        ]
        return ", ".join(
            [
                "greedy" if self.beam == 1 else f"beam {self.beam}",
                *(descriptions if self.beam > 1 else []),
            ]
        )

    def with_beam(self, beam: int | None) -> "Search":
        """Return the same settings with this beam, in one group and without sampling.

        Unchanged for None.
        """
        if beam is None:
            return self
        return replace(self, beam=beam, groups=1, temperature=None, top_k=0, top_p=1.0)

    def limit(self, lengths: Tensor) -> Tensor:
        """Return the maximal number of output tokens for sources of `lengths (batch,)`."""
        return (lengths * self.length_ratio).long() + self.length_extra

    def __call__(
        self,
        decoder: Decoder,
        memory: Memory,
        limit: Tensor,
        constraints: DecodingConstraints | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the best or sampled hypotheses for each row of the memory, as many as `constraints` requires.

        The first one does not depend on their number.

        Raises:
            ValueError: `n_best` below 1, above the beam, or above 1 at temperature
                0; phrases longer than the limit of a row, or with groups or a
                temperature.
        """
        constraints = DecodingConstraints() if constraints is None else constraints
        constraints.check(limit.tolist())
        processors = self.processors(constraints, limit, decoder)
        if self.temperature is not None:
            if any(constraints.phrases):
                raise ValueError(
                    "phrases need a beam; samples cannot be made to contain them"
                )
            return self.sample(decoder, memory, limit, constraints, processors)
        if (
            self.beam == constraints.n_best == 1
            and not self.coverage_penalty
            and not any(constraints.phrases)
        ):
            return greedy(
                decoder,
                memory,
                max_length=limit,
                penalty=self.length(memory),
                processors=processors,
                begins=constraints.prompts,
            )
        coverage = (
            CoveragePenalty(self.coverage_penalty) if self.coverage_penalty else None
        )
        search = self.kind(constraints.phrases_of(len(limit)))(
            self.beam,
            self.length(memory),
            coverage,
            processors,
            constraints.prompts,
            self.early_stopping,
        )
        return search(decoder, memory, max_length=limit, n_best=constraints.n_best)

    def stream(
        self,
        decoder: Decoder,
        memory: Memory,
        limit: Tensor,
        constraints: DecodingConstraints,
        options: StepOptions,
    ) -> Iterator[Step]:
        """Decode one sequence for each row of the memory step by step.

        It stands behind the row's prefix. It is sampled with a temperature and else
        greedy, since a beam has no result before its end.

        Raises:
            ValueError: As `__call__`.
        """
        constraints.check(limit.tolist())
        return stream(
            decoder,
            memory,
            replace(options, begins=constraints.prompts),
            max_length=limit,
            choose=self.sampler(memory.value.device),
            penalty=self.length(memory),
            processors=self.processors(constraints, limit, decoder),
        )

    def length(self, memory: Memory) -> LengthPenalty:
        """Return the penalties of lengths for these sources."""
        weight, ratio = self.brevity_penalty, self.brevity_ratio
        brevity = BrevityPenalty.of(weight, ratio, memory) if weight else None
        return LengthPenalty(self.length_penalty, self.length_offset, brevity)

    def sampler(self, device: torch.device) -> Sampler:
        """Return the sampler of these settings.

        Without a temperature it chooses the best token.
        """
        if self.temperature is None:
            return Sampler(temperature=0.0)
        return Sampler(
            self.temperature,
            self.top_k,
            self.top_p,
            torch.Generator(device).manual_seed(self.seed),
        )

    def processors(
        self, constraints: DecodingConstraints, limit: Tensor, decoder: Decoder
    ) -> tuple[LogitsProcessor, ...]:
        """Return the logits processors of every step.

        A prefix may contain what is forbidden.

        Raises:
            ValueError: An id beyond the vocabulary.
        """
        self._check_ids(decoder.output.out_features)
        before = (
            torch.tensor(constraints.before, device=limit.device)
            if constraints.before
            else None
        )
        early, late = self._by_text(decoder, constraints.banned, before)
        ends, begins = decoder.special.ends, constraints.prompts
        late += (
            [MinimumLength(self.min_length, ends, begins)] if self.min_length else []
        )
        late += (
            [] if self.first_token is None else [FirstToken(self.first_token, begins)]
        )
        late += (
            [EndAtLimit(limit.tolist(), decoder.special.end)]
            if self.end_at_limit
            else []
        )
        late += [Renormalize()] if self.renormalize else []
        if any(constraints.prefixes):
            late = [Prefix(constraints.prefixes_of(len(limit)), late, begins)]
        return (*early, *late)

    def _by_text(
        self, decoder: Decoder, banned: BannedTexts | None, before: Tensor | None
    ) -> tuple[list[LogitsProcessor], list[LogitsProcessor]]:
        """Return the processors of logits that depend on the text so far, and the others.

        The prompt `before` the text belongs to it.
        """
        processors: list[LogitsProcessor] = []
        processors += (
            [RepetitionPenalty(self.repetition_penalty)]
            if self.repetition_penalty != 1
            else []
        )
        processors += (
            [NoRepeat(self.no_repeat, decoder.special.ends)] if self.no_repeat else []
        )
        processors += [Banned(self.banned)] if self.banned else []
        processors += [] if banned is None else [banned]
        processors += [
            PROCESSORS[name](decoder.special, decoder.output.out_features)
            for name in self.logits_processors
        ]
        if before is not None:
            processors = [AfterPrompt(processor, before) for processor in processors]
        return [processor for processor in processors if processor.on_logits], [
            processor for processor in processors if not processor.on_logits
        ]

    def _check_ids(self, vocabulary: int) -> None:
        """Check the arguments.

        Raises:
            ValueError: An id beyond the vocabulary.
        """
        ids = {token for sequence in self.banned for token in sequence}
        ids |= set() if self.first_token is None else {self.first_token}
        wrong = sorted(token for token in ids if not 0 <= token < vocabulary)
        if wrong:
            raise ValueError(
                f"the search has the id {wrong[0]}; the vocabulary has 0 to {vocabulary - 1}"
            )

    def kind(self, phrases: Sequence[Sequence[Phrase]]) -> Callable[..., Beam]:
        """Return the beam search of these settings.

        Raises:
            ValueError: Groups with phrases.
        """
        if any(phrases):
            if self.groups > 1:
                raise ValueError(
                    f"groups is {self.groups}, but phrases need a beam in one group"
                )
            return partial(ConstrainedBeam, phrases=phrases)
        return (
            Beam
            if self.groups == 1
            else partial(DiverseBeam, groups=self.groups, strength=self.diversity)
        )

    def sample(
        self,
        decoder: Decoder,
        memory: Memory,
        limit: Tensor,
        constraints: DecodingConstraints,
        processors: tuple[LogitsProcessor, ...],
    ) -> list[list[Hypothesis]]:
        """As many samples for each row as `constraints` requires.

        The first is the same for every number; the others follow, the finished ones
        first, and best first.

        Raises:
            ValueError: A number out of range.
        """
        assert self.temperature is not None
        n_best = constraints.n_best
        if n_best < 1 or (n_best > 1 and self.temperature == 0):
            raise ValueError(
                f"n_best is {n_best}; it must be at least 1, and 1 at temperature 0"
            )
        sampler = self.sampler(memory.value.device)
        draws = [
            sample(
                decoder,
                memory,
                sampler,
                max_length=limit,
                penalty=self.length(memory),
                processors=processors,
                begins=constraints.prompts,
            )
            for _ in range(n_best)
        ]
        rows = [
            [hypothesis for (hypothesis,) in row] for row in zip(*draws, strict=True)
        ]
        return [
            [
                first,
                *sorted(
                    others_sampled,
                    key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score),
                ),
            ]
            for first, *others_sampled in rows
        ]
