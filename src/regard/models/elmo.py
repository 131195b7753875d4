"""ELMo: Peters et al. 2018, "Deep contextualized word representations" (1802.05365)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.models.sizes import Share, Size
from regard.models.softmax import FULL, Softmax, output_kind
from regard.nn.cells import Cell
from regard.nn.characters import CharacterEncoder
from regard.nn.recurrent import Looped, pick, turn_round
from regard.nn.sublayers import Dropout
from regard.shapes import Float, Inputs, Int, Lengths
from regard.text.spelling import ALPHABET

Characters = Int[Tensor, "batch position character"]
StacksState = Float[Tensor, "batch direction depth state_width"]
"""The state of each layer of both directions, forward before backward."""
Clip = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class ElmoConfig:
    """Sizes; `ORIGINAL` has those of the released model.

    A word has at most `characters` characters, its markers included. `filters` are pairs (kernel size in characters,
    number of filters). An LSTM has `cell` units and a `projection`, clipped at `cell_clip` and `projection_clip`.
    Without `predictions` there is no output layer and no training.
    """

    name: Literal["elmo"] = "elmo"
    characters: Annotated[int, Field(ge=3)] = 50
    character_width: Size = 16
    filters: tuple[tuple[Size, Size], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
    )
    activation: Literal["relu", "tanh"] = "relu"
    highways: Annotated[int, Field(ge=0)] = 1
    projection: Size = 128
    cell: Size = 512
    layers: Size = 2
    cell_clip: Clip | None = 3.0
    projection_clip: Clip | None = 3.0
    dropout: Share = 0.1
    softmax: Softmax = FULL
    predictions: bool = True

    def __post_init__(self) -> None:
        if not self.filters:
            raise ValueError("filters is empty; give at least one pair, as [[3, 64]]")
        widest = max(size for size, _ in self.filters)
        if widest > self.characters:
            raise ValueError(
                f"a filter reads {widest} characters at once, more than the {self.characters} of a word; narrow it"
            )


ORIGINAL = ElmoConfig(
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    highways=2,
    projection=512,
    cell=4096,
)
"""93.6 million parameters, without those of the predictions."""
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class ProjectedLSTMCell(Cell):
    """An LSTM whose output is a projection of its gated cell (Sak 2014, 1402.1128), both clipped as in Peters 2018's
    model. The state is [h; c], where h has width `projection` and c has width `width`:

    c' = clip(f * c + i * tanh(g)),  h' = clip(P (o * tanh(c'))),  with i, f, g, o = W x + U h + b
    """

    def __init__(
        self,
        input_width: int,
        width: int,
        projection: int,
        *,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ):
        super().__init__(projection, projection + width)
        self.inputs = nn.Linear(input_width, 4 * width, bias=False)
        self.recurrent = nn.Linear(projection, 4 * width)
        self.projection = nn.Linear(width, projection, bias=False)
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        nn.init.zeros_(self.recurrent.bias)
        nn.init.ones_(self.recurrent.bias[width : 2 * width].data)

    def project(self, inputs: Tensor) -> Tensor:
        return self.inputs(inputs)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        hidden, cell = state.split([self.width, self.state_width - self.width], -1)
        gates = projected + self.recurrent(hidden)
        inward, forget, new, out = gates.to(self.recurrent.weight.dtype).chunk(
            4, -1
        )  # c accumulates in full precision
        cell = clipped(
            forget.sigmoid() * cell + inward.sigmoid() * new.tanh(), self.cell_clip
        )
        hidden = clipped(
            self.projection(out.sigmoid() * cell.tanh()), self.projection_clip
        )
        return torch.cat([hidden, cell], -1)


def clipped(numbers: Tensor, size: float | None) -> Tensor:
    """Clip to [-size, size], if there is a size."""
    return numbers if size is None else numbers.clamp(-size, size)


class TwoStacks(nn.Module):
    """Forward layers and, independent of them, backward layers, each starting from zeros or from an earlier state. Each
    layer but the first has a residual connection, and `dropout` stands before each.

    Raises:
        ValueError: the two directions have different numbers of layers.
    """

    def __init__(
        self, forwards: Iterable[Cell], backwards: Iterable[Cell], dropout: Dropout
    ):
        super().__init__()
        self.forwards = nn.ModuleList(map(Looped, forwards))
        self.backwards = nn.ModuleList(map(Looped, backwards))
        self.dropout = dropout
        if len(self.forwards) != len(self.backwards):
            raise ValueError(
                f"{len(self.forwards)} forward and {len(self.backwards)} backward layers; give equal numbers"
            )

    def forward(
        self, inputs: Inputs, lengths: Lengths
    ) -> Float[Tensor, "layer batch position both_widths"]:
        """Inputs `(batch, position, input_width)`, at least one position -> the states of all layers `(layer, batch,
        position, 2 width)`, forward before backward, zero past the end."""
        return self.read(inputs, lengths)[0]

    def read(
        self,
        inputs: Inputs,
        lengths: Lengths,
        state: StacksState | None = None,
        counted: Lengths | None = None,
    ) -> tuple[Float[Tensor, "layer batch position both_widths"], StacksState]:
        """`forward` after an earlier state (None: zeros), and the state after the first `counted (batch,)` inputs of
        each direction (None: the state is of no use where a sequence is padded)."""
        inside, turned = turn_round(lengths, inputs.shape[1])
        kept = None if counted is None else turn_round(counted, inputs.shape[1])[0]
        before = (None, None) if state is None else state.unbind(1)
        ahead, last = self._read(self.forwards, inputs, before[0], kept)
        back, first = self._read(self.backwards, pick(inputs, turned), before[1], kept)
        states = torch.cat(
            [torch.stack(ahead), torch.stack([pick(each, turned) for each in back])], -1
        )
        return states.masked_fill(~inside[..., None], 0.0), torch.stack(
            [last, first], 1
        )

    def _read(
        self,
        layers: Iterable[nn.Module],
        states: Tensor,
        before: Tensor | None,
        kept: Tensor | None,
    ) -> tuple[list[Tensor], Tensor]:
        found: list[Tensor] = []
        after: list[Tensor] = []
        for layer in layers:
            dropped = self.dropout(states)
            outputs, last = layer(
                dropped, None if before is None else before[:, len(after)], kept
            )
            states = outputs + dropped if found else outputs
            found.append(states)
            after.append(last)
        return found, torch.stack(after, 1)


class Elmo(nn.Module):
    """A forward and a backward language model over character-based word vectors. They share the word vectors and the
    output layer (section 3.1)."""

    def __init__(self, vocabulary: int, config: ElmoConfig):
        super().__init__()
        self.layers, self.characters, self.width = (
            config.layers,
            config.characters,
            2 * config.projection,
        )
        activation = ACTIVATIONS[config.activation]()
        self.words = CharacterEncoder(
            ALPHABET,
            config.character_width,
            config.filters,
            activation,
            config.highways,
            config.projection,
        )
        self.dropout = Dropout(config.dropout)
        self.reader = TwoStacks(cells(config), cells(config), self.dropout)
        self.output = (
            output_kind(config.softmax)(config.projection, vocabulary)
            if config.predictions
            else None
        )

    def forward(
        self, characters: Characters, lengths: Lengths
    ) -> Float[Tensor, "layer batch position both_projections"]:
        """Characters of words, the texts' begin and end markers included -> states `(layers + 1, batch, position, 2
        projection)`, zero past the end: h_0 is the word's vector twice, each further h_j is [forward; backward]."""
        return self.read(characters, lengths)[0]

    def read(
        self,
        characters: Characters,
        lengths: Lengths,
        state: StacksState | None = None,
        counted: Lengths | None = None,
    ) -> tuple[Float[Tensor, "layer batch position both_projections"], StacksState]:
        """`forward` after the state of an earlier batch (None: zeros), row by row in both directions as the released
        model does it, and the state after the first `counted (batch,)` words that each direction reads."""
        inside, _ = turn_round(lengths, characters.shape[1])
        vectors = self.words(characters).masked_fill(~inside[..., None], 0.0)
        states, after = self.reader.read(vectors, lengths, state, counted)
        return torch.cat([torch.cat([vectors, vectors], -1)[None], states]), after

    def features(
        self, characters: Characters, lengths: Lengths, state: StacksState | None = None
    ) -> tuple[
        Float[Tensor, "batch word projection"],
        Float[Tensor, "batch word projection"],
        StacksState,
    ]:
        """The inputs of the output layer, both `(batch, word, projection)`: for each word but the first from the words
        before it, and for each word but the last from the words behind it. The state that goes on is that before the
        last word of each direction, which a next part begins with."""
        counted = None if state is None else (lengths - 1).clamp(min=0)
        states, after = self.read(characters, lengths, state, counted)
        ahead, back = self.dropout(states[-1]).chunk(2, -1)
        return ahead[:, :-1], back[:, 1:], after

    def begin(self, batch: int) -> StacksState:
        """The state before the first word of `batch` texts: zeros."""
        cell = next(each for each in self.reader.modules() if isinstance(each, Cell))
        return next(self.parameters()).new_zeros(
            batch, 2, self.layers, cell.state_width
        )


def cells(config: ElmoConfig) -> list[ProjectedLSTMCell]:
    """The layers of one direction."""
    return [
        ProjectedLSTMCell(
            config.projection,
            config.cell,
            config.projection,
            cell_clip=config.cell_clip,
            projection_clip=config.projection_clip,
        )
        for _ in range(config.layers)
    ]
