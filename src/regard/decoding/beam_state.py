"""The open hypotheses of a beam and their extensions by one token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.decoding.hypothesis import (
    last_tokens,
    next_scores,
    require_token,
    unreadable,
)
from regard.decoding.logits_processors import LogitsProcessor, process
from regard.nn.decoders.protocol import Decoder, State
from regard.text.special import SPECIAL, SpecialTokens
from regard.work import checkpoint


class Extensions(NamedTuple):
    """Extensions of hypotheses by one token, `(source, extension)`: the score (minus infinity where there is none), the
    place of the hypothesis that is extended, and the token."""

    scores: Tensor
    parents: Tensor
    tokens: Tensor

    @classmethod
    def best(cls, extended: Tensor, count: int) -> "Extensions":
        """The `count` best of all scores `(source, place, vocabulary)`, best first."""
        scores, places = extended.flatten(1).topk(min(count, extended[0].numel()))
        return cls(scores, places // extended.shape[-1], places % extended.shape[-1])

    def only(self, which: Tensor) -> "Extensions":
        """Mask the extensions for which `which (source, extension)` is false."""
        return self._replace(scores=self.scores.masked_fill(~which, -torch.inf))

    def top(self, count: int) -> "Extensions":
        """The `count` best, best first."""
        scores, order = self.scores.topk(count)
        return Extensions(
            scores, self.parents.gather(1, order), self.tokens.gather(1, order)
        )


def concatenate(parts: Sequence[Extensions]) -> Extensions:
    """The extensions of every part, one part after the other."""
    return Extensions(*(torch.cat(each, 1) for each in zip(*parts, strict=True)))


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
        """An empty hypothesis in each of the open places, of which there is at least one."""
        sources = torch.arange(memory.value.shape[0], device=memory.value.device)
        scores = torch.full((len(sources), width), -torch.inf, device=sources.device)
        scores[:, list(open_places)] = 0.0
        rows = sources.repeat_interleave(width)
        tokens = rows.new_empty(len(rows), 0)
        coverage = unreadable(memory)[rows] if with_coverage else None
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
        """The tokens of the hypothesis at a place."""
        return self.tokens[source * self.scores.shape[1] + place].tolist()

    def select(self, keep: Tensor) -> "BeamState":
        """The beam with the sources `keep` only."""
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
        """Feed every hypothesis its last token -> the beam after it, and the scores `(source, width, vocabulary)` of
        all extensions; an empty place has none.

        Raises:
            ValueError: a hypothesis that no token can follow.
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
                [each.flatten(1, -2).mean(1) for each in maps.values()]
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
        """The hypotheses after these extensions, `width` for each source."""
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
