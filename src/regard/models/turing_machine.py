"""The neural Turing machine: Graves, Wayne, Danihelka 2014 (1410.5401)."""

from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align.addressing import Addressing
from regard.attention.masks import padding
from regard.attention.scores import Content
from regard.attention.tape import Tape
from regard.models.sizes import Size
from regard.nn.cells import Cell, LSTMCell
from regard.nn.decoders.protocol import State
from regard.shapes import Float, Inputs, Lengths, States


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


class FeedForwardCell(Cell):
    """tanh(W x + b), whatever the state was: a cell that remembers nothing."""

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width)
        self.inputs = nn.Linear(input_width, width)

    def project(self, inputs: Tensor) -> Tensor:
        return self.inputs(inputs).tanh()

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return projected


CONTROLLERS: dict[str, type[Cell]] = {"lstm": LSTMCell, "feed-forward": FeedForwardCell}


class TapeHeads(nn.Module):
    """Reading and writing heads, all moved by one linear map of the controller's output (section 3).

    The paper leaves open in which order a step reads and writes. Here all heads find their place on the tape as it
    is, the reading ones read it, and then the writing ones write. What a head adds to a row (equation 4) may be any
    number in the paper; here it is a tanh, so that one write cannot drown what stands there.

    Args:
        width: of the controller's output.
        tape_width: of a row of the tape.
        reads, writes: how many heads read, and how many write.
        shift: how far a head may move in a step, in either direction.
    """

    def __init__(self, width: int, tape_width: int, reads: int = 1, writes: int = 1, shift: int = 1):
        super().__init__()
        align = Addressing(shift)
        self.reads, self.writes, self.tape_width = reads, writes, tape_width
        self.query_width = tape_width + 1 + align.width
        self.attend = Attend(Content(self.query_width, tape_width), align)
        self.widths = [(reads + writes) * self.query_width, writes * tape_width, writes * tape_width]
        self.instructions = nn.Linear(width, sum(self.widths))
        nn.init.xavier_uniform_(self.instructions.weight)
        nn.init.zeros_(self.instructions.bias)

    def forward(
        self,
        controls: Float[Tensor, "batch width"],
        tape: Tape,
        weights: Float[Tensor, "batch head row"] | None = None,
    ) -> tuple[Float[Tensor, "batch read_width"], Tape, Float[Tensor, "batch head row"]]:
        """One step: the controller's output, the tape, and the last weights -> the contexts, one head behind the other,
        the tape after, and the weights, those of the reading heads first."""
        queries, erase, add = self.instructions(controls).split(self.widths, -1)
        heads = self.reads + self.writes
        queries = rearrange(queries, "b (h d) -> b h 1 d", h=heads)
        read = self.attend.read(queries, self.attend.prepare(tape.memory(heads)), weights)
        erase, add = (rearrange(each, "b (h d) -> b h d", h=self.writes) for each in (erase.sigmoid(), add.tanh()))
        context = rearrange(read.context[:, : self.reads], "b h 1 d -> b (h d)")
        return context, tape.write(read.state[:, self.reads :], erase, add), read.state


@dataclass(frozen=True, eq=False)
class TuringState(State):
    """What the machine carries: the controller's state `(batch, state_width)`, the tape, each head's weights `(batch,
    head, row)`, None before the first step, and what was read last `(batch, read_width)`."""

    controller: Tensor
    tape: Tape
    weights: Tensor | None
    read: Tensor


class TuringMachine(nn.Module):
    """A controller that sees its inputs and the last read, and moves heads on a tape.

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
        controls = controller[:, : self.controller.width]
        read, tape, weights = self.heads(controls, state.tape, state.weights)
        return torch.cat([controls, read], -1), TuringState(controller, tape, weights, read)

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
