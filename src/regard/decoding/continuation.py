"""Wrappers of decoders: one continues prompts, one has a sliding context."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.nn.decoders.protocol import SequenceDecoder, State
from regard.nn.kv_cache import CausalState
from regard.shapes import States, Tokens

Before = Literal["end", "start", "nothing"]
"""What precedes a text to continue: the end of another text, the start token, or nothing."""


@dataclass(frozen=True, eq=False)
class PromptedState(State):
    """The state of the inner decoder, and the last token of each prompt, `(batch,)`, which the next step reads."""

    inner: State
    last: Tensor


class Prompted(SequenceDecoder[PromptedState]):
    """Continue prompts `(batch, position)` of at least one token. `start` reads all tokens but the last in one pass;
    the last one replaces the START that a search feeds."""

    def __init__(self, decoder: SequenceDecoder, prompts: Tokens):
        super().__init__()
        self.decoder, self.prompts = decoder, prompts
        self.output, self.special, self.source_attention = (
            decoder.output,
            decoder.special,
            None,
        )

    def start(self, memory: Memory) -> PromptedState:
        state = self.decoder.start(memory)
        if self.prompts.shape[1] > 1:
            _, state = self.decoder.run(self.prompts[:, :-1], state)
        return PromptedState(state, self.prompts[:, -1])

    def run(self, tokens: Tokens, state: PromptedState) -> tuple[Any, PromptedState]:
        fed = tokens.where(tokens != self.special.start, state.last[:, None])
        features, inner = self.decoder.run(fed, state.inner)
        return features, PromptedState(inner, state.last)

    def at(self, features: Any, position: int) -> Any:
        return self.decoder.at(features, position)


@dataclass(frozen=True, eq=False)
class PrefixedState(State):
    """The state of the inner decoder, and the features behind each prompt until the first step takes them."""

    inner: CausalState
    first: Any


class Prefixed(SequenceDecoder[PrefixedState]):
    """Continue prompts `(batch, position)` of at least one token whose tokens read each other in both directions;
    later tokens read those before them. `start` reads the prompts in one pass; the first step, which a search feeds
    START, predicts from there."""

    def __init__(self, decoder: SequenceDecoder[CausalState], prompts: Tokens):
        super().__init__()
        self.decoder, self.prompts = decoder, prompts
        self.output, self.special, self.source_attention = (
            decoder.output,
            decoder.special,
            None,
        )

    def start(self, memory: Memory) -> PrefixedState:
        lengths = torch.full(
            (len(self.prompts),), self.prompts.shape[1], device=self.prompts.device
        )
        features, inner = self.decoder.run(
            self.prompts, self.decoder.start(memory).with_prefix(lengths)
        )
        return PrefixedState(inner, self.decoder.at(features, -1))

    def run(self, tokens: Tokens, state: PrefixedState) -> tuple[States, PrefixedState]:
        if state.first is None:
            features, inner = self.decoder.run(tokens, state.inner)
            return features, PrefixedState(inner, None)
        first, inner = state.first[:, None], state.inner
        if tokens.shape[1] == 1:
            return first, PrefixedState(inner, None)
        features, inner = self.decoder.run(tokens[:, 1:], inner)
        return torch.cat([first, features], 1), PrefixedState(inner, None)


@dataclass(frozen=True, eq=False)
class SlidingState(State):
    """The state of the inner decoder, and the tokens that it has read, `(batch, position)`."""

    inner: State
    read: Tensor


class Sliding(SequenceDecoder[SlidingState]):
    """Decode texts of any length with a limited context. If one more token does not fit in `context`, start again with
    the last half, so that every token has at least half a context before it."""

    def __init__(self, decoder: SequenceDecoder, context: int):
        super().__init__()
        self.decoder, self.context, self.overlap = decoder, context, context // 2
        self.output, self.special, self.source_attention = (
            decoder.output,
            decoder.special,
            None,
        )

    def start(self, memory: Memory) -> SlidingState:
        inner = self.decoder.start(memory)
        return SlidingState(
            inner,
            torch.zeros(
                len(memory.value), 0, dtype=torch.int64, device=memory.value.device
            ),
        )

    def run(self, tokens: Tokens, state: SlidingState) -> tuple[States, SlidingState]:
        found = []
        for part in tokens.split(self.context - self.overlap, 1):
            features, state = self._read(part, state)
            found.append(features)
        return torch.cat(found, 1), state

    def _read(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """`run` for at most as many tokens as fit behind the overlap."""
        before, inner = state.read, state.inner
        fed = tokens
        if before.shape[1] + tokens.shape[1] > self.context:
            before = before[:, before.shape[1] - self.overlap :]
            fed = torch.cat([before, tokens], 1)
            nothing = next(self.parameters()).new_zeros(len(tokens), 0, 1)
            inner = self.decoder.start(Memory(nothing, nothing))
        features, inner = self.decoder.run(fed, inner)
        return features[:, -tokens.shape[1] :], SlidingState(
            inner, torch.cat([before, tokens], 1)
        )
