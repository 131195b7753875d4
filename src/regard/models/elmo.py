"""ELMo: Peters et al. 2018, "Deep contextualized word representations" (1802.05365)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.models.sizes import Share, Size
from regard.models.softmax import FULL, Softmax, output_kind
from regard.nn.cells import ProjectedLSTMCell
from regard.nn.characters import CharacterEncoder
from regard.nn.dropout import Dropout
from regard.nn.recurrent import TwoStacks, turn_round
from regard.shapes import Float, Int, Lengths
from regard.text.spelling import ALPHABET

Characters = Int[Tensor, "batch position character"]
Clip = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class ElmoConfig:
    """Sizes; the one released is `ORIGINAL`. Words have `characters` with their marks; `filters` are pairs, how many
    characters are read at once and how many numbers that gives. LSTMs have a `cell` and a `projection` of it, cut off
    at `cell_clip` and `projection_clip`. Without `predictions` of the words beside a word there is no training."""

    name: Literal["elmo"] = "elmo"
    characters: Annotated[int, Field(ge=3)] = 50
    character_width: Size = 16
    filters: tuple[tuple[Size, Size], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256))
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
"""93.6 million parameters, predictions not counted."""
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class Elmo(nn.Module):
    """Two language models, one that reads forwards and one backwards, on vectors of words made of their characters;
    these vectors and what tells the next word they share (section 3.1)."""

    def __init__(self, vocabulary: int, config: ElmoConfig):
        super().__init__()
        self.layers, self.characters, self.width = config.layers, config.characters, 2 * config.projection
        activation = ACTIVATIONS[config.activation]()
        self.words = CharacterEncoder(
            ALPHABET, config.character_width, config.filters, activation, config.highways, config.projection
        )
        self.dropout = Dropout(config.dropout)
        self.reader = TwoStacks(cells(config), cells(config), self.dropout)
        self.output = output_kind(config.softmax)(config.projection, vocabulary) if config.predictions else None

    def forward(
        self, characters: Characters, lengths: Lengths
    ) -> Float[Tensor, "layer batch position both_projections"]:
        """The words of texts, the marks of where they begin and end among them -> h_0, the word's vector twice, and of
        each layer [forward; backward], `(layers + 1, batch, position, 2 projection)`, zero past the end."""
        inside, _ = turn_round(lengths, characters.shape[1])
        vectors = self.words(characters).masked_fill(~inside[..., None], 0.0)
        return torch.cat([torch.cat([vectors, vectors], -1)[None], self.reader(vectors, lengths)])

    def features(
        self, characters: Characters, lengths: Lengths
    ) -> tuple[Float[Tensor, "batch word projection"], Float[Tensor, "batch word projection"]]:
        """What stands before the output layer: `(batch, word, projection)`, of each word but the first given
        those before it, and of each word but the last given those behind it."""
        ahead, back = self.dropout(self(characters, lengths)[-1]).chunk(2, -1)
        return ahead[:, :-1], back[:, 1:]


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
