"""What every decoder is, and the state that it passes from step to step."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory, selected
from regard.shapes import Float, Rows, Step, Tokens
from regard.text.special import SPECIAL, SpecialTokens

Kind = TypeVar("Kind", bound="State")


@dataclass(frozen=True, eq=False)
class State:
    """Everything a decoder carries: batch-first tensors, memories, tuples of these, or None. A `Memory` is what is read
    of the source, and so the same for all texts that are written of one."""

    def select(self: Kind, rows: Rows) -> Kind:
        """The state of the batch rows `rows`, in that order, repeats allowed."""
        return replace(self, **{field.name: selected(getattr(self, field.name), rows) for field in fields(self)})

    def follow(self: Kind, rows: Rows) -> Kind:
        """As `select` of as many rows, each of which belongs to the source of the row whose place it takes: what is
        read of the sources stays."""
        return replace(self, **{field.name: _followed(getattr(self, field.name), rows) for field in fields(self)})

    def detach(self: Kind) -> Kind:
        """The same numbers without their history; of a state that is tensors alone."""
        return replace(self, **{name: tensor.detach() for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """The parts by name, of a state that is tensors alone."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _followed(part: Any, rows: Tensor) -> Any:
    match part:
        case Memory():
            return part
        case State():
            return part.follow(rows)
        case tuple():
            return tuple(_followed(each, rows) for each in part)
        case _:
            return selected(part, rows)


S = TypeVar("S", bound=State)


class Decoder(nn.Module, ABC, Generic[S]):
    """Turns a memory into a sequence, one token at a time.

    `features` are what stands before the last layer `output`: logits = output(features). They are tensors, `(batch,
    [position,] width)`, unless a decoder's output layer takes something else.
    """

    output: Any
    """A `Predictor`; each decoder knows which."""
    special: SpecialTokens = SPECIAL
    """The special ids of the vocabulary that it writes."""
    source_gate: str | None = None
    """Name of the module, within the decoder, that weighs what was read of the source by one number a step; None: what
    is read is taken whole."""
    source_attention: str | tuple[str, ...] | None = "attend"
    """Names of the modules, within the decoder, that read the source, as `record` takes them; None: none does. Their
    weights at step t belong to the token that the step predicts."""
    self_attention: str | tuple[str, ...] | None = None
    """Names of the modules, within the decoder, by which its tokens read those before them, as `record` takes them;
    None: none do."""

    @abstractmethod
    def start(self, memory: Memory) -> S:
        """The state before the first token; all work that is needed once a memory is done here."""

    @abstractmethod
    def advance(self, tokens: Step, state: S) -> tuple[Any, S]:
        """Read the tokens `(batch,)` just given -> features of the next token, and the state after them. The state
        given is consumed."""

    def step(self, tokens: Step, state: S) -> tuple[Float[Tensor, "batch vocabulary"], S]:
        """Read the tokens `(batch,)` just given -> logits of the next token, and the state after them."""
        features, state = self.advance(tokens, state)
        return self.output(features), state

    def features(self, tokens: Tokens, state: S) -> Any:
        """Teacher forcing: features `(batch, position, width)` after each of the given tokens `(batch, position)`.
        The same as stepping through them; decoders that can do it in one pass override this."""
        features = []
        for token in tokens.unbind(1):
            feature, state = self.advance(token, state)
            features.append(feature)
        return self.join(features)

    def join(self, steps: Sequence[Any]) -> Any:
        """The features of steps, one after the other."""
        return torch.stack(list(steps), 1)


class SequenceDecoder(Decoder[S]):
    """A decoder that reads any number of tokens in one pass."""

    @abstractmethod
    def run(self, tokens: Tokens, state: S) -> tuple[Any, S]:
        """Read tokens `(batch, position)` -> features after each of them, and the state after the last. The state given
        is consumed."""

    def features(self, tokens: Tokens, state: S) -> Any:
        return self.run(tokens, state)[0]

    def advance(self, tokens: Step, state: S) -> tuple[Any, S]:
        features, state = self.run(tokens[:, None], state)
        return self.at(features, 0), state

    def at(self, features: Any, position: int) -> Any:
        """The features of one position."""
        return features[:, position]


def unroll(decoder: Decoder[S], tokens: Tokens, state: S, forcing: float) -> Any:
    """Features as `Decoder.features`, but each token after the first is the given one only with probability `forcing`,
    else the decoder's own best guess: 1 is teacher forcing, 0 free running, between them scheduled sampling
    (Bengio 2015, 1506.03099). Draws from torch's generator."""
    features = []
    token_in = tokens[:, 0]
    for position in range(tokens.shape[1]):
        feature, state = decoder.advance(token_in, state)
        features.append(feature)
        if position + 1 < tokens.shape[1]:
            with torch.no_grad():
                own = decoder.output(feature).argmax(-1)
            forced = torch.rand(own.shape, device=own.device) < forcing
            token_in = torch.where(forced, tokens[:, position + 1], own)
    return decoder.join(features)
