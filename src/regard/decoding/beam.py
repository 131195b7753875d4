"""Beam search: plain, diverse and with required phrases."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.decoding.hypothesis import (
    CoveragePenalty,
    Hypothesis,
    LengthPenalty,
    last_tokens,
    max_lengths,
    next_scores,
    padding_mask,
    require_token,
)
from regard.decoding.hypothesis import is_end as is_end
from regard.decoding.processors import LogitsProcessor, process
from regard.nn.decoders import Decoder, State
from regard.text.special import SPECIAL, SpecialTokens
from regard.work import checkpoint


class Extensions(NamedTuple):
    """Extensions of hypotheses by one token, `(source, extension)`.

    The score (minus infinity where there is none), the place of the hypothesis that is
    extended, and the token.
    """

    scores: Tensor
    parents: Tensor
    tokens: Tensor

    @classmethod
    def best(cls, extended: Tensor, count: int) -> "Extensions":
        """Return the `count` best of all scores `(source, place, vocabulary)`, best first."""
        scores, places = extended.flatten(1).topk(min(count, extended[0].numel()))
        return cls(scores, places // extended.shape[-1], places % extended.shape[-1])

    def only(self, mask: Tensor) -> "Extensions":
        """Mask the extensions for which `mask (source, extension)` is false."""
        return self._replace(scores=self.scores.masked_fill(~mask, -torch.inf))

    def top(self, count: int) -> "Extensions":
        """Return the `count` best, best first."""
        scores, order = self.scores.topk(count)
        return Extensions(
            scores, self.parents.gather(1, order), self.tokens.gather(1, order)
        )


def concatenate(parts: Sequence[Extensions]) -> Extensions:
    """Return the extensions of every part, one part after the other."""
    return Extensions(*(torch.cat(tensors, 1) for tensors in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class BeamState:
    """`width` hypotheses for each source that is still searched.

    `sources (source,)` are rows of the memory; `scores (source, width)` are log-probabilities, minus infinity for an
    empty place; `tokens (source * width, length)`; `state`, the decoder's, has source * width rows; `coverage (source *
    width, key)` is the sum of the attention weights of each source position, 1 for padding, or None without a coverage
    penalty.
    special: the ids with which the texts begin and end.
    """

    sources: Tensor
    scores: Tensor
    tokens: Tensor
    state: State
    coverage: Tensor | None = None
    special: SpecialTokens = SPECIAL

    @classmethod
    def first(
        cls,
        decoder: Decoder,
        memory: Memory,
        width: int,
        open_places: Sequence[int],
        with_coverage: bool,
    ) -> "BeamState":
        """Return an empty hypothesis in each of the open places, of which there is at least one."""
        sources = torch.arange(memory.value.shape[0], device=memory.value.device)
        scores = torch.full((len(sources), width), -torch.inf, device=sources.device)
        scores[:, list(open_places)] = 0.0
        rows = sources.repeat_interleave(width)
        tokens = rows.new_empty(len(rows), 0)
        coverage = padding_mask(memory)[rows] if with_coverage else None
        return cls(
            sources,
            scores,
            tokens,
            decoder.start(memory).select(rows),
            coverage,
            decoder.special,
        )

    @property
    def owners(self) -> Tensor:
        """The source of each row."""
        return self.sources.repeat_interleave(self.scores.shape[1])

    def text(self, source: int, place: int) -> list[int]:
        """Return the tokens of the hypothesis at a place."""
        return self.tokens[source * self.scores.shape[1] + place].tolist()

    def select(self, keep: Tensor) -> "BeamState":
        """Return the beam with the sources `keep` only."""
        width = self.scores.shape[1]
        rows = (
            keep[:, None] * width + torch.arange(width, device=keep.device)
        ).flatten()
        coverage = None if self.coverage is None else self.coverage[rows]
        state = self.state.select(rows)
        return BeamState(
            self.sources[keep],
            self.scores[keep],
            self.tokens[rows],
            state,
            coverage,
            self.special,
        )

    def step(
        self, decoder: Decoder, processors: Sequence[LogitsProcessor]
    ) -> tuple["BeamState", Tensor]:
        """Feed every hypothesis its last token.

        Raises:
            ValueError: A hypothesis that no token can follow.

        Returns:
            The beam after it, and the scores `(source, width, vocabulary)` of all
            extensions; an empty place has none.
        """
        checkpoint()
        last = last_tokens(self.tokens, self.special.start)
        if self.coverage is None:
            (logits, state), coverage = decoder.step(last, self.state), None
        else:
            assert decoder.source_attention is not None
            with record(decoder, only=decoder.source_attention) as maps:
                logits, state = decoder.step(last, self.state)
            coverage = self.coverage + torch.stack(
                [weights.flatten(1, -2).mean(1) for weights in maps.values()]
            ).mean(0)
        empty, following = (
            self.scores.flatten() == -torch.inf,
            next_scores(logits, self.special),
        )
        require_token(following.amax(-1).masked_fill(empty, 0.0))
        if empty.any():  # the rows of empty places may hold anything, NaN too
            following[empty] = -torch.inf
        following = process(processors, following, self.tokens, self.owners)
        extended = self.scores[..., None] + following.unflatten(
            0, (-1, self.scores.shape[1])
        )
        return replace(self, state=state, coverage=coverage), extended

    def follow(self, extensions: Extensions) -> "BeamState":
        """Return the hypotheses after these extensions, `width` for each source."""
        width = self.scores.shape[1]
        offsets = (
            width * torch.arange(len(self.sources), device=self.sources.device)[:, None]
        )
        rows = (extensions.parents + offsets).flatten()
        tokens = torch.cat([self.tokens[rows], extensions.tokens.flatten()[:, None]], 1)
        coverage = None if self.coverage is None else self.coverage[rows]
        state = self.state.follow(rows)
        return replace(
            self,
            scores=extensions.scores,
            tokens=tokens,
            state=state,
            coverage=coverage,
        )


@dataclass(frozen=True)
class Beam:
    """Beam search: keep the `width` best hypotheses at every step.

    A source is done when it has `width` ended hypotheses and no open one scores better
    at its present length, with full coverage and without a brevity penalty, than the
    worst of them. Hypotheses at the length limit are returned, as unfinished and behind
    the finished ones, only where too few have ended. A variant overrides `choose`, and
    `start` for the places that are open at first.
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
        """Split the best extensions into those that end and those that continue.

        Of `(source, width, vocabulary)`, those end that have END among the `width`
        best; the `width` best others continue.
        """
        best = Extensions.best(extended, (1 + len(beam.special.ends)) * self.width)
        end = is_end(best.tokens, beam.special)
        ending = Extensions(*(tensor[:, : self.width] for tensor in best.only(end)))
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
        """Return the `n_best` best different hypotheses for each row of the memory, best first.

        Args:
            max_length: The maximal number of tokens, END included: one number, or
                `(batch,)`.

        Raises:
            ValueError: Width below 1 or above the vocabulary, n_best outside
                1..width, max_length below 1, a hypothesis that no token can follow,
                or a coverage penalty for a decoder without source attention.
        """
        self.check(decoder, n_best)
        limit = max_lengths(memory, max_length)
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
        return [
            self.best(source, hypotheses)[:n_best]
            for source, hypotheses in enumerate(ended)
        ]

    def check(self, decoder: Decoder, n_best: int) -> None:
        """Check the arguments.

        Raises:
            ValueError: A width, `n_best` or coverage penalty that does not fit the
                decoder.
        """
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
        """Return the score of a hypothesis with its penalties.

        Its length counts END if it has `ended`.
        """
        row = int(beam.sources[source])
        score = self.length(
            log_probability, beam.tokens.shape[1] - self.prompt(row) + ended, row
        )
        if self.coverage is None or beam.coverage is None:
            return score
        return score + self.coverage(beam.coverage[source * self.width + place])

    def prompt(self, source: int) -> int:
        """Return the number of tokens of a source that belong to its prompt."""
        return self.begins[source] if self.begins else 0

    def without_done(
        self, beam: BeamState, ended: list[list[Hypothesis]], limit: Tensor
    ) -> BeamState:
        """Return the beam without the sources that are done.

        At the length limit, open hypotheses fill up the ended ones.
        """
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
        """Return whether no open hypothesis, `length` tokens behind its prompt, can still be among the best."""
        if len(ended) < self.width:
            return False
        return (
            self.early
            or self.length(best_open, max(length, 1)) <= ended[self.width - 1].score
        )

    def best(self, source: int, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Return the different hypotheses of a source, the finished ones first, and best first."""
        ordered = sorted(hypotheses, key=lambda hypothesis: hypothesis.score)
        different = {
            (hypothesis.tokens, hypothesis.finished): hypothesis
            for hypothesis in ordered
        }
        return sorted(
            different.values(),
            key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score),
        )


@dataclass(frozen=True)
class DiverseBeam(Beam):
    """Search with `groups` beams of width / groups each, one after the other at every step.

    Lower the log-probability of a token by n * `strength` where n hypotheses of earlier
    groups have chosen it at this step (Vijayakumar 2018, 1610.02424, Hamming
    diversity). The penalty affects the choice only; scores stay the model's own.

    Raises:
        ValueError: Groups below 1 or no divisor of the width, or strength negative.
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
            scores = group.flatten(1).gather(
                1, lowered.parents * group.shape[-1] + lowered.tokens
            )
            extensions = Extensions(scores, lowered.parents + first, lowered.tokens)
            end = is_end(extensions.tokens, beam.special)
            ending.append(
                Extensions(*(tensor[:, :size] for tensor in extensions.only(end)))
            )
            order = lowered.only(~end).scores.topk(size).indices
            going.append(
                Extensions(
                    *(tensor.gather(1, order) for tensor in extensions.only(~end))
                )
            )
            chosen = (going[-1].scores > -torch.inf).to(counts)
            counts[:, 0].scatter_add_(1, going[-1].tokens, chosen)
        return concatenate(ending), concatenate(going)


Phrase = Sequence[int]


@dataclass(frozen=True)
class ConstrainedBeam(Beam):
    """Dynamic beam allocation (Post and Vilar 2018, 1804.06609).

    Every finished hypothesis contains all `phrases` of its source behind its prompt,
    each contiguous; phrases may overlap. Hypotheses at the length limit are sorted by
    the number of missing phrase tokens, fewest first.

    Candidates are grouped in banks by the number of phrase tokens they contain. Banks
    fill the beam in turn, the fullest bank first.

    Raises:
        ValueError: A phrase is empty.
    """

    phrases: Sequence[Sequence[Phrase]] = ()

    def __post_init__(self) -> None:
        if any(not len(phrase) for phrases in self.phrases for phrase in phrases):
            raise ValueError("a phrase is empty; give at least one token")

    def choose(
        self, beam: BeamState, extended: Tensor
    ) -> tuple[Extensions, Extensions]:
        ending, going = [], []
        for row, source in enumerate(beam.sources.tolist()):
            candidates = self.candidates(beam, extended, row, self.phrases[source])
            ranked = in_banks(candidates)
            ending.append(
                [
                    candidate
                    for candidate in ranked[: self.width]
                    if candidate[2] in beam.special.ends
                ]
            )
            going.append(
                [
                    candidate
                    for candidate in ranked
                    if candidate[2] not in beam.special.ends
                ][: self.width]
            )
        return table(ending, self.width, extended), table(going, self.width, extended)

    def best(self, source: int, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Return the different hypotheses of a source.

        Fewest missing phrase tokens first, then best score.
        """

        def lacking(hypothesis: Hypothesis) -> int:
            written = hypothesis.tokens[self.prompt(source) :]
            return sum(len(missing(written, phrase)) for phrase in self.phrases[source])

        return sorted(super().best(source, hypotheses), key=lacking)

    def candidates(
        self, beam: BeamState, extended: Tensor, row: int, phrases: Sequence[Phrase]
    ) -> list[tuple[int, float, int, int]]:
        """Candidates of a source: (phrase tokens matched, score, place, token).

        They are the best of all extensions, the best of each hypothesis and every next
        token of a phrase. END is a candidate only if no phrase is missing.
        """
        scores = extended[row]
        best = Extensions.best(scores[None], (1 + len(beam.special.ends)) * self.width)
        places = set(
            zip(best.parents[0].tolist(), best.tokens[0].tolist(), strict=True)
        )
        places |= set(enumerate(scores.argmax(-1).tolist()))
        candidates = []
        for place in range(self.width):
            checkpoint()
            text = beam.text(row, place)[self.prompt(int(beam.sources[row])) :]
            following = {
                token for phrase in phrases for token in missing(text, phrase)[:1]
            }
            complete = not any(missing(text, phrase) for phrase in phrases)
            for token in {
                token for parent, token in places if parent == place
            } | following:
                score = float(scores[place, token])
                if score > -torch.inf and (token not in beam.special.ends or complete):
                    longer = [*text, token]
                    matched = sum(
                        len(phrase) - len(missing(longer, phrase)) for phrase in phrases
                    )
                    candidates.append((matched, score, place, token))
        return candidates


def in_banks(
    candidates: list[tuple[int, float, int, int]],
) -> list[tuple[float, int, int]]:
    """Return the best of each bank, then the second of each, and so on.

    In each round the fullest bank first.
    """
    banks: dict[int, list[tuple[float, int, int]]] = {}
    for matched, score, place, token in sorted(candidates, reverse=True):
        banks.setdefault(matched, []).append((score, place, token))
    return [
        candidate
        for rank in zip_longest(*banks.values())
        for candidate in rank
        if candidate is not None
    ]


def table(
    chosen: list[list[tuple[float, int, int]]], width: int, like: Tensor
) -> Extensions:
    """Return the chosen candidates as `width` extensions for each source, best first."""
    nothing = (-torch.inf, 0, 0)
    rows = [
        sorted(candidates, reverse=True) + [nothing] * (width - len(candidates))
        for candidates in chosen
    ]
    scores, parents, tokens = (
        torch.tensor(
            [[candidates[part] for candidates in row] for row in rows],
            device=like.device,
        )
        for part in range(3)
    )
    return Extensions(scores.to(like), parents, tokens)


def missing(text: Sequence[int], phrase: Phrase) -> Phrase:
    """Return the tokens of the phrase that must still follow.

    None if the text contains it, else those behind the longest prefix of the phrase
    that ends the text.
    """
    text, phrase = tuple(text), tuple(phrase)
    size = len(phrase)
    if any(text[at : at + size] == phrase for at in range(len(text) - size + 1)):
        return ()
    matched = [
        count
        for count in range(min(size, len(text)) + 1)
        if text[len(text) - count :] == phrase[:count]
    ]
    return phrase[max(matched) :]
