"""The decoder protocol, recurrent decoders, and wrappers that continue prompts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory, index_batch
from regard.data.batches import PairBatch, collate
from regard.shapes import (
    Float,
    Lengths,
    Logits,
    Rows,
    Step,
    Tokens,
)
from regard.text.kinds import SPECIAL, SpecialTokens

Kind = TypeVar("Kind", bound="State")


@dataclass(frozen=True, eq=False)
class State:
    """The state of a decoder: batch-first tensors, memories, tuples of these, or None.

    A `Memory` holds the source, which all hypotheses of one source share.
    """

    def map(self: Kind, change: Callable[[Any], Any]) -> Kind:
        """Return the state with each part changed."""
        parts = {name: change(part) for name, part in self.parts().items()}
        return replace(self, **parts)

    def select(self: Kind, rows: Rows) -> Kind:
        """Return the state of the batch rows `rows`, in this order; rows may repeat."""
        return self.map(lambda part: index_batch(part, rows))

    def follow(self: Kind, rows: Rows) -> Kind:
        """Like `select`, for rows that stay with their source.

        Row i must come from the same source as before. The memories stay as they are.
        """
        return self.map(lambda part: _follow(part, rows))

    def detach(self: Kind) -> Kind:
        """Return the same numbers without their graph, for a state of tensors only."""
        return self.map(Tensor.detach)

    def parts(self) -> dict[str, Any]:
        """Return the parts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _follow(part: Any, rows: Tensor) -> Any:
    match part:
        case Memory():
            return part
        case State():
            return part.follow(rows)
        case tuple():
            return tuple(_follow(item, rows) for item in part)
        case _:
            return index_batch(part, rows)


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
        """Return the state before the first token.

        All work that is done once per memory is done here.
        """

    @abstractmethod
    def advance(self, tokens: Step, state: S) -> tuple[Any, S]:
        """Read the last tokens `(batch,)`.

        The old state must not be used again.

        Returns:
            Features of the next token, and the new state.
        """

    def step(
        self,
        tokens: Step,
        state: S,
    ) -> tuple[Float[Tensor, "batch vocabulary"], S]:
        """Read the last tokens `(batch,)`.

        Returns:
            Logits of the next token, and the new state.
        """
        features, state = self.advance(tokens, state)
        return self.output(features), state

    def features(self, tokens: Tokens, state: S) -> Any:
        """Teacher forcing: features `(batch, position, width)` after each of the tokens `(batch, position)`.

        The result equals stepping through them; decoders that can do it in one pass
        override this.
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
        """Read tokens `(batch, position)`.

        The old state must not be used again.

        Returns:
            Features after each of them, and the state after the last.
        """

    def features(self, tokens: Tokens, state: S) -> Any:
        return self.run(tokens, state)[0]

    def advance(self, tokens: Step, state: S) -> tuple[Any, S]:
        features, state = self.run(tokens[:, None], state)
        return features[:, 0], state


def unroll(decoder: Decoder[S], tokens: Tokens, state: S, forcing: float) -> Any:
    """Scheduled sampling (Bengio 2015, 1506.03099).

    Features as `Decoder.features`, but each token after the first is the target with
    probability `forcing` and else the decoder's own best prediction. 1 is teacher
    forcing, 0 is free running. Uses torch's generator.
    """
    features = []
    token_in = tokens[:, 0]
    for position in range(tokens.shape[1]):
        feature, state = decoder.advance(token_in, state)
        features.append(feature)
        if position + 1 < tokens.shape[1]:
            with torch.no_grad():
                predicted = decoder.output(feature).argmax(-1)
            forced = torch.rand(predicted.shape, device=predicted.device) < forcing
            token_in = torch.where(forced, tokens[:, position + 1], predicted)
    return decoder.join(features)


@dataclass(frozen=True, eq=False)
class RecurrentDecoderState(State):
    """The state of a recurrent decoder with attention.

    `cells (batch, layer, state_width)`, the prepared memory, the alignment's state, and
    the vector `(batch, width)` of the last read that the next step takes, if any.
    """

    cells: Tensor
    memory: Memory
    alignment: Any = None
    last: Any = None


class ZeroInitialState(nn.Module):
    """Zeros: the decoder does not depend on the encoder's last state."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def forward(self, memory: Memory) -> Tensor:
        return memory.value.new_zeros(memory.value.shape[0], self.size)


class LearnedInitialState(nn.Module):
    """One learned vector for every sequence."""

    def __init__(self, size: int):
        super().__init__()
        self.vector = nn.Parameter(torch.zeros(size))

    def forward(self, memory: Memory) -> Tensor:
        return self.vector.expand(memory.value.shape[0], -1)


