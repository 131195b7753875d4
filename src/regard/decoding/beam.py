"""Beam search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.processors import LogitsProcessor
from regard.decoding.sampling import (
    NO_PENALTY,
    best_scores,
    find_best_tokens,
    is_end,
    last_tokens,
    max_lengths,
    next_scores,
    require_token,
)
from regard.kernels.cpu import use_search_kernels
from regard.nn.decoders import Decoder, State
from regard.text.kinds import SPECIAL, SpecialTokens
from regard.work import checkpoint


class Extensions(NamedTuple):
    """Extensions of hypotheses by one token, `(source, extension)`.

    The score (minus infinity where there is none), the place of the hypothesis that is
    extended, and the token.
    """

    scores: Tensor
    parents: Tensor
    tokens: Tensor

    def take(self, places: Tensor) -> "Extensions":
        """Return the extensions at places `(source, place)`."""
        return Extensions(*(part.gather(1, places) for part in self))


@dataclass(frozen=True, eq=False)
class BeamState:
    """`width` hypotheses for each source that is still searched.

    Attributes:
        sources: The rows of the memory, `(source,)`.
        scores: Log-probabilities, `(source, width)`; minus infinity for an empty place.
        tokens: The hypotheses, `(source * width, length)`.
        state: The decoder's state, with source * width rows.
        special: The ids with which the texts begin and end.
    """

    sources: Tensor
    scores: Tensor
    tokens: Tensor
    state: State
    special: SpecialTokens = SPECIAL

    @classmethod
    def first(cls, decoder: Decoder, memory: Memory, width: int) -> "BeamState":
        """Return an empty hypothesis for each source, in the first place."""
        sources = torch.arange(memory.value.shape[0], device=memory.value.device)
        scores = torch.full((len(sources), width), -torch.inf, device=sources.device)
        scores[:, 0] = 0.0
        rows = sources.repeat_interleave(width)
        tokens = rows.new_empty(len(rows), 0)
        state = decoder.start(memory).select(rows)
        return cls(
            sources,
            scores,
            tokens,
            state,
            decoder.special,
        )

    def text(self, source: int, place: int) -> list[int]:
        """Return the tokens of the hypothesis at a place."""
        return self.tokens[source * self.scores.shape[1] + place].tolist()

    def select(self, keep: Tensor) -> "BeamState":
        """Return the beam with the sources `keep` only."""
        width = self.scores.shape[1]
        places = torch.arange(width, device=keep.device)
        rows = (keep[:, None] * width + places).flatten()
        return replace(
            self,
            sources=self.sources[keep],
            scores=self.scores[keep],
            tokens=self.tokens[rows],
            state=self.state.select(rows),
        )

    def step(
        self,
        decoder: Decoder,
        processors: Sequence[LogitsProcessor],
        count: int,
    ) -> tuple["BeamState", Extensions]:
        """Feed every hypothesis its last token.

        Raises:
            ValueError: A hypothesis that no token can follow.

        Returns:
            The beam after it, and the `count` best extensions of each source, best
            first; an empty place has none.
        """
        checkpoint()
        width = self.scores.shape[1]
        last = last_tokens(self.tokens, self.special.start)
        logits, state = decoder.step(last, self.state)
        beam = replace(self, state=state)
        logits = logits.float()
        vocabulary = logits.shape[1]
        length = self.tokens.shape[1]
        best = find_best_tokens(
            logits, min(count, vocabulary), self.special, processors, length
        )
        if best is not None:
            added, tokens = (part.view(len(self.sources), width, -1) for part in best)
            scores = (self.scores[..., None] + added).flatten(1)
            scores, places = scores.topk(min(count, scores.shape[1]))
            parents = places.div(added.shape[2], rounding_mode="floor")
            tokens = tokens.flatten(1).gather(1, places)
            return beam, Extensions(scores, parents, tokens)
        empty = self.scores.flatten() == -torch.inf
        following = next_scores(logits, self.special)
        require_token(following.amax(-1).masked_fill(empty, 0.0))
        if empty.any():  # the rows of empty places may hold anything, NaN too
            following[empty] = -torch.inf
        owners = self.sources.repeat_interleave(width)
        for processor in processors:
            following = processor(following, self.tokens, owners)
        extended = self.scores[..., None] + following.unflatten(0, (-1, width))
        scores, places = best_scores(extended.flatten(1), count)
        return beam, Extensions(scores, places // vocabulary, places % vocabulary)

    def follow(self, extensions: Extensions) -> "BeamState":
        """Return the hypotheses after these extensions, `width` for each source."""
        width = self.scores.shape[1]
        numbers = torch.arange(len(self.sources), device=self.sources.device)
        rows = (extensions.parents + width * numbers[:, None]).flatten()
        last = extensions.tokens.reshape(-1, 1)
        tokens = torch.cat([self.tokens[rows], last], 1)
        state = self.state.follow(rows)
        return replace(self, scores=extensions.scores, tokens=tokens, state=state)


@dataclass(frozen=True)
class Beam:
    """Beam search: keep the `width` best hypotheses at every step.

    A source is done when it has `width` ended hypotheses and no open one scores better
    at its present length than the worst of them. Hypotheses at the length limit are
    returned, as unfinished and behind the finished ones, only where too few have ended.
    """

    width: int
    length: LengthPenalty = NO_PENALTY
    processors: tuple[LogitsProcessor, ...] = ()
    begins: tuple[int, ...] = ()
    """The number of tokens of each source that belong to its prompt and have no length for the penalty."""
    early: bool = False
    """A source is done as soon as it has `width` ended hypotheses."""

    def choose(
        self,
        beam: BeamState,
        best: Extensions,
    ) -> tuple[Extensions | None, Extensions]:
        """Split the best extensions into those that end and those that continue.

        Those end that have END among the `width` best; the `width` best others
        continue. The first part is None if no extension ends.
        """
        end = is_end(best.tokens, beam.special)
        first = Extensions(*(part[:, : self.width] for part in best))
        if not end.any():
            return None, first
        ending = first.scores.masked_fill(~end[:, : self.width], -torch.inf)
        opening = best._replace(scores=best.scores.masked_fill(end, -torch.inf))
        order = opening.scores.topk(self.width).indices
        return first._replace(scores=ending), opening.take(order)

    @use_search_kernels()
    def __call__(
        self,
        decoder: Decoder,
        memory: Memory,
        *,
        max_length: int | Tensor,
        n_best: int = 1,
    ) -> list[list[Hypothesis]]:
        """Return the `n_best` best different hypotheses for each row of the memory, best first.

        Args:
            max_length: The maximal number of tokens, END included: one number, or
                `(batch,)`.

        Raises:
            ValueError: Width below 1 or above the vocabulary, n_best outside
                1..width, max_length below 1, or a hypothesis that no token can follow.
        """
        vocabulary = decoder.output.out_features
        if not 1 <= n_best <= self.width <= vocabulary:
            raise ValueError(
                f"beam width is {self.width} and n_best {n_best}; "
                f"they must satisfy 1 <= n_best <= width <= {vocabulary}, the vocabulary"
            )
        limit = max_lengths(memory, max_length)
        ended: list[list[Hypothesis]] = [[] for _ in limit]
        limits = limit.tolist()
        beam = BeamState.first(decoder, memory, self.width)
        count = (1 + len(beam.special.ends)) * self.width
        while len(beam.sources):
            beam, best = beam.step(decoder, self.processors, count)
            ending, going = self.choose(beam, best)
            if ending is not None:
                self.add_finished(beam, ending, ended)
            beam = self.drop_done(beam.follow(going), ended, limits)
        return [rank_different(hypotheses)[:n_best] for hypotheses in ended]

    def count_prompt(self, source: int) -> int:
        """Return the number of tokens of a source that belong to its prompt."""
        return self.begins[source] if self.begins else 0

    def add_finished(
        self,
        beam: BeamState,
        ending: Extensions,
        ended: list[list[Hypothesis]],
    ) -> None:
        """Add the hypotheses that end to those of their sources."""
        for row, rank in (ending.scores > -torch.inf).nonzero().tolist():
            source = int(beam.sources[row])
            text = beam.text(row, int(ending.parents[row, rank]))
            length = len(text) - self.count_prompt(source) + 1
            score = self.length(float(ending.scores[row, rank]), length)
            ended[source].append(Hypothesis(tuple(text), score, finished=True))

    def add_unfinished(
        self,
        beam: BeamState,
        row: int,
        length: int,
        done: list[Hypothesis],
    ) -> None:
        """Fill up the ended hypotheses of a source with its best open ones."""
        scores = beam.scores[row].tolist()
        best_first = sorted(range(self.width), key=lambda place: -scores[place])
        for place in best_first[: self.width - len(done)]:
            if scores[place] > -torch.inf:
                text = tuple(beam.text(row, place))
                score = self.length(scores[place], length)
                done.append(Hypothesis(text, score, finished=False))

    def is_open(
        self,
        best: float,
        length: int,
        done: list[Hypothesis],
    ) -> bool:
        """Return whether a source needs more steps.

        Args:
            best: The best score of its open hypotheses.
            length: Their length.
            done: Its ended hypotheses, best first.
        """
        if len(done) < self.width:
            return best > -torch.inf
        if self.early:
            return False
        worst = done[self.width - 1].score
        settled = self.length(best, max(length, 1)) <= worst
        return best > -torch.inf and not settled

    def drop_done(
        self,
        beam: BeamState,
        ended: list[list[Hypothesis]],
        limits: list[int],
    ) -> BeamState:
        """Return the beam without the sources that are done.

        At the length limit, open hypotheses fill up the ended ones.
        """
        keep = []
        position = beam.tokens.shape[1]
        highest = beam.scores.amax(1).tolist()
        for row, source in enumerate(beam.sources.tolist()):
            done = ended[source]
            done.sort(key=lambda hypothesis: -hypothesis.score)
            length = position - self.count_prompt(source)
            if position >= limits[source]:
                self.add_unfinished(beam, row, length, done)
            elif self.is_open(highest[row], length, done):
                keep.append(row)
        if len(keep) == len(beam.sources):
            return beam
        device = beam.sources.device
        return beam.select(torch.tensor(keep, dtype=torch.long, device=device))


def rank_different(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Return different hypotheses, the finished ones first, and best first."""
    different = {}
    for item in sorted(hypotheses, key=lambda item: item.score):
        different[item.tokens, item.finished] = item
    return sorted(different.values(), key=lambda item: (not item.finished, -item.score))
