"""Recurrent networks over whole sequences, and their cells."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.memory import expect_size
from regard.nn.layers import Dropout
from regard.shapes import Bool, Float, Inputs, Int, Lengths, States

CellName = Literal["tanh", "gru", "lstm", "gru-reset-before"]


class Cell(nn.Module, ABC):
    """Input `(batch, input_width)` and state `(batch, state_width)` -> new state.

    Its first `width` numbers are the output.
    """

    def __init__(self, width: int, state_width: int, input_width: int | None = None):
        super().__init__()
        self.width, self.state_width, self.input_width = width, state_width, input_width

    def project(self, inputs: Tensor) -> Tensor:
        """Return the part of a step that does not depend on the state.

        It has any leading axes, and is computed for a whole sequence at once.
        """
        return inputs

    @abstractmethod
    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        """Return the new state, from the projected inputs and the old state."""

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
    """PyTorch's gated recurrent unit.

    It resets after the product, and its z keeps the old state.
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width, input_width)
        self.cell = nn.GRUCell(input_width, width)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return self.cell(projected, state)


class GRUResetBefore(Cell):
    """The gated recurrent unit of Cho 2014 and Bahdanau 2015.

    Which resets before the product. See appendix A.1.1 of the paper.

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
    """Long short-term memory.

    The state is [h; c].
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(width, 2 * width, input_width)
        self.cell = nn.LSTMCell(input_width, width)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return torch.cat(self.cell(projected, state.chunk(2, -1)), -1)


CELL_CLASSES: dict[CellName, type[Cell]] = {
    "tanh": TanhCell,
    "gru": GRUCell,
    "lstm": LSTMCell,
    "gru-reset-before": GRUResetBefore,
}


class Stack(nn.Module):
    """Cells on top of each other with dropout between them.

    The state is `(batch, layer, state_width)`.
    """

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
        cells = [CELL_CLASSES[cell](size, width) for size in widths]
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
        """Return one step -> the top layer's output and the new state."""
        states = []
        for layer, cell in enumerate(self.cells):
            inputs = inputs if layer == 0 else self.dropout(inputs)
            states.append(cell(inputs, state[:, layer]))
            inputs = states[-1][:, : self.width]
        return inputs, torch.stack(states, 1)


class Float32LSTM(nn.LSTM):
    """PyTorch's LSTM, always outside of autocast.

    On a CPU without AVX-512, autocast would call oneDNN in bf16, which fails.
    """

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> Any:
        if not torch.is_autocast_enabled("cpu"):
            return super().forward(input, hx)
        dtype = next(self.parameters()).dtype
        hx = None if hx is None else (hx[0].to(dtype), hx[1].to(dtype))
        with torch.autocast("cpu", enabled=False):
            return super().forward(input.to(dtype), hx)


RecurrentName = Literal["tanh", "gru", "lstm"]
LSTM = nn.LSTM if torch.ops.mkldnn._is_mkldnn_bf16_supported() else Float32LSTM
KINDS: dict[RecurrentName, Callable[..., nn.RNNBase]] = {
    "tanh": nn.RNN,
    "gru": nn.GRU,
    "lstm": LSTM,
}
CELL_FUNCTIONS: dict[RecurrentName, Callable[..., Tensor | tuple[Tensor, Tensor]]] = {
    "tanh": torch.rnn_tanh_cell,
    "gru": torch.gru_cell,
    "lstm": torch.lstm_cell,
}
SMALL_BATCH = 64
"""Up to this number of rows, one position is computed by a cell: oneDNN's networks pack their weights at every call."""


