"""The neural Turing machine: Graves, Wayne, Danihelka 2014 (1410.5401)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align.location import Addressing
from regard.attention.masks import padding
from regard.attention.memory import Tape
from regard.attention.scores import Content
from regard.models.sizes import Size
from regard.nn.decoders import State
from regard.nn.recurrent import CELL_CLASSES, Cell
from regard.shapes import Float, Inputs, Lengths, States, StepInputs, Vectors


@dataclass(frozen=True)
class TuringMachineConfig:
    """Sizes; the defaults are the paper's for copying.

    `rows` is the length of the tape. It is not a parameter: a trained machine can use a
    longer tape. Heads move at most `shift` rows per step in either direction.
    """

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
            raise ValueError(
                f"rows is {self.rows}, less than the {2 * self.shift + 1} that shift {self.shift} reaches"
            )


class FeedForwardCell(Cell):
    """tanh(W x + b), a cell without memory: it ignores the state."""

    def __init__(self, input_width: int, width: int):
        super().__init__(width, width)
        self.inputs = nn.Linear(input_width, width)

    def project(self, inputs: Tensor) -> Tensor:
        return self.inputs(inputs).tanh()

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        return projected


CONTROLLERS: dict[str, Callable[[int, int], Cell]] = {
    "lstm": CELL_CLASSES["lstm"],
    "feed-forward": FeedForwardCell,
}


class TapeHeads(nn.Module):
    """Reading and writing heads, all controlled by one linear map of the controller's output (section 3).

    The paper leaves open in which order a step reads and writes. Here all heads are
    addressed on the tape as it is, then the reading heads read it, then the writing
    heads write. In the paper a head may add any number to a row (equation 4); here it
    is a tanh, so that one write cannot swamp a row.
    """

    def __init__(self, config: TuringMachineConfig):
        super().__init__()
        align = Addressing(config.shift)
        width = config.tape_width
        self.reads = config.reads
        self.writes = config.writes
        query_width = width + 1 + align.width
        self.attend = Attend(Content(query_width, width), align)
        self.widths = [
            (config.reads + config.writes) * query_width,
            config.writes * width,
            config.writes * width,
        ]
        self.instructions = nn.Linear(config.width, sum(self.widths))
        nn.init.xavier_uniform_(self.instructions.weight)
        nn.init.zeros_(self.instructions.bias)

    def forward(
        self,
        controls: Vectors,
        tape: Tape,
        weights: Float[Tensor, "batch head row"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch read_width"], Tape, Float[Tensor, "batch head row"]
    ]:
        """Move the heads for one step of the controller.

        Args:
            controls: The controller's output.
            weights: The heads' weights of the last step, if any.

        Returns:
            The heads' contexts, concatenated; the new tape; and the heads' weights,
            reading heads first.
        """
        queries, erase, add = self.instructions(controls).split(self.widths, -1)
        heads = self.reads + self.writes
        queries = rearrange(queries, "b (h d) -> b h 1 d", h=heads)
        read = self.attend.read(
            queries, self.attend.prepare(tape.memory(heads)), weights
        )
        erase, add = (
            rearrange(vector, "b (h d) -> b h d", h=self.writes)
            for vector in (erase.sigmoid(), add.tanh())
        )
        context = rearrange(read.context[:, : self.reads], "b h 1 d -> b (h d)")
        return context, tape.write(read.state[:, self.reads :], erase, add), read.state


@dataclass(frozen=True, eq=False)
class TuringState(State):
    """The state of the machine.

    The controller's state `(batch, state_width)`, the tape, each head's weights
    `(batch, head, row)`, None before the first step, and the last read `(batch,
    read_width)`.
    """

    controller: Tensor
    tape: Tape
    weights: Tensor | None
    read: Tensor


class TuringMachine(nn.Module):
    """A controller that sees its inputs and the last read, and controls heads on a tape.

    The paper does not define the initial state. Here the controller's state and the
    first read are zeros, the tape is blank (`regard.attention.memory.BLANK`), and every
    head starts at the first row. The output is a linear map of the controller's output
    and the read of the same step.

    Args:
        input_width: Width of the inputs.
        output_width: Number of logits.
    """

    def __init__(
        self,
        input_width: int,
        output_width: int,
        config: TuringMachineConfig,
    ):
        super().__init__()
        self.config = config
        self.read_width = config.reads * config.tape_width
        self.controller = CONTROLLERS[config.controller](
            input_width + self.read_width, config.width
        )
        self.heads = TapeHeads(config)
        self.output = nn.Linear(config.width + self.read_width, output_width)

    def start(self, batch: int, rows: int | None = None) -> TuringState:
        """Return the state before the first step, with a tape of `rows` rows (default: the configuration's)."""
        like = self.output.weight
        config = self.config
        tape = Tape.blank(
            batch, config.rows if rows is None else rows, config.tape_width, like
        )
        controller = like.new_zeros(batch, self.controller.state_width)
        return TuringState(
            controller, tape, None, like.new_zeros(batch, self.read_width)
        )

    def step(
        self,
        inputs: StepInputs,
        state: TuringState,
    ) -> tuple[Float[Tensor, "batch parts"], TuringState]:
        """Return one input -> the input of the output layer, and the new state."""
        controller = self.controller(
            torch.cat([inputs, state.read], -1), state.controller
        )
        controls = controller[:, : self.controller.width]
        read, tape, weights = self.heads(controls, state.tape, state.weights)
        return torch.cat([controls, read], -1), TuringState(
            controller, tape, weights, read
        )

    def run(self, inputs: Inputs, state: TuringState) -> tuple[States, TuringState]:
        """Process inputs `(batch, position, input_width)`.

        Returns:
            Logits after each, and the state after the last.
        """
        parts = [inputs.new_zeros(len(inputs), 0, self.output.in_features)]
        for vector in inputs.unbind(1):
            part, state = self.step(vector, state)
            parts.append(part[:, None])
        return self.output(torch.cat(parts, 1)), state

    def forward(
        self,
        inputs: Inputs,
        lengths: Lengths | None = None,
        *,
        rows: int | None = None,
    ) -> States:
        """Return logits `(batch, position, output_width)` after each input, from the initial state.

        Inputs past `lengths (batch,)` have no influence on earlier outputs, NaN
        included. `rows` is the length of the tape, by default the configuration's.
        """
        if lengths is not None:
            inputs = inputs.masked_fill(
                ~padding(lengths, inputs.shape[1]).readable()[..., None], 0.0
            )
        return self.run(inputs, self.start(len(inputs), rows))[0]
