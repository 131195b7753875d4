"""Recurrent cells for one step at a time. Each has a single state tensor whose first part is the output."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.nn.sublayers import Dropout
from regard.shapes import Float

CellName = Literal["tanh", "gru", "lstm", "gru-reset-before"]


class Cell(nn.Module, ABC):
    """Input `(batch, input_width)` and state `(batch, state_width)` -> new state. Its first `width` numbers are the
    output."""

    def __init__(self, width: int, state_width: int, input_width: int | None = None):
        super().__init__()
        self.width, self.state_width, self.input_width = width, state_width, input_width

    def project(self, inputs: Tensor) -> Tensor:
        """The part of a step that does not depend on the state, for any leading axes; computed for a whole sequence at
        once."""
        return inputs

    @abstractmethod
    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        """The new state, from the projected inputs and the old state."""

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        return self.step(self.project(inputs), state)


class TanhCell(Cell):
    """h = tanh(W x + U h + b)."""

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width, input_width)
        self.cell = nn.RNNCell(input_width, width)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return self.cell(projected, state)


class GRUCell(Cell):
    """PyTorch's gated recurrent unit: it resets after the product, and its z keeps the old state."""

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width, input_width)
        self.cell = nn.GRUCell(input_width, width)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return self.cell(projected, state)


class GRUResetBefore(Cell):
    """The gated recurrent unit of Cho 2014 and Bahdanau 2015 (appendix A.1.1), which resets before the product:

    s~ = tanh(W x + U (r * s)),  s' = (1 - z) * s + z * s~
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width, input_width)
        self.inputs = nn.Linear(input_width, 3 * width)
        self.gates = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.candidate.weight)

    def project(self, inputs: Tensor) -> Tensor:
        return self.inputs(inputs)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        for_gates, for_candidate = projected.split([2 * self.width, self.width], -1)
        reset, update = (
            torch.addmm(for_gates, state, self.gates.weight.t()).sigmoid().chunk(2, -1)
        )
        candidate = torch.addmm(
            for_candidate, reset * state, self.candidate.weight.t()
        ).tanh()
        return state + update * (candidate - state)


class LSTMCell(Cell):
    """Long short-term memory. The state is [h; c]."""

    def __init__(self, input_width: int, width: int):
        super().__init__(width, 2 * width, input_width)
        self.cell = nn.LSTMCell(input_width, width)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return torch.cat(self.cell(projected, state.chunk(2, -1)), -1)


CELLS: dict[CellName, type[Cell]] = {
    "tanh": TanhCell,
    "gru": GRUCell,
    "lstm": LSTMCell,
    "gru-reset-before": GRUResetBefore,
}


class Stack(nn.Module):
    """Cells on top of each other with dropout between them. The state is `(batch, layer, state_width)`."""

    def __init__(
        self,
        cell: CellName,
        input_width: int,
        width: int,
        layers: int = 1,
        dropout: float = 0.0,
    ):
        super().__init__()
        widths = [input_width] + [width] * (layers - 1)
        cells = [CELLS[cell](each, width) for each in widths]
        self.cells = nn.ModuleList(cells)
        self.dropout = Dropout(dropout)
        self.input_width, self.width, self.state_shape = (
            input_width,
            width,
            (layers, cells[0].state_width),
        )

    def forward(
        self,
        inputs: Float[Tensor, "batch input_width"],
        state: Float[Tensor, "batch layer state_width"],
    ) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch layer state_width"]]:
        """One step -> the top layer's output and the new state."""
        states = []
        for layer, cell in enumerate(self.cells):
            inputs = inputs if layer == 0 else self.dropout(inputs)
            states.append(cell(inputs, state[:, layer]))
            inputs = states[-1][:, : self.width]
        return inputs, torch.stack(states, 1)