class SummaryInitialState(nn.Module):
    """tanh(W summary + b), where the summary is the encoder's final state.

    See Cho 2014, section 2.2.
    """

    def __init__(self, summary_width: int, size: int):
        super().__init__()
        self.linear = nn.Linear(summary_width, size)

    def forward(self, memory: Memory) -> Tensor:
        return self.linear(summary_of(memory)).tanh()


def summary_of(memory: Memory) -> Tensor:
    """Return the memory's summary.

    Raises:
        ValueError: It has none.
    """
    if memory.summary is None:
        raise ValueError(
            "this decoder starts from the encoder's summary, but the memory has none; make it with summary="
        )
    return memory.summary


def first_cells(
    initial: nn.Module,
    memory: Memory,
    shape: tuple[int, int],
) -> Float[Tensor, "batch layer width"]:
    """Return the initial state of cells of this shape."""
    return initial(memory).unflatten(1, shape)


InitialStateName = Literal["encoder", "zero", "learned"]


def choose_initial_state(
    name: InitialStateName,
    encoder: nn.Module,
    size: int,
) -> nn.Module:
    """Return the initial state of a name in a run file; `encoder` is the one for "encoder"."""
    if name == "encoder":
        return encoder
    return ZeroInitialState(size) if name == "zero" else LearnedInitialState(size)


Before = Literal["end", "start", "nothing"]
"""What precedes a text to continue: the end of another text, the start token, or nothing."""


@dataclass(frozen=True, eq=False)
class PromptedState(State):
    """The state of the inner decoder, and the last token of each prompt, `(batch,)`, which the next step reads."""

    inner: State
    last: Tensor


class Prompted(SequenceDecoder[PromptedState]):
    """Continue prompts `(batch, position)` of at least one token.

    `start` reads all tokens but the last in one pass; the last one replaces the START
    that a search feeds.
    """

    def __init__(self, decoder: SequenceDecoder, prompts: Tokens):
        super().__init__()
        self.decoder = decoder
        self.prompts = prompts
        self.output = decoder.output
        self.special = decoder.special
        self.source_attention = None

    def start(self, memory: Memory) -> PromptedState:
        state = self.decoder.start(memory)
        if self.prompts.shape[1] > 1:
            _, state = self.decoder.run(self.prompts[:, :-1], state)
        return PromptedState(state, self.prompts[:, -1])

    def run(self, tokens: Tokens, state: PromptedState) -> tuple[Any, PromptedState]:
        fed = tokens.where(tokens != self.special.start, state.last[:, None])
        features, inner = self.decoder.run(fed, state.inner)
        return features, PromptedState(inner, state.last)


class Encoder(nn.Module, ABC):
    """Encode a padded batch into a memory of width `memory_width` with a summary of width `summary_width`."""

    memory_width: int
    summary_width: int
    self_attention: str | None = None
    """Names of the modules, within the encoder, by which positions read each other, one per layer, as a pattern for
    `record`; None if there are none."""

    @abstractmethod
    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        """Encode tokens `(batch, position)` of the sequences' `lengths (batch,)`."""


class EncoderDecoder(nn.Module):
    """p(target | source) as the product over positions of softmax(output(features)).

    The inputs of the encoder are those of a source: tokens and their lengths for texts.
    """

    encoder: Any
    max_source: int | None = None
    """Longest source in tokens, the end included; None for any."""
    max_target: int | None = None
    source_special: SpecialTokens = SPECIAL
    """The special ids of the source vocabulary; the decoder has those of the target's."""

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def collate(self, examples: Sequence[tuple[list[int], list[int]]]) -> PairBatch:
        """Pad pairs of (source ids, target ids), with their special tokens.

        Raises:
            ValueError: There are no pairs.
        """
        return collate(examples, self.source_special, self.decoder.special)

    def features(self, *inputs: Any, forcing: float = 1.0) -> Any:
        """Return the input of the output layer for a source and a right-shifted target.

        Args:
            inputs: Those of the encoder, and the target `(batch, position)`, which
                begins with the start token.
            forcing: The probability of teacher forcing at each step.
        """
        *source, target = inputs
        state = self.decoder.start(self.encoder(*source))
        if forcing < 1.0:
            return unroll(
                self.decoder,
                target,
                state,
                forcing,
            )
        return self.decoder.features(target, state)

    def forward(self, *inputs: Any, forcing: float = 1.0) -> Logits:
        """Return logits `(batch, position, vocabulary)` of the token after each target token.

        The inputs are those of `features`. `decoder.output.loss(features, expected)`
        computes their loss without storing them.
        """
        return self.decoder.output(self.features(*inputs, forcing=forcing))
