"""What recurrent decoders share that look with the state they are in and move afterwards."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.nn.cells import Stack
from regard.nn.decoders.protocol import State
from regard.nn.decoders.recurrent import Stepwise
from regard.shapes import Float


@dataclass(frozen=True, eq=False)
class LookingState(State):
    """`cells (batch, layer, state_width)`, the prepared memory, and the alignment's state."""

    cells: Tensor
    memory: Memory
    alignment: Any = None


class LooksFirst(Stepwise[LookingState]):
    """c_t reads the memory with the top layer's state of the step before."""

    attend: Attend
    stack: Stack
    initial: nn.Module
    """From a memory to the cells' first state, `(batch, size)`."""

    def start(self, memory: Memory) -> LookingState:
        cells = self.initial(memory).unflatten(1, self.stack.state_shape)
        return LookingState(cells, self.attend.prepare(memory))

    def look(self, state: LookingState) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch value_width"], Any]:
        """The state that looks, what it reads, and the alignment's next state."""
        before = state.cells[:, -1, : self.stack.width]
        read = self.attend.read(before[:, None], state.memory, state.alignment)
        return before, read.context[:, 0], read.state
