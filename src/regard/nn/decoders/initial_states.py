"""What a recurrent decoder starts from: functions of the memory, `(batch, size)`."""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.recurrent import Recurrent


class ZeroStart(nn.Module):
    """Zeros: the encoder's last state is not connected at all."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def forward(self, memory: Memory) -> Tensor:
        return memory.value.new_zeros(memory.value.shape[0], self.size)


class LearnedStart(nn.Module):
    """One learned vector for every sequence."""

    def __init__(self, size: int):
        super().__init__()
        self.vector = nn.Parameter(torch.zeros(size))

    def forward(self, memory: Memory) -> Tensor:
        return self.vector.expand(memory.value.shape[0], -1)


class SummaryStart(nn.Module):
    """tanh(W summary + b), the summary the encoder's final state (Cho 2014, section 2.2)."""

    def __init__(self, summary_width: int, size: int):
        super().__init__()
        self.linear = nn.Linear(summary_width, size)

    def forward(self, memory: Memory) -> Tensor:
        """Raises ValueError for a memory without a summary."""
        return self.linear(summary_of(memory)).tanh()


class BackwardStart(nn.Module):
    """tanh(W_s backward_1): from the backward half of the first position's state (Bahdanau 2015, appendix A.2.2)."""

    def __init__(self, memory_width: int, size: int):
        super().__init__()
        self.first = memory_width // 2
        self.linear = nn.Linear(memory_width - self.first, size, bias=False)

    def forward(self, memory: Memory) -> Tensor:
        """Zeros where the memory has no position."""
        return self.linear(memory.value[:, :1, self.first :].sum(1)).tanh()


class FirstInputStart(nn.Module):
    """The state after one step of `recurrent` from zeros on W summary: the source is the network's first input (Vinyals
    2015, 1411.4555, equation 10)."""

    def __init__(self, summary_width: int, input_width: int, recurrent: Recurrent):
        super().__init__()
        self.linear = nn.Linear(summary_width, input_width)
        self.recurrent = recurrent

    def forward(self, memory: Memory) -> Tensor:
        """Raises ValueError for a memory without a summary."""
        first = self.linear(summary_of(memory))[:, None]
        _, state = self.recurrent(first, first.new_zeros(len(first), *self.recurrent.state_shape))
        return state.flatten(1)


def summary_of(memory: Memory) -> Tensor:
    """Raises ValueError for a memory that has none."""
    if memory.summary is None:
        raise ValueError(
            "this decoder starts from the encoder's summary, but the memory has none; make it with summary="
        )
    return memory.summary


StartName = Literal["encoder", "zero", "learned"]


def choose_start(name: StartName, encoder: nn.Module, size: int) -> nn.Module:
    """The start of a run file's name: `encoder` is the one given, which reads the memory."""
    return {"encoder": encoder, "zero": ZeroStart(size), "learned": LearnedStart(size)}[name]
