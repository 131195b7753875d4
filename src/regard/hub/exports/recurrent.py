"""Recurrent layers in ONNX graphs: the operators LSTM, GRU and RNN, over any number of positions.

torch.export unrolls a recurrent layer of PyTorch, or a loop over cells, to the number of positions of its example.
"""

from copy import deepcopy
from typing import Any, cast

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.nn.cells import GRUResetBefore
from regard.nn.recurrent import Looped

ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""The operators' gates as numbers of PyTorch's: input, output, forget, cell; update, reset, candidate; one."""


class OnnxLayer(nn.Module):
    """One recurrent layer in one direction as an operator, with the call of PyTorch's layers, batch first. It computes
    in a graph only.

    Args:
        kind: the operator.
        tensors: its input weights, recurrent weights and biases (of the input, then of the state), gates in its order.
        attributes: its settings.
    """

    def __init__(
        self,
        kind: str,
        tensors: tuple[Tensor, Tensor, Tensor],
        attributes: dict[str, Any],
    ):
        super().__init__()
        self.kind, self.attributes = kind, attributes
        for name, tensor in zip(("inputs", "recurrent", "bias"), tensors, strict=True):
            self.register_buffer(name, tensor.detach()[None].contiguous())
        self.width = tensors[1].shape[-1]

    def forward(
        self, inputs: Tensor, state: Tensor | tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Any]:
        """Inputs `(batch, position, input_width)` -> outputs `(batch, position, width)` and the last state, a pair for
        an LSTM, `(1, batch, width)`."""
        batch, positions = inputs.shape[:2]
        parts = 2 if self.kind == "LSTM" else 1
        first = [state] if isinstance(state, Tensor) else [*(state or [])]
        sides: list[Tensor | None] = [
            rearrange(inputs, "batch position width -> position batch width")
        ]
        sides += [self.inputs, self.recurrent, self.bias, None, *first]
        shapes = [(positions, 1, batch, self.width), *[(1, batch, self.width)] * parts]
        outputs, *last = torch.onnx.ops.symbolic_multi_out(
            f"::{self.kind}",
            sides,
            self.attributes | {"hidden_size": self.width},
            dtypes=[inputs.dtype] * (1 + parts),
            shapes=shapes,
        )
        outputs = rearrange(outputs, "position 1 batch width -> batch position width")
        return outputs, tuple(last) if parts == 2 else last[0]


class OnnxStack(nn.Module):
    """The layers of a one-directional recurrent module of PyTorch, with its call and its weights for single steps."""

    def __init__(self, network: nn.RNNBase):
        super().__init__()
        kind, layers = network.mode.split("_")[0], []
        attributes = {
            "GRU": {"linear_before_reset": 1},
            "RNN": {"activations": ["Tanh"]},
        }.get(kind, {})
        for weights in network.all_weights:
            inputs, recurrent, *biases = (_ordered(each, kind) for each in weights)
            layers.append(
                OnnxLayer(kind, (inputs, recurrent, torch.cat(biases)), attributes)
            )
        self.network, self.layers = network, nn.ModuleList(layers)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        return cast("list[list[Tensor]]", self.network.all_weights)

    def forward(
        self, inputs: Tensor, state: Tensor | tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Any]:
        after: list[Any] = []
        for number, layer in enumerate(self.layers):
            inputs, last = layer(inputs, part_of(state, number))
            after.append(last)
        if isinstance(after[0], Tensor):
            return inputs, torch.cat(after)
        return inputs, tuple(torch.cat(each) for each in zip(*after, strict=True))


def part_of(state: Tensor | tuple[Tensor, Tensor] | None, number: int) -> Any:
    """The state of one layer."""
    if state is None or isinstance(state, Tensor):
        return None if state is None else state[number : number + 1]
    return tuple(each[number : number + 1] for each in state)


def of_reset_before(looped: Looped) -> OnnxLayer:
    """Return the operator of a cell that resets before the product. The operator's update gate keeps the old state, so
    that its weights have the other sign."""
    cell = cast(GRUResetBefore, looped.cell)
    reset, update, candidate = cell.inputs.weight.chunk(3)
    state_reset, state_update = cell.gates.weight.chunk(2)
    b_reset, b_update, b_candidate = cell.inputs.bias.chunk(3)
    inputs = torch.cat([-update, reset, candidate])
    recurrent = torch.cat([-state_update, state_reset, cell.candidate.weight])
    biases = torch.cat([-b_update, b_reset, b_candidate])
    return OnnxLayer(
        "GRU", (inputs, recurrent, torch.cat([biases, torch.zeros_like(biases)])), {}
    )


def as_operators(module: nn.Module) -> nn.Module:
    """Return a copy of a module whose recurrent layers are operators."""
    copied = deepcopy(module)
    for parent in [*copied.modules()]:
        for name, child in [*parent.named_children()]:
            if isinstance(child, nn.RNNBase):
                setattr(parent, name, OnnxStack(child))
            elif isinstance(child, Looped) and isinstance(child.cell, GRUResetBefore):
                setattr(parent, name, of_reset_before(child))
    return copied


def _ordered(tensor: Tensor, kind: str) -> Tensor:
    """A weight or bias of PyTorch with its gates in the operator's order."""
    order = ORDERS[kind]
    gates = tensor.chunk(len(order))
    return torch.cat([gates[place] for place in order])
