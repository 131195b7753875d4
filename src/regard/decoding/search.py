"""The `search:` section of a run file, the search that it defines, and the beginnings of outputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.memory import Memory
from regard.data.tokens import Tokenizers
from regard.decoding.beam import Beam
from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.processors import (
    PROCESSORS,
    AfterPrompt,
    Banned,
    ForceToken,
    LogitsProcessor,
    MinimumLength,
    NoRepeat,
    Prefix,
    ProcessorName,
    Renormalize,
    RepetitionPenalty,
)
from regard.decoding.sampling import GREEDY, Sampler, sample
from regard.decoding.streaming import Step, StepOptions, stream
from regard.errors import InputError
from regard.nn.decoders import Decoder
from regard.text import Tokenizer

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class DecodingConstraints:
    """What the outputs of each row begin with.

    Attributes:
        n_best: How many outputs of a row meet the constraints.
        prefixes: One for all rows, or one for each.
        before: Tokens of each row, all of one length, that the decoder has read before
            the search. Empty: none.
        prompts: How many tokens of each row's prefix belong to its prompt. Empty: none.
    """

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    before: tuple[Tokens, ...] = ()
    prompts: tuple[int, ...] = ()

    def expand(self, rows: int) -> "DecodingConstraints":
        """Return the same constraints with a prefix for each row."""
        prefixes = self.prefixes * (rows if len(self.prefixes) == 1 else 1)
        return replace(self, prefixes=prefixes)

    def of(self, rows: Sequence[int]) -> "DecodingConstraints":
        """Return the constraints of the rows `rows`."""
        full = self.expand(max(rows, default=-1) + 1)
        return DecodingConstraints(
            self.n_best,
            tuple(full.prefixes[row] for row in rows),
            tuple(self.before[row] for row in rows if self.before),
            tuple(self.prompts[row] for row in rows if self.prompts),
        )

    def check(self, limits: Sequence[int]) -> None:
        """Check that each row's prefix and the end fit within its limit of tokens.

        Raises:
            ValueError: One needs more.
        """
        prefixes = self.expand(len(limits)).prefixes
        for prefix, limit in zip(prefixes, limits, strict=True):
            needed = len(prefix) + 1
            if needed > limit:
                raise ValueError(
                    f"the prefix needs {needed} tokens with the end of the text, more "
                    f"than the limit of {limit}; require less, or raise length_ratio or "
                    "length_extra"
                )


def encode_constraints(
    tokenizers: Tokenizers, texts: Sequence[str], n_best: int, prefix: str
) -> DecodingConstraints:
    """Encode a prefix for the outputs of some texts.

    If the model copies, it may also contain words of each text.

    Raises:
        InputError: The prefix has tokens that no output can have.
    """
    target = tokenizers.target
    if not tokenizers.copying or not prefix:
        return DecodingConstraints(n_best, (writable(target, prefix),))
    prefixes = []
    for number, text in enumerate(texts, 1):
        ids = tokenizers.target_ids(prefix, text)
        problem = "neither in the vocabulary nor in the text"
        prefixes.append(_writable(target, prefix, ids, f"text {number}: ", problem))
    return DecodingConstraints(n_best, tuple(prefixes))


def encode_prefix(tokenizers: Tokenizers, text: str, prefix: str) -> Tokens:
    """Encode the prefix of the output for one text.

    Raises:
        InputError: As `encode_constraints`.
    """
    return encode_constraints(tokenizers, [text], 1, prefix).prefixes[0]


def writable(tokenizer: Tokenizer, text: str) -> Tokens:
    """Encode the beginning or continuation of an output.

    Raises:
        InputError: A text outside the vocabulary.
    """
    return _writable(tokenizer, text, tokenizer.encode(text))


def _writable(
    tokenizer: Tokenizer,
    text: str,
    ids: Sequence[int],
    place: str = "",
    problem: str = "not in the target's vocabulary",
) -> Tokens:
    """Return the ids as a tuple.

    Raises:
        InputError: One of them is the unknown token.
    """
    if tokenizer.special.unknown in ids:
        raise InputError(
            f"{place}{text!r} has pieces that are {problem}, so no output has it"
        )
    return tuple(ids)


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
        ValueError: A number out of range, top_k or top_p without a temperature, or an
            empty sequence.
    """

    beam: Annotated[int, Field(ge=1)] = 1
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    length_offset: Annotated[float, Field(ge=0)] = 5.0
    """Added to a length before it is penalised; 0 with a `length_penalty` of 1 gives the mean over the tokens."""
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
    length_ratio: Annotated[float, Field(ge=0)] = 2.0
    length_extra: Annotated[int, Field(ge=1)] = 10
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        Sampler(self.temperature or 0.0, self.top_k, self.top_p)
        if not 0 <= self.seed < SEEDS:
            raise ValueError(
                f"seed is {self.seed}; it must be at least 0 and below {SEEDS}"
            )
        if self.temperature is None and (self.top_k or self.top_p < 1):
            raise ValueError(
                f"top_k is {self.top_k} and top_p {self.top_p}, without sampling; set a temperature"
            )
        if self.repetition_penalty != 1:
            RepetitionPenalty(self.repetition_penalty)
        if self.banned:
            Banned(self.banned)

    @property
    def summary(self) -> str:
        """The search in words: greedy, a beam with its penalty, or samples."""
        if self.temperature is not None:
            return f"samples at temperature {self.temperature:g}"
        penalty = self.length_penalty
        words = f"beam {self.beam}" if self.beam > 1 else "greedy"
        has_penalty = penalty and self.beam > 1
        return f"{words}, length penalty {penalty:g}" if has_penalty else words

    @property
    def penalty(self) -> LengthPenalty:
        """The penalty of lengths."""
        return LengthPenalty(self.length_penalty, self.length_offset)

    def with_beam(self, beam: int | None) -> "Search":
        """Return the same settings with this beam and without sampling.

        Unchanged for None.
        """
        if beam is None:
            return self
        return replace(
            self,
            beam=beam,
            temperature=None,
            top_k=0,
            top_p=1.0,
        )

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

        The first one does not depend on their number. Samples after it are sorted, the
        finished ones first, and best first.

        Raises:
            ValueError: `n_best` below 1, above the beam, or above 1 at temperature
                0; a prefix longer than the limit of a row.
        """
        constraints = (constraints or DecodingConstraints()).expand(len(limit))
        constraints.check(limit.tolist())
        processors = self.processors(constraints, limit, decoder)
        n_best = constraints.n_best
        if self.temperature is None and (self.beam > 1 or n_best != 1):
            search = Beam(
                self.beam,
                self.penalty,
                processors,
                constraints.prompts,
                self.early_stopping,
            )
            return search(decoder, memory, max_length=limit, n_best=n_best)
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
                penalty=self.penalty,
                processors=processors,
                begins=constraints.prompts,
            )
            for _ in range(n_best)
        ]
        results = []
        for row in zip(*draws, strict=True):
            first, *following = (hypothesis for (hypothesis,) in row)
            following.sort(key=lambda item: (not item.finished, -item.score))
            results.append([first, *following])
        return results

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
        constraints = constraints.expand(len(limit))
        constraints.check(limit.tolist())
        return stream(
            decoder,
            memory,
            replace(options, begins=constraints.prompts),
            max_length=limit,
            choose=self.sampler(memory.value.device),
            penalty=self.penalty,
            processors=self.processors(constraints, limit, decoder),
        )

    def sampler(self, device: torch.device) -> Sampler:
        """Return the sampler of these settings.

        Without a temperature it chooses the best token.
        """
        if self.temperature is None:
            return GREEDY
        generator = torch.Generator(device).manual_seed(self.seed)
        return Sampler(self.temperature, self.top_k, self.top_p, generator)

    def processors(
        self,
        constraints: DecodingConstraints,
        limit: Tensor,
        decoder: Decoder,
    ) -> tuple[LogitsProcessor, ...]:
        """Return the logits processors of every step.

        A prefix may contain what is forbidden.

        Raises:
            ValueError: An id beyond the vocabulary.
        """
        vocabulary = decoder.output.out_features
        for token in chain((self.first_token or 0,), *self.banned):
            if not 0 <= token < vocabulary:
                raise ValueError(
                    f"the search has the id {token}; the vocabulary has 0 to {vocabulary - 1}"
                )
        ends = decoder.special.ends
        begins = constraints.prompts
        of_text: list[LogitsProcessor] = []  # depend on the text, its prompt included
        if self.repetition_penalty != 1:
            of_text.append(RepetitionPenalty(self.repetition_penalty))
        if self.no_repeat:
            of_text.append(NoRepeat(self.no_repeat, ends))
        if self.banned:
            of_text.append(Banned(self.banned))
        for name in self.logits_processors:
            of_text.append(PROCESSORS[name](decoder.special, vocabulary))
        if constraints.before:
            before = torch.tensor(constraints.before, device=limit.device)
            of_text = [AfterPrompt(processor, before) for processor in of_text]
        early = [processor for processor in of_text if processor.on_logits]
        late = [processor for processor in of_text if not processor.on_logits]
        if self.min_length:
            late.append(MinimumLength(self.min_length, ends, begins))
        if self.first_token is not None:
            lengths = limit.new_tensor(begins) if begins else limit * 0
            late.append(ForceToken(self.first_token, lengths))
        if self.end_at_limit:
            late.append(ForceToken(decoder.special.end, limit - 1))
        if self.renormalize:
            late.append(Renormalize())
        if any(constraints.prefixes):
            late = [Prefix(constraints.prefixes, late, begins)]
        return (*early, *late)
