"""The decoder protocol, and the state that a decoder passes from step to step."""

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
    """The state of a decoder: batch-first tensors, memories, tuples of these, or None. A `Memory` holds the source,
    which all hypotheses of one source share."""

    def select(self: Kind, rows: Rows) -> Kind:
        """The state of the batch rows `rows`, in this order; rows may repeat."""
        return replace(
            self,
            **{
                field.name: selected(getattr(self, field.name), rows)
                for field in fields(self)
            },
        )

    def follow(self: Kind, rows: Rows) -> Kind:
        """Like `select`, for rows that stay with their source: row i must come from the same source as before. The
        memories stay as they are."""
        return replace(
            self,
            **{
                field.name: _followed(getattr(self, field.name), rows)
                for field in fields(self)
            },
        )

    def detach(self: Kind) -> Kind:
        """The same numbers without their graph, for a state of tensors only."""
        return replace(
            self, **{name: tensor.detach() for name, tensor in self.tensors().items()}
        )

    def tensors(self) -> dict[str, Tensor]:
        """The parts by name, for a state of tensors only."""
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
    """Generate a sequence from a memory, one token at a time.

    `features` are the input of the last layer: logits = output(features). They are tensors `(batch, [position,]
    width)`, unless the decoder's output layer needs another type.
    """

    output: Any
    """A `Predictor`; each decoder declares its own type."""
    special: SpecialTokens = SPECIAL
    """The special ids of the target vocabulary."""
    source_gate: str | None = None
    """Name of the module, within the decoder, that multiplies the context by one number per step; None if there is no
    gate."""
    source_attention: str | tuple[str, ...] | None = "attend"
    """Names of the modules, within the decoder, that read the source, as patterns for `record`; None if there are none.
    Their weights at step t belong to the token that the step predicts."""
    self_attention: str | tuple[str, ...] | None = None
    """Names of the modules, within the decoder, by which tokens read earlier tokens, as patterns for `record`; None if
    there are none."""

    @abstractmethod
    def start(self, memory: Memory) -> S:
        """The state before the first token. All work that is done once per memory is done here."""

    @abstractmethod
    def advance(self, tokens: Step, state: S) -> tuple[Any, S]:
        """Read the last tokens `(batch,)` -> features of the next token, and the new state. The old state must not be
        used again."""

    def step(
        self, tokens: Step, state: S
    ) -> tuple[Float[Tensor, "batch vocabulary"], S]:
        """Read the last tokens `(batch,)` -> logits of the next token, and the new state."""
        features, state = self.advance(tokens, state)
        return self.output(features), state

    def features(self, tokens: Tokens, state: S) -> Any:
        """Teacher forcing: features `(batch, position, width)` after each of the tokens `(batch, position)`.

        The result equals stepping through them; decoders that can do it in one pass override this.
        """
        features = []
        for token in tokens.unbind(1):
            feature, state = self.advance(token, state)
            features.append(feature)
        return self.join(features)

    def join(self, steps: Sequence[Any]) -> Any:
        """Join the features of successive steps."""
        return torch.stack(list(steps), 1)


class SequenceDecoder(Decoder[S]):
    """A decoder that reads any number of tokens in one pass."""

    @abstractmethod
    def run(self, tokens: Tokens, state: S) -> tuple[Any, S]:
        """Read tokens `(batch, position)` -> features after each of them, and the state after the last. The old state
        must not be used again."""

    def features(self, tokens: Tokens, state: S) -> Any:
        return self.run(tokens, state)[0]

    def advance(self, tokens: Step, state: S) -> tuple[Any, S]:
        features, state = self.run(tokens[:, None], state)
        return self.at(features, 0), state

    def at(self, features: Any, position: int) -> Any:
        """The features at one position."""
        return features[:, position]


def unroll(decoder: Decoder[S], tokens: Tokens, state: S, forcing: float) -> Any:
    """Scheduled sampling (Bengio 2015, 1506.03099): features as `Decoder.features`, but each token after the first is
    the target with probability `forcing` and else the decoder's own best prediction. 1 is teacher forcing, 0 is free
    running. Uses torch's generator."""
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
