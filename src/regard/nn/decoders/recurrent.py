"""Recurrent decoders: their state, their steps over target tokens, and their initial states."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention.checks import expect_size
from regard.attention.memory import Memory
from regard.nn.decoders.protocol import Decoder, S, State
from regard.nn.embeddings import TokenEmbedding
from regard.shapes import Float, States, Step, Tokens


@dataclass(frozen=True, eq=False)
class RecurrentDecoderState(State):
    """`cells (batch, layer, state_width)`, the prepared memory, and the alignment's state."""

    cells: Tensor
    memory: Memory
    alignment: Any = None


class RecurrentDecoder(Decoder[S]):
    """A decoder in which each step needs the previous one: one transition per token, and one readout for all steps
    together."""

    embedding: TokenEmbedding
    readout: nn.Module
    """From the output of `transition` to features, `(*batch, parts_width)` -> `(*batch, width)`."""

    @abstractmethod
    def transition(
        self, embedded: Float[Tensor, "batch embedding"], state: S
    ) -> tuple[Float[Tensor, "batch parts"], S]:
        """One step of the recurrence -> the input of the readout, and the new state."""

    def advance(self, tokens: Step, state: S) -> tuple[Float[Tensor, "batch width"], S]:
        parts, state = self.transition(self.embedding(tokens), state)
        return self.readout(parts), state

    def features(self, tokens: Tokens, state: S) -> States:
        steps = []
        for embedded in self.embedding(tokens).unbind(1):
            parts, state = self.transition(embedded, state)
            steps.append(parts)
        return self.readout(torch.stack(steps, 1))


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
    """tanh(W summary + b), where the summary is the encoder's final state (Cho 2014, section 2.2)."""

    def __init__(self, summary_width: int, size: int):
        super().__init__()
        self.linear = nn.Linear(summary_width, size)

    def forward(self, memory: Memory) -> Tensor:
        """Raises ValueError if the memory has no summary, or one of another width."""
        summary = summary_of(memory)
        expect_size(
            "the initial state",
            self.linear.in_features,
            "the memory's summary",
            summary.shape[-1],
        )
        return self.linear(summary).tanh()


def summary_of(memory: Memory) -> Tensor:
    """The memory's summary. Raises ValueError if it has none."""
    if memory.summary is None:
        raise ValueError(
            "this decoder starts from the encoder's summary, but the memory has none; make it with summary="
        )
    return memory.summary


def first_cells(
    initial: nn.Module, memory: Memory, shape: tuple[int, int]
) -> Float[Tensor, "batch layer width"]:
    """The initial state of cells of this shape. Raises ValueError if `initial` gives another width."""
    cells = initial(memory)
    expect_size(
        "the recurrent network",
        shape[0] * shape[1],
        f"the initial state by {type(initial).__name__}",
        cells.shape[1],
    )
    return cells.unflatten(1, shape)


InitialStateName = Literal["encoder", "zero", "learned"]


def choose_initial_state(
    name: InitialStateName, encoder: nn.Module, size: int
) -> nn.Module:
    """Make an initial state by its name in a run file; `encoder` is the module for "encoder"."""
    return {
        "encoder": encoder,
        "zero": ZeroInitialState(size),
        "learned": LearnedInitialState(size),
    }[name]
