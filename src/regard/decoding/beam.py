"""Beam search."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam_state import BeamState, Extensions, concatenate
from regard.decoding.hypothesis import (
    CoveragePenalty,
    Hypothesis,
    LengthPenalty,
    limits,
)
from regard.decoding.hypothesis import ended as is_end
from regard.decoding.logits_processors import LogitsProcessor
from regard.decoding.whole_search import Searcher, whole_search
from regard.nn.decoders.protocol import Decoder


@dataclass(frozen=True)
class Beam:
    """Beam search: keep the `width` best hypotheses at every step.

    A source is done when it has `width` ended hypotheses and no open one scores better at its present length, with full
    coverage and without a brevity penalty, than the worst of them. Hypotheses at the length limit are returned, as
    unfinished and behind the finished ones, only where too few have ended. A variant overrides `choose`, and `start`
    for the places that are open at first.
    """

    width: int
    length: LengthPenalty = field(default_factory=LengthPenalty)
    coverage: CoveragePenalty | None = None
    processors: tuple[LogitsProcessor, ...] = ()
    begins: tuple[int, ...] = ()
    """The number of tokens of each source that belong to its prompt and have no length for the penalty."""
    early: bool = False
    """A source is done as soon as it has `width` ended hypotheses."""

    @property
    def start(self) -> tuple[int, ...]:
        """The places that hold an empty hypothesis at first."""
        return (0,)

    def choose(
        self, beam: BeamState, extended: Tensor
    ) -> tuple[Extensions, Extensions]:
        """Split the best extensions out of `(source, width, vocabulary)` into those that end, with END among the
        `width` best, and the `width` best that continue."""
        best = Extensions.best(extended, (1 + len(beam.special.ends)) * self.width)
        end = is_end(best.tokens, beam.special)
        ending = Extensions(*(each[:, : self.width] for each in best.only(end)))
        return ending, best.only(~end).top(self.width)

    @torch.no_grad()
    def __call__(
        self,
        decoder: Decoder,
        memory: Memory,
        *,
        max_length: int | Tensor,
        n_best: int = 1,
    ) -> list[list[Hypothesis]]:
        """The `n_best` best different hypotheses for each row of the memory, best first.

        Args:
            max_length: the maximal number of tokens, END included: one number, or `(batch,)`.

        Raises:
            ValueError: width below 1 or above the vocabulary, n_best outside 1..width, max_length below 1, a hypothesis
                that no token can follow, or a coverage penalty for a decoder without source attention.
        """
        self.check(decoder, n_best)
        limit = limits(memory, max_length)
        if (
            isinstance(decoder, Searcher)
            and type(self) is Beam
            and self.coverage is None
            and not self.begins
        ):
            whole = whole_search(
                decoder,
                memory,
                limit,
                self.width,
                self.length,
                self.processors,
                early=self.early,
            )
            if whole is not None:
                return [
                    self.best(source, each)[:n_best]
                    for source, each in enumerate(whole)
                ]
        ended: list[list[Hypothesis]] = [[] for _ in limit]
        beam = BeamState.first(
            decoder, memory, self.width, self.start, self.coverage is not None
        )
        while len(beam.sources):
            beam, extended = beam.step(decoder, self.processors)
            ending, going = self.choose(beam, extended)
            for source, rank in (ending.scores > -torch.inf).nonzero().tolist():
                place = int(ending.parents[source, rank])
                score = self.score(
                    beam, source, place, float(ending.scores[source, rank]), ended=1
                )
                text = tuple(beam.text(source, place))
                ended[int(beam.sources[source])].append(
                    Hypothesis(text, score, finished=True)
                )
            beam = self.without_done(beam.follow(going), ended, limit)
        return [self.best(source, each)[:n_best] for source, each in enumerate(ended)]

    def check(self, decoder: Decoder, n_best: int) -> None:
        """Raise ValueError for a width, `n_best` or coverage penalty that does not fit the decoder."""
        vocabulary = decoder.output.out_features
        if not 1 <= n_best <= self.width <= vocabulary:
            raise ValueError(
                f"beam width is {self.width} and n_best {n_best}; "
                f"they must satisfy 1 <= n_best <= width <= {vocabulary}, the vocabulary"
            )
        if self.coverage is not None and decoder.source_attention is None:
            raise ValueError(
                "a coverage penalty needs a model that attends to its source, which this one does not"
            )

    def score(
        self,
        beam: BeamState,
        source: int,
        place: int,
        log_probability: float,
        ended: int,
    ) -> float:
        """The score of a hypothesis with its penalties; its length counts END if it has `ended`."""
        row = int(beam.sources[source])
        score = self.length(
            log_probability, beam.tokens.shape[1] - self.prompt(row) + ended, row
        )
        if self.coverage is None or beam.coverage is None:
            return score
        return score + self.coverage(beam.coverage[source * self.width + place])

    def prompt(self, source: int) -> int:
        """The number of tokens of a source that belong to its prompt."""
        return self.begins[source] if self.begins else 0

    def without_done(
        self, beam: BeamState, ended: list[list[Hypothesis]], limit: Tensor
    ) -> BeamState:
        """The beam without the sources that are done; at the length limit, open hypotheses fill up the ended ones."""
        length, keep = beam.tokens.shape[1], []
        for row, (source, scores) in enumerate(
            zip(beam.sources.tolist(), beam.scores.tolist(), strict=True)
        ):
            done = ended[source]
            done.sort(key=lambda hypothesis: -hypothesis.score)
            if length >= int(limit[source]):
                for place in sorted(
                    range(self.width), key=lambda place: -scores[place]
                )[: self.width - len(done)]:
                    if scores[place] > -torch.inf:
                        score = self.score(beam, row, place, scores[place], ended=0)
                        done.append(
                            Hypothesis(
                                tuple(beam.text(row, place)), score, finished=False
                            )
                        )
            elif max(scores) > -torch.inf and not self.settled(
                done, max(scores), length - self.prompt(source)
            ):
                keep.append(row)
        if len(keep) == len(beam.sources):
            return beam
        return beam.select(torch.tensor(keep, dtype=torch.long, device=limit.device))

    def settled(self, ended: list[Hypothesis], best_open: float, length: int) -> bool:
        """Whether no open hypothesis, `length` tokens behind its prompt, can still be among the best."""
        if len(ended) < self.width:
            return False
        return (
            self.early
            or self.length(best_open, max(length, 1)) <= ended[self.width - 1].score
        )

    def best(self, source: int, found: list[Hypothesis]) -> list[Hypothesis]:
        """The different hypotheses of a source, the finished ones first, and best first."""
        ordered = sorted(found, key=lambda hypothesis: hypothesis.score)
        different = {(each.tokens, each.finished): each for each in ordered}
        return sorted(
            different.values(),
            key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score),
        )


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
            raise ValueError(
                f"groups is {self.groups}; it must be a divisor of the beam's width {self.width}"
            )
        if not self.strength >= 0:
            raise ValueError(f"strength is {self.strength}; it must be at least 0")

    @property
    def start(self) -> tuple[int, ...]:
        return tuple(range(0, self.width, self.width // self.groups))

    def choose(
        self, beam: BeamState, extended: Tensor
    ) -> tuple[Extensions, Extensions]:
        size = self.width // self.groups
        counts = extended.new_zeros(len(extended), 1, extended.shape[-1])
        ending, going = [], []
        for first in range(0, self.width, size):
            group = extended[:, first : first + size]
            lowered = Extensions.best(
                group - self.strength * counts, (1 + len(beam.special.ends)) * size
            )
            own = group.flatten(1).gather(
                1, lowered.parents * group.shape[-1] + lowered.tokens
            )
            found = Extensions(own, lowered.parents + first, lowered.tokens)
            end = is_end(found.tokens, beam.special)
            ending.append(Extensions(*(each[:, :size] for each in found.only(end))))
            order = lowered.only(~end).scores.topk(size).indices
            going.append(
                Extensions(*(each.gather(1, order) for each in found.only(~end)))
            )
            chosen = (going[-1].scores > -torch.inf).to(counts)
            counts[:, 0].scatter_add_(1, going[-1].tokens, chosen)
        return concatenate(ending), concatenate(going)
