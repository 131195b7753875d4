"""Recurrent networks over whole sequences, and their cells."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.memory import Memory
from regard.kernels.cpu import step_cell, supports_cell
from regard.nn.decoders import Encoder
from regard.nn.layers import Dropout, Embedding
from regard.shapes import (
    Bool,
    Float,
    Inputs,
    Int,
    LayerStates,
    Lengths,
    States,
    StepInputs,
    Tokens,
    Vectors,
)

CellName = Literal["tanh", "gru", "lstm", "gru-reset-before"]


class Cell(nn.Module, ABC):
    """Input `(batch, input_width)` and state `(batch, state_width)` -> new state.

    Its first `width` numbers are the output.
    """

    def __init__(self, width: int, state_width: int):
        super().__init__()
        self.width = width
        self.state_width = state_width

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


class TorchCell(Cell):
    """A cell of PyTorch; the state of an LSTM is [h; c].

    The gated unit of PyTorch resets after the product, and its z keeps the old state.
    """

    def __init__(self, kind: Callable[..., nn.Module], input_width: int, width: int):
        parts = 2 if kind is nn.LSTMCell else 1
        super().__init__(width, parts * width)
        self.cell: Any = kind(input_width, width)
        self.parts = parts

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        cell = self.cell
        weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
        if supports_cell(projected, weights):
            return step_cell(projected, state, weights)
        if self.parts == 1:
            return self.cell(projected, state)
        return torch.cat(self.cell(projected, state.chunk(2, -1)), -1)


class GRUResetBefore(Cell):
    """The gated recurrent unit of Cho 2014 and Bahdanau 2015.

    It resets the state before the product, unlike PyTorch's unit. See appendix A.1.1 of
    the paper.

        s~ = tanh(W x + U (r * s)),  s' = (1 - z) * s + z * s~
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width)
        self.inputs = nn.Linear(input_width, 3 * width)
        self.gates = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.candidate.weight)

    def project(self, inputs: Tensor) -> Tensor:
        return self.inputs(inputs)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        for_gates, for_candidate = projected.split([2 * self.width, self.width], -1)
        gates = torch.addmm(for_gates, state, self.gates.weight.t()).sigmoid()
        reset, update = gates.chunk(2, -1)
        weight = self.candidate.weight.t()
        candidate = torch.addmm(for_candidate, reset * state, weight).tanh()
        return state + update * (candidate - state)


