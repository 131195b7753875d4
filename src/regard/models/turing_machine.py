"""The neural Turing machine: Graves, Wayne, Danihelka 2014 (1410.5401)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.attention.tape import Tape
from regard.models.sizes import Size
from regard.nn.cells import Cell, FeedForwardCell, LSTMCell
from regard.nn.decoders.protocol import State
from regard.nn.tape_heads import TapeHeads
from regard.shapes import Float, Inputs, Lengths, States

CONTROLLERS: dict[str, type[Cell]] = {"lstm": LSTMCell, "feed-forward": FeedForwardCell}


@dataclass(frozen=True)
class TuringMachineConfig:
    """Sizes; the defaults are the paper's for copying. `rows` is the length of the tape, which is no parameter: a
    trained machine may be given a longer one. Heads move at most `shift` rows a step in either direction."""

    name: Literal["turing-machine"] = "turing-machine"
    controller: Literal["lstm", "feed-forward"] = "lstm"
    width: Size = 100
    rows: Size = 128
    tape_width: Size = 20
    reads: Size = 1
    writes: Size = 1
    shift: Size = 1

    def __post_init__(self) -> None:
        if self.rows < 2 * self.shift + 1:
            raise ValueError(f"rows is {self.rows}, less than the {2 * self.shift + 1} that shift {self.shift} reaches")


@dataclass(frozen=True, eq=False)
class TuringState(State):
    """What the machine carries: the controller's state `(batch, state_width)`, the tape, each head's weights `(batch,
    head, row)`, None before the first step, and what was read last `(batch, read_width)`."""

    controller: Tensor
    tape: Tape
    weights: Tensor | None
    read: Tensor


class TuringMachine(nn.Module):
    """A controller that sees its inputs and what was read last, and says what heads do on a tape.

    The paper is silent about the beginning. Here the controller's state and the first read are zeros, the tape is
    blank (`regard.attention.tape.BLANK`), and every head stands on the first row. The output is a linear map of the
    controller's output and of what is read in the same step.

    Args:
        input_width, output_width: of the vectors that come in, and of the logits that go out.
    """

    def __init__(self, input_width: int, output_width: int, config: TuringMachineConfig):
        super().__init__()
        self.config = config
        self.read_width = config.reads * config.tape_width
        self.controller = CONTROLLERS[config.controller](input_width + self.read_width, config.width)
        self.heads = TapeHeads(config.width, config.tape_width, config.reads, config.writes, config.shift)
        self.output = nn.Linear(config.width + self.read_width, output_width)

    def start(self, batch: int, rows: int | None = None) -> TuringState:
        """The state before the first step, with a tape of so many rows."""
        like, config = self.output.weight, self.config
        tape = Tape.blank(batch, config.rows if rows is None else rows, config.tape_width, like)
        controller = like.new_zeros(batch, self.controller.state_width)
        return TuringState(controller, tape, None, like.new_zeros(batch, self.read_width))

    def step(
        self, inputs: Float[Tensor, "batch input_width"], state: TuringState
    ) -> tuple[Float[Tensor, "batch parts"], TuringState]:
        """One input -> what the output is made of, and the state after it."""
        controller = self.controller(torch.cat([inputs, state.read], -1), state.controller)
        said = controller[:, : self.controller.width]
        read, tape, weights = self.heads(said, state.tape, state.weights)
        return torch.cat([said, read], -1), TuringState(controller, tape, weights, read)

    def run(self, inputs: Inputs, state: TuringState) -> tuple[States, TuringState]:
        """Inputs `(batch, position, input_width)` -> logits after each, and the state after the last."""
        parts = [inputs.new_zeros(len(inputs), 0, self.output.in_features)]
        for each in inputs.unbind(1):
            part, state = self.step(each, state)
            parts.append(part[:, None])
        return self.output(torch.cat(parts, 1)), state

    def forward(self, inputs: Inputs, lengths: Lengths | None = None, *, rows: int | None = None) -> States:
        """Logits `(batch, position, output_width)` after each of the inputs, from the beginning. What stands past
        `lengths (batch,)` changes nothing before it, NaN included. `rows` is the length of the tape, by default the
        configuration's."""
        if lengths is not None:
            inputs = inputs.masked_fill(~padding(lengths, inputs.shape[1]).readable()[..., None], 0.0)
        return self.run(inputs, self.start(len(inputs), rows))[0]
