"""What reads a tape and writes to it: the heads of a Turing machine (Graves 2014, 1410.5401, section 3)."""

from einops import rearrange
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align.addressing import Addressing
from regard.attention.scores import Content
from regard.attention.tape import Tape
from regard.shapes import Float


class TapeHeads(nn.Module):
    """Reading and writing heads, all moved by one linear map of what the controller says.

    The paper leaves open in which order a step reads and writes. Here all heads find their place on the tape as it
    is, the reading ones read it, and then the writing ones write. What a head adds to a row (equation 4) may be any
    number in the paper; here it is a tanh, so that one write cannot drown what stands there.

    Args:
        width: of what the controller says.
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
        said: Float[Tensor, "batch width"],
        tape: Tape,
        weights: Float[Tensor, "batch head row"] | None = None,
    ) -> tuple[Float[Tensor, "batch read_width"], Tape, Float[Tensor, "batch head row"]]:
        """One step: what the controller says, the tape, and the weights of the step before -> what was read, the heads
        one behind the other, the tape after, and the weights, those of the reading heads first."""
        queries, erase, add = self.instructions(said).split(self.widths, -1)
        heads = self.reads + self.writes
        queries = rearrange(queries, "b (h d) -> b h 1 d", h=heads)
        read = self.attend.read(queries, self.attend.prepare(tape.memory(heads)), weights)
        erase, add = (rearrange(each, "b (h d) -> b h d", h=self.writes) for each in (erase.sigmoid(), add.tanh()))
        context = rearrange(read.context[:, : self.reads], "b h 1 d -> b (h d)")
        return context, tape.write(read.state[:, self.reads :], erase, add), read.state