CELL_CLASSES: dict[CellName, Callable[[int, int], Cell]] = {
    "tanh": partial(TorchCell, nn.RNNCell),
    "gru": partial(TorchCell, nn.GRUCell),
    "lstm": partial(TorchCell, nn.LSTMCell),
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
        self.width = width
        self.state_shape = (layers, cells[0].state_width)

    def forward(
        self,
        inputs: StepInputs,
        state: LayerStates,
    ) -> tuple[Vectors, LayerStates]:
        """Return one step -> the top layer's output and the new state."""
        states = []
        for layer, cell in enumerate(self.cells):
            inputs = inputs if layer == 0 else self.dropout(inputs)
            states.append(cell(inputs, state[:, layer]))
            inputs = states[-1][:, : self.width]
        return inputs, stack_layers(states)


def stack_layers(states: list[Tensor]) -> LayerStates:
    """Stack the states `(batch, state_width)` of layers; that of one is not copied."""
    return states[0][:, None] if len(states) == 1 else torch.stack(states, 1)


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
        self.cell = CELL_FUNCTIONS[kind]
        self.parts = 2 if kind == "lstm" else 1
        self.width = width
        self.layers = layers

    @property
    def state_shape(self) -> tuple[int, int]:
        return self.layers, self.parts * self.width

    def forward(
        self,
        inputs: Inputs,
        state: LayerStates,
        lengths: Lengths | None = None,
    ) -> tuple[States, LayerStates]:
        """Process inputs `(batch, position, input_width)`.

        With `lengths (batch,)`, none of them 0, the state is the one at each sequence's
        own end, and outputs past it are zero.

        Returns:
            The top layer's `(batch, position, width)` and the last state.
        """
        alone = (
            lengths is None
            and inputs.shape[1] == 1
            and len(inputs) <= SMALL_BATCH
            and not inputs.is_cuda
        )
        if alone and not (torch.is_grad_enabled() or self.training):
            return self.step(inputs[:, 0], state)
        parts = rearrange(state, "b l (p w) -> p l b w", p=self.parts).contiguous()
        first = parts.unbind() if self.parts == 2 else parts[0]
        if lengths is None:
            outputs, after = self.network(inputs, first)
        else:
            packed = pack_padded_sequence(
                inputs,
                lengths.cpu(),
                True,
                False,
            )
            outputs, after = self.network(packed, first)
            size = inputs.shape[1]
            outputs, _ = pad_packed_sequence(outputs, True, total_length=size)
        after = torch.stack(after) if self.parts == 2 else after[None]
        return outputs, rearrange(after, "p l b w -> b l (p w)")

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return one position `(batch, input_width)`, without dropout."""
        after = []
        layers = zip(state.unbind(1), self.network.all_weights, strict=True)
        for before, weights in layers:
            if supports_cell(inputs, weights):
                after.append(step_cell(inputs, before, weights))
                inputs = after[-1][:, : self.width]
                continue
            parts = before.chunk(2, -1) if self.parts == 2 else before
            result = self.cell(inputs, parts, *weights)
            after.append(torch.cat(result, -1) if isinstance(result, tuple) else result)
            inputs = after[-1][:, : self.width]
        return inputs[:, None], stack_layers(after)


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
        self.layers = nn.ModuleList(networks)
        self.dropout = dropout
        self.width = width
        self.state_shape = (layers, networks[0].state_shape[1])

    def forward(self, inputs: Inputs, state: LayerStates) -> tuple[States, LayerStates]:
        """Process inputs `(batch, position, input_width)`.

        Returns:
            The top layer's `(batch, position, width)` and the last state.
        """
        after = []
        for layer, before in zip(self.layers, state.split(1, 1), strict=True):
            inputs, cells = layer(self.dropout(inputs), before)
            after.append(cells)
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

    def __init__(
        self,
        forwards: Iterable[nn.Module],
        backwards: Iterable[nn.Module],
        width: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.forwards = nn.ModuleList(forwards)
        self.backwards = nn.ModuleList(backwards)
        self.dropout = Dropout(dropout)
        self.width = width
        self.output_width = width * (2 if self.backwards else 1)

    def forward(
        self,
        inputs: Inputs,
        lengths: Lengths,
    ) -> tuple[States, Float[Tensor, "batch final_width"]]:
        """Return states `(batch, position, output_width)` and the final states.

        States past the end of a sequence are zero.

        The final states are the forward direction's after the last token and the
        backward direction's after the first; zero for an empty sequence.
        """
        batch, positions = inputs.shape[:2]
        if not batch * positions:
            states = inputs.new_zeros(batch, positions, self.output_width)
            return states, inputs.new_zeros(batch, self.output_width)
        inside, turned = reverse_index(lengths, positions)
        states = inputs
        for layer, forwards in enumerate(self.forwards):
            states = self.dropout(states) if layer else states
            outputs = [forwards(states)[0]]
            if self.backwards:
                back, _ = self.backwards[layer](gather_positions(states, turned))
                outputs.append(gather_positions(back, turned))
            states = torch.cat(outputs, -1)
        states = states.masked_fill(~inside[..., None], 0.0)
        ends = (lengths[:, None] - 1).clamp(min=0)
        last = gather_positions(states[..., : self.width], ends)[:, 0]
        return states, torch.cat([last, states[:, 0, self.width :]], -1)


def read_in_parts(
    reader: BidirectionalReader,
    inputs: Inputs,
    lengths: Lengths,
    parts: int,
) -> States:
    """Return the reader's states, computed for `parts` groups of rows.

    Each group is cut to its own longest sequence. The states are `(batch, position,
    output_width)`.

    This saves padding if rows are sorted by length.
    """
    if parts == 1:
        return reader(inputs, lengths)[0]
    rows = max(1, -(-len(inputs) // parts))
    states = []
    for chunk, sizes in zip(inputs.split(rows), lengths.split(rows), strict=True):
        positions = max(sizes.tolist(), default=0)
        chunk_states, _ = reader(chunk[:, :positions], sizes)
        missing = inputs.shape[1] - positions
        states.append(functional.pad(chunk_states, (0, 0, 0, missing)))
    return torch.cat(states)


def reverse_index(
    lengths: Lengths,
    positions: int,
) -> tuple[Bool[Tensor, "batch position"], Tokens]:
    """Return an index that reverses each sequence within its length.

    Returns:
        Whether each position lies within its sequence, and the index.
    """
    count = torch.arange(positions, device=lengths.device)
    inside = count < lengths[:, None]
    return inside, torch.where(inside, lengths[:, None] - 1 - count, count)


def gather_positions(
    states: States,
    positions: Int[Tensor, "batch count"],
) -> Float[Tensor, "batch count width"]:
    """Select states by position.

    Args:
        states: `(batch, position, width)`.
        positions: `(batch, count)`.

    Returns:
        `(batch, count, width)`.
    """
    return states.take_along_dim(positions[..., None], 1)


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
        super().__init__(
            forwards,
            backwards[0] if backwards else [],
            width,
            dropout,
        )


class Looped(nn.Module):
    """A cell over all positions, with the call of PyTorch's recurrent layers."""

    def __init__(self, cell: Cell):
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Inputs) -> tuple[States, Tensor]:
        """Return the outputs `(batch, position, width)` and the last state."""
        state = inputs.new_zeros(len(inputs), self.cell.state_width)
        outputs = []
        for projected in self.cell.project(inputs).unbind(1):
            state = self.cell.step(projected, state)
            outputs.append(state[:, : self.cell.width])
        return torch.stack(outputs, 1), state


class CellReader(BidirectionalReader):
    """A reader with one cell per direction, for cells that PyTorch does not have."""

    def __init__(self, forwards: Cell, backwards: Cell):
        super().__init__([Looped(forwards)], [Looped(backwards)], forwards.width)


class RecurrentEncoder(Encoder):
    """Embeddings through a recurrent reader.

    The summary is the reader's final state (see `BidirectionalReader`).
    """

    def __init__(
        self,
        embedding: Embedding,
        reader: BidirectionalReader,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.reader = reader
        self.dropout = Dropout(dropout)
        self.memory_width = self.summary_width = reader.output_width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        states, final = self.reader(self.embedding(tokens), lengths)
        return Memory.of(
            self.dropout(states),
            lengths,
            final,
            tokens,
        )
