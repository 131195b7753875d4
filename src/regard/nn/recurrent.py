"""Recurrent networks over whole sequences."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.checks import expect_size
from regard.nn.cells import Cell
from regard.nn.sublayers import Dropout
from regard.shapes import Bool, Float, Inputs, Int, Lengths, States


class PlainLSTM(nn.LSTM):
    """PyTorch's LSTM, always outside of autocast: on a CPU without AVX-512, autocast would call oneDNN in bf16, which
    fails."""

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> Any:
        if not torch.is_autocast_enabled("cpu"):
            return super().forward(input, hx)
        dtype = next(self.parameters()).dtype
        hx = None if hx is None else (hx[0].to(dtype), hx[1].to(dtype))
        with torch.autocast("cpu", enabled=False):
            return super().forward(input.to(dtype), hx)


RecurrentName = Literal["tanh", "gru", "lstm"]
LSTM = nn.LSTM if torch.ops.mkldnn._is_mkldnn_bf16_supported() else PlainLSTM
KINDS: dict[RecurrentName, Callable[..., nn.RNNBase]] = {
    "tanh": nn.RNN,
    "gru": nn.GRU,
    "lstm": LSTM,
}
CELLS: dict[RecurrentName, Callable[..., Tensor | tuple[Tensor, Tensor]]] = {
    "tanh": torch.rnn_tanh_cell,
    "gru": torch.gru_cell,
    "lstm": torch.lstm_cell,
}
FEW = 64
"""Up to this number of rows, one position is computed by a cell: oneDNN's networks pack their weights at every call."""


class Recurrent(nn.Module):
    """A stack of recurrent layers. The state is `(batch, layer, state_width)`, for an LSTM [h; c]."""

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
        self.cell, self.parts = CELLS[kind], 2 if kind == "lstm" else 1
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
        """Inputs `(batch, position, input_width)` -> the top layer's `(batch, position, width)` and the last state.

        With `lengths (batch,)`, none of them 0, the state is the one at each sequence's own end, and outputs past it
        are zero. Raises ValueError for inputs of another width.
        """
        expect_size(
            "the recurrent network", self.input_width, "the inputs", inputs.shape[-1]
        )
        alone = (
            lengths is None
            and inputs.shape[1] == 1
            and len(inputs) <= FEW
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
        """One position `(batch, input_width)`, without dropout."""
        after = []
        for before, weights in zip(
            state.unbind(1), self.network.all_weights, strict=True
        ):
            found = self.cell(
                inputs, before.chunk(2, -1) if self.parts == 2 else before, *weights
            )
            after.append(torch.cat(found, -1) if isinstance(found, tuple) else found)
            inputs = after[-1][:, : self.width]
        return inputs[:, None], torch.stack(after, 1)


class RecurrentStack(nn.Module):
    """Recurrent layers of one width on top of each other, with `dropout` before each and after the last. The state is
    `(batch, layer, state_width)`."""

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
        networks = [Recurrent(kind, each, width) for each in widths]
        self.layers, self.dropout = nn.ModuleList(networks), dropout
        self.width, self.state_shape = width, (layers, networks[0].state_shape[1])

    def forward(
        self, inputs: Inputs, state: Float[Tensor, "batch layer state_width"]
    ) -> tuple[States, Float[Tensor, "batch layer state_width"]]:
        """Inputs `(batch, position, input_width)` -> the top layer's `(batch, position, width)` and the last state."""
        after = []
        for layer, before in zip(self.layers, state.split(1, 1), strict=True):
            inputs, last = layer(self.dropout(inputs), before)
            after.append(last)
        return self.dropout(inputs), torch.cat(after, 1)


class Reader(nn.Module):
    """Read each sequence of a padded batch to its own end, in one or both directions, layer by layer.

    A backward layer reads each sequence reversed within its own length. Nothing is packed or sorted, and the order of
    the batch does not matter. Layers have the call of PyTorch's recurrent layers, batch first.

    Args:
        forwards: one network per layer, `(batch, position, width)` -> the same shape and a state, which is ignored.
        backwards: as many networks, or none.
        width: width of each network's output.
        dropout: dropout between the layers.
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

        The final states are the forward direction's after the last token and the backward direction's after the first;
        zero for an empty sequence. Raises ValueError for inputs of another width.
        """
        expect_size("the reader", self.input_width, "the inputs", inputs.shape[-1])
        batch, positions = inputs.shape[:2]
        if not batch * positions:
            return inputs.new_zeros(
                batch, positions, self.output_width
            ), inputs.new_zeros(batch, self.output_width)
        inside, turned = turn_round(lengths, positions)
        states = inputs
        for layer, forwards in enumerate(self.forwards):
            states = self.dropout(states) if layer else states
            outputs = [forwards(states)[0]]
            if self.backwards:
                outputs.append(
                    pick(self.backwards[layer](pick(states, turned))[0], turned)
                )
            states = torch.cat(outputs, -1)
        states = states.masked_fill(~inside[..., None], 0.0)
        ahead, back = states.split([self.width, self.output_width - self.width], -1)
        last = pick(ahead, (lengths[:, None] - 1).clamp(min=0))[:, 0]
        return states, torch.cat([last, back[:, 0]], -1)


def read_in_parts(
    reader: Reader, inputs: Inputs, lengths: Lengths, parts: int
) -> States:
    """The reader's states, `(batch, position, output_width)`, computed for `parts` groups of rows, each cut to its own
    longest sequence. This saves padding if rows are sorted by length."""
    if parts == 1:
        return reader(inputs, lengths)[0]
    rows, longest, states = max(1, -(-len(inputs) // parts)), lengths.tolist(), []
    for first, some in zip(
        range(0, max(1, len(inputs)), rows), inputs.split(rows), strict=True
    ):
        positions = max(longest[first : first + rows], default=0)
        found, _ = reader(some[:, :positions], lengths[first : first + rows])
        states.append(functional.pad(found, (0, 0, 0, inputs.shape[1] - positions)))
    return torch.cat(states)


def turn_round(
    lengths: Lengths, positions: int
) -> tuple[Bool[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    """Which positions lie within each sequence, and the index that reverses each sequence within its length."""
    count = torch.arange(positions, device=lengths.device)
    inside = count < lengths[:, None]
    return inside, torch.where(inside, lengths[:, None] - 1 - count, count)


def pick(
    states: States, positions: Int[Tensor, "batch count"]
) -> Float[Tensor, "batch count width"]:
    """The states at `positions (batch, count)` of `(batch, position, width)`: `(batch, count, width)`."""
    rows = (
        positions
        + states.shape[1] * torch.arange(states.shape[0], device=states.device)[:, None]
    )
    return (
        states.flatten(0, 1)
        .index_select(0, rows.flatten())
        .unflatten(0, positions.shape)
    )


class SequenceReader(Reader):
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
            [KINDS[kind](each, width, batch_first=True) for each in widths]
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
        """Inputs `(batch, position, input_width)`, after an earlier state if there is one -> outputs `(batch, position,
        width)` and the last state; with `inside`, positions that are False leave the last state as it is."""
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


class CellReader(Reader):
    """A reader with one cell per direction, for cells that PyTorch does not have."""

    def __init__(self, forwards: Cell, backwards: Cell):
        super().__init__([Looped(forwards)], [Looped(backwards)], forwards.width)
        self.input_width = forwards.input_width