class Recurrent(nn.Module):
    """A stack of recurrent layers.

    The state is `(batch, layer, state_width)`, for an LSTM [h; c].
    """

    def __init__(
        self,
        kind: RecurrentName,
        input_width: int,
        width: int,
        layers: int = 1,
        dropout: float = 0.0,
    ):
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.network = KINDS[kind](
            input_width, width, layers, batch_first=True, dropout=between
        )
        self.cell, self.parts = CELL_FUNCTIONS[kind], 2 if kind == "lstm" else 1
        self.input_width, self.width, self.layers = input_width, width, layers

    @property
    def state_shape(self) -> tuple[int, int]:
        return self.layers, self.parts * self.width

    def forward(
        self,
        inputs: Inputs,
        state: Float[Tensor, "batch layer state_width"],
        lengths: Lengths | None = None,
    ) -> tuple[States, Float[Tensor, "batch layer state_width"]]:
        """Process inputs `(batch, position, input_width)`.

        With `lengths (batch,)`, none of them 0, the state is the one at each sequence's
        own end, and outputs past it are zero. Raises ValueError for inputs of another
        width.

        Returns:
            The top layer's `(batch, position, width)` and the last state.
        """
        expect_size(
            "the recurrent network", self.input_width, "the inputs", inputs.shape[-1]
        )
        alone = (
            lengths is None
            and inputs.shape[1] == 1
            and len(inputs) <= SMALL_BATCH
            and not inputs.is_cuda
        )
        if alone and not (torch.is_grad_enabled() or self.training):
            return self.step(inputs[:, 0], state)
        parts = tuple(
            part.contiguous()
            for part in rearrange(state, "b l (p w) -> p l b w", p=self.parts)
        )
        first = parts if self.parts == 2 else parts[0]
        if lengths is None:
            outputs, after = self.network(inputs, first)
        else:
            packed = pack_padded_sequence(
                inputs, lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            outputs, after = self.network(packed, first)
            outputs, _ = pad_packed_sequence(
                outputs, batch_first=True, total_length=inputs.shape[1]
            )
        after = after if self.parts == 2 else (after,)
        return outputs, rearrange(torch.stack(tuple(after)), "p l b w -> b l (p w)")

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return one position `(batch, input_width)`, without dropout."""
        after = []
        for before, weights in zip(
            state.unbind(1), self.network.all_weights, strict=True
        ):
            result = self.cell(
                inputs, before.chunk(2, -1) if self.parts == 2 else before, *weights
            )
            after.append(torch.cat(result, -1) if isinstance(result, tuple) else result)
            inputs = after[-1][:, : self.width]
        return inputs[:, None], torch.stack(after, 1)


class RecurrentStack(nn.Module):
    """Recurrent layers of one width on top of each other, with `dropout` before each and after the last.

    The state is `(batch, layer, state_width)`.
    """

    def __init__(
        self,
        kind: RecurrentName,
        input_width: int,
        width: int,
        layers: int,
        dropout: Dropout,
    ):
        super().__init__()
        widths = [input_width] + [width] * (layers - 1)
        networks = [Recurrent(kind, size, width) for size in widths]
        self.layers, self.dropout = nn.ModuleList(networks), dropout
        self.width, self.state_shape = width, (layers, networks[0].state_shape[1])

    def forward(
        self, inputs: Inputs, state: Float[Tensor, "batch layer state_width"]
    ) -> tuple[States, Float[Tensor, "batch layer state_width"]]:
        """Process inputs `(batch, position, input_width)`.

        Returns:
            The top layer's `(batch, position, width)` and the last state.
        """
        after = []
        for layer, before in zip(self.layers, state.split(1, 1), strict=True):
            inputs, last = layer(self.dropout(inputs), before)
            after.append(last)
        return self.dropout(inputs), torch.cat(after, 1)


class BidirectionalReader(nn.Module):
    """Read each sequence of a padded batch to its own end, in one or both directions, layer by layer.

    A backward layer reads each sequence reversed within its own length. Nothing is
    packed or sorted, and the order of the batch does not matter. Layers have the call
    of PyTorch's recurrent layers, batch first.

    Args:
        forwards: One network per layer, `(batch, position, width)` -> the same
            shape and a state, which is ignored.
        backwards: As many networks, or none.
        width: Width of each network's output.
        dropout: Dropout between the layers.
    """

    input_width: int | None = None
    """Width of the inputs; None for one that the networks check themselves."""

    def __init__(
        self,
        forwards: Iterable[nn.Module],
        backwards: Iterable[nn.Module],
        width: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.forwards, self.backwards = (
            nn.ModuleList(forwards),
            nn.ModuleList(backwards),
        )
        self.dropout = Dropout(dropout)
        self.width, self.output_width = width, width * (2 if self.backwards else 1)

    def forward(
        self, inputs: Inputs, lengths: Lengths
    ) -> tuple[States, Float[Tensor, "batch final_width"]]:
        """States `(batch, position, output_width)`, zero past the end, and the final states.

        The final states are the forward direction's after the last token and the
        backward direction's after the first; zero for an empty sequence. Raises
        ValueError for inputs of another width.
        """
        expect_size("the reader", self.input_width, "the inputs", inputs.shape[-1])
        batch, positions = inputs.shape[:2]
        if not batch * positions:
            return inputs.new_zeros(
                batch, positions, self.output_width
            ), inputs.new_zeros(batch, self.output_width)
        inside, turned = reverse_index(lengths, positions)
        states = inputs
        for layer, forwards in enumerate(self.forwards):
            states = self.dropout(states) if layer else states
            outputs = [forwards(states)[0]]
            if self.backwards:
                outputs.append(
                    gather_positions(
                        self.backwards[layer](gather_positions(states, turned))[0],
                        turned,
                    )
                )
            states = torch.cat(outputs, -1)
        states = states.masked_fill(~inside[..., None], 0.0)
        ahead, back = states.split([self.width, self.output_width - self.width], -1)
        last = gather_positions(ahead, (lengths[:, None] - 1).clamp(min=0))[:, 0]
        return states, torch.cat([last, back[:, 0]], -1)


def read_in_parts(
    reader: BidirectionalReader, inputs: Inputs, lengths: Lengths, parts: int
) -> States:
    """Return the reader's states, computed for `parts` groups of rows.

    Each group is cut to its own longest sequence. The states are `(batch, position,
    output_width)`.

    This saves padding if rows are sorted by length.
    """
    if parts == 1:
        return reader(inputs, lengths)[0]
    rows, longest, states = max(1, -(-len(inputs) // parts)), lengths.tolist(), []
    for first, chunk in zip(
        range(0, max(1, len(inputs)), rows), inputs.split(rows), strict=True
    ):
        positions = max(longest[first : first + rows], default=0)
        chunk_states, _ = reader(chunk[:, :positions], lengths[first : first + rows])
        states.append(
            functional.pad(chunk_states, (0, 0, 0, inputs.shape[1] - positions))
        )
    return torch.cat(states)


def reverse_index(
    lengths: Lengths, positions: int
) -> tuple[Bool[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    """Which positions lie within each sequence, and the index that reverses each sequence within its length."""
    count = torch.arange(positions, device=lengths.device)
    inside = count < lengths[:, None]
    return inside, torch.where(inside, lengths[:, None] - 1 - count, count)


def gather_positions(
    states: States, positions: Int[Tensor, "batch count"]
) -> Float[Tensor, "batch count width"]:
    """Return the states at `positions (batch, count)` of `(batch, position, width)`.

    `(batch, count, width)`.
    """
    rows = (
        positions
        + states.shape[1] * torch.arange(states.shape[0], device=states.device)[:, None]
    )
    return (
        states.flatten(0, 1)
        .index_select(0, rows.flatten())
        .unflatten(0, positions.shape)
    )


class SequenceReader(BidirectionalReader):
    """A reader made of PyTorch's recurrent layers."""

    def __init__(
        self,
        kind: RecurrentName,
        input_width: int,
        width: int,
        layers: int = 1,
        *,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ):
        directions = 2 if bidirectional else 1
        widths = [input_width] + [directions * width] * (layers - 1)
        forwards, *backwards = (
            [KINDS[kind](size, width, batch_first=True) for size in widths]
            for _ in range(directions)
        )
        super().__init__(forwards, backwards[0] if backwards else [], width, dropout)
        self.input_width = input_width


class Looped(nn.Module):
    """A cell over all positions, with the call of PyTorch's recurrent layers."""

    def __init__(self, cell: Cell):
        super().__init__()
        self.cell = cell

    def forward(
        self,
        inputs: Inputs,
        state: Float[Tensor, "batch state_width"] | None = None,
        inside: Bool[Tensor, "batch position"] | None = None,
    ) -> tuple[States, Tensor]:
        """Return the outputs `(batch, position, width)` and the last state.

        Inputs are `(batch, position, input_width)`, after an earlier state if there is
        one. With `inside`, positions that are False leave the last state as it is.
        """
        state = (
            inputs.new_zeros(len(inputs), self.cell.state_width)
            if state is None
            else state
        )
        outputs, last = [], state
        for place, projected in enumerate(self.cell.project(inputs).unbind(1)):
            state = self.cell.step(projected, state)
            outputs.append(state[:, : self.cell.width])
            last = (
                state
                if inside is None
                else torch.where(inside[:, place, None], state, last)
            )
        return torch.stack(outputs, 1), last


class CellReader(BidirectionalReader):
    """A reader with one cell per direction, for cells that PyTorch does not have."""

    def __init__(self, forwards: Cell, backwards: Cell):
        super().__init__([Looped(forwards)], [Looped(backwards)], forwards.width)
        self.input_width = forwards.input_width
