"""A decoder that has read something before it writes."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.attention.memory import Memory
from regard.nn.decoders.protocol import SequenceDecoder, State
from regard.shapes import Tokens
from regard.text.special import START


@dataclass(frozen=True, eq=False)
class PromptedState(State):
    """The decoder's own, and the last token of each prompt, `(batch,)`, which is still to be read."""

    inner: State
    last: Tensor


class Prompted(SequenceDecoder[PromptedState]):
    """Goes on from prompts `(batch, position)`, each at least one token: all but the last are read in one pass when it
    starts, the last where a search gives START."""

    def __init__(self, decoder: SequenceDecoder, prompts: Tokens):
        super().__init__()
        self.decoder, self.prompts = decoder, prompts
        self.output, self.source_attention = decoder.output, None

    def start(self, memory: Memory) -> PromptedState:
        state = self.decoder.start(memory)
        if self.prompts.shape[1] > 1:
            _, state = self.decoder.run(self.prompts[:, :-1], state)
        return PromptedState(state, self.prompts[:, -1])

    def run(self, tokens: Tokens, state: PromptedState) -> tuple[Any, PromptedState]:
        given = tokens.where(tokens != START, state.last[:, None])
        features, inner = self.decoder.run(given, state.inner)
        return features, PromptedState(inner, state.last)

    def at(self, features: Any, position: int) -> Any:
        return self.decoder.at(features, position)
