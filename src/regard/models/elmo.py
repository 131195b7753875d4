"""ELMo: Peters et al. 2018 (1802.05365), and its layers as an embedding."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.language_model import FULL, Softmax, output_kind
from regard.models.sizes import Share, Size
from regard.nn.embeddings import CharacterEncoder, Embedding, TokenEmbedding
from regard.nn.layers import Dropout
from regard.nn.recurrent import Cell, Looped, gather_positions, reverse_index
from regard.shapes import Float, Inputs, Int, Lengths, States
from regard.text.special import SPECIAL
from regard.text.words import ALPHABET, TEXT_BEGINS, TEXT_ENDS, spell_mark

Characters = Int[Tensor, "batch position character"]
StacksState = Float[Tensor, "batch direction depth state_width"]
"""The state of each layer of both directions, forward before backward."""
Clip = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class ElmoConfig:
    """Sizes; `ORIGINAL` has those of the released model.

    A word has at most `characters` characters, its markers included. `filters` are
    pairs (kernel size in characters, number of filters). An LSTM has `cell` units and a
    `projection`, clipped at `cell_clip` and `projection_clip`. Without `predictions`
    there is no output layer and no training.
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
    """An LSTM whose output is a projection of its gated cell.

    Both clipped as in Peters 2018's model. See Sak 2014, 1402.1128.

    The state is [h; c], where h has width `projection` and c has width `width`:

    c' = clip(f * c + i * tanh(g)),  h' = clip(P (o * tanh(c'))),  with i, f, g, o = W x
    + U h + b
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
        cell = clip(
            forget.sigmoid() * cell + inward.sigmoid() * new.tanh(), self.cell_clip
        )
        hidden = clip(
            self.projection(out.sigmoid() * cell.tanh()), self.projection_clip
        )
        return torch.cat([hidden, cell], -1)


def clip(numbers: Tensor, size: float | None) -> Tensor:
    """Clip to [-size, size], if there is a size."""
    return numbers if size is None else numbers.clamp(-size, size)


class TwoStacks(nn.Module):
    """Forward layers and, independent of them, backward layers, each starting from zeros or from an earlier state.

    Each layer but the first has a residual connection, and `dropout` stands before
    each.

    Raises:
        ValueError: The two directions have different numbers of layers.
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
        """Return the states of all layers, `(layer, batch, position, 2 width)`.

        Inputs are `(batch, position, input_width)` with at least one position. Forward
        states stand before backward ones; past the end stand zeros.
        """
        return self.read(inputs, lengths)[0]

    def read(
        self,
        inputs: Inputs,
        lengths: Lengths,
        state: StacksState | None = None,
        counted: Lengths | None = None,
    ) -> tuple[Float[Tensor, "layer batch position both_widths"], StacksState]:
        """Read as `forward` after an earlier state, and return the state after it.

        None stands for zeros. The state is that after the first `counted (batch,)`
        inputs of each direction; None if it is of no use, where a sequence is padded.
        """
        inside, turned = reverse_index(lengths, inputs.shape[1])
        mask = None if counted is None else reverse_index(counted, inputs.shape[1])[0]
        before = (None, None) if state is None else state.unbind(1)
        ahead, last = self._read(self.forwards, inputs, before[0], mask)
        back, first = self._read(
            self.backwards, gather_positions(inputs, turned), before[1], mask
        )
        states = torch.cat(
            [
                torch.stack(ahead),
                torch.stack([gather_positions(layer, turned) for layer in back]),
            ],
            -1,
        )
        return states.masked_fill(~inside[..., None], 0.0), torch.stack(
            [last, first], 1
        )

    def _read(
        self,
        layers: Iterable[nn.Module],
        states: Tensor,
        before: Tensor | None,
        mask: Tensor | None,
    ) -> tuple[list[Tensor], Tensor]:
        layer_outputs: list[Tensor] = []
        after: list[Tensor] = []
        for layer in layers:
            dropped = self.dropout(states)
            outputs, last = layer(
                dropped, None if before is None else before[:, len(after)], mask
            )
            states = outputs + dropped if layer_outputs else outputs
            layer_outputs.append(states)
            after.append(last)
        return layer_outputs, torch.stack(after, 1)


class Elmo(nn.Module):
    """A forward and a backward language model over character-based word vectors.

    They share the word vectors and the output layer (section 3.1).
    """

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
        """Return the states `(layers + 1, batch, position, 2 projection)` of words.

        Words are given by their characters, the texts' begin and end markers included;
        past the end stand zeros. h_0 is the word's vector twice, each further h_j is
        [forward; backward].
        """
        return self.read(characters, lengths)[0]

    def read(
        self,
        characters: Characters,
        lengths: Lengths,
        state: StacksState | None = None,
        counted: Lengths | None = None,
    ) -> tuple[Float[Tensor, "layer batch position both_projections"], StacksState]:
        """Read as `forward` after the state of an earlier batch.

        None stands for zeros. Rows continue in both directions as the released model
        does it; the state is that after the first `counted (batch,)` words that each
        direction reads.
        """
        inside, _ = reverse_index(lengths, characters.shape[1])
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
        """Return the inputs of the output layer, both `(batch, word, projection)`.

        For each word but the first from the words before it, and for each word but the
        last from the words behind it. The state that goes on is that before the last
        word of each direction, which a next part begins with.
        """
        counted = None if state is None else (lengths - 1).clamp(min=0)
        states, after = self.read(characters, lengths, state, counted)
        ahead, back = self.dropout(states[-1]).chunk(2, -1)
        return ahead[:, :-1], back[:, 1:], after

    def begin(self, batch: int) -> StacksState:
        """Return the state before the first word of `batch` texts: zeros."""
        cell = next(
            module for module in self.reader.modules() if isinstance(module, Cell)
        )
        return next(self.parameters()).new_zeros(
            batch, 2, self.layers, cell.state_width
        )


def cells(config: ElmoConfig) -> list[ProjectedLSTMCell]:
    """Return the layers of one direction."""
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


class ScalarMix(nn.Module):
    """gamma sum_j s_j h_j with s = softmax(w), where gamma and w are learned.

    Initially the mean. See Peters 2018, 1802.05365, equation 1.

    `(layer, *batch, width)` -> `(*batch, width)`.
    """

    def __init__(self, layers: int):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(
        self, layers: Float[Tensor, "layer *batch width"]
    ) -> Float[Tensor, "*batch width"]:
        return self.gamma * torch.tensordot(self.weights.softmax(0), layers, 1)


class ElmoEmbedding(Embedding):
    """A learned mix of the layers of a frozen `elmo`, which runs without dropout.

    Args:
        elmo: A trained model.
        spellings: The characters of each word of the vocabulary, `(word,
            character)`, from `spell_vocabulary`.
        dropout: Dropout on the mix.
    """

    spellings: Tensor

    def __init__(
        self, elmo: Elmo, spellings: Int[Tensor, "word character"], dropout: float = 0.0
    ):
        super().__init__()
        self.elmo = elmo.requires_grad_(False).eval()
        self.mix = ScalarMix(elmo.layers + 1)
        self.dropout = Dropout(dropout)
        self.register_buffer("spellings", spellings.to(torch.int32))

    @property
    def width(self) -> int:
        return self.elmo.width

    def train(self, mode: bool = True) -> "ElmoEmbedding":
        """Set the mode of the mix; the language models stay in evaluation mode."""
        super().train(mode)
        self.elmo.eval()
        return self

    def forward(self, tokens: Int[Tensor, "batch position"]) -> States:
        """Word ids, padded on the right -> `(batch, position, width)`."""
        return self.read(self.spellings[tokens], (tokens != SPECIAL.pad).sum(-1))

    def read(self, characters: Characters, lengths: Lengths) -> States:
        """Words by their characters, known or unknown to the vocabulary -> `(batch, position, width)`."""
        return self.dropout(self.mix(word_states(self.elmo, characters, lengths)))


CarriedState = Float[Tensor, "_rows direction depth state_width"]
"""The state after earlier batches, which may have had more or fewer rows."""


@torch.no_grad()
def word_states(
    elmo: Elmo, characters: Characters, lengths: Lengths
) -> Float[Tensor, "layer batch position width"]:
    """Return all layers' states of texts without markers.

    The markers are added here, and their own states are left out.
    """
    return run_continuing(elmo, characters, lengths, None)[0]


@torch.no_grad()
def run_continuing(
    elmo: Elmo, characters: Characters, lengths: Lengths, state: CarriedState | None
) -> tuple[Float[Tensor, "layer batch position width"], CarriedState]:
    """Compute `word_states` after the state of earlier batches (None: zeros).

    The released model reads one batch after another like this: row i goes on where the
    last batch that had a row i ended, in both directions.

    Returns the state for the next batch too.
    """
    batch, positions, size = characters.shape
    begins, ends = (
        torch.tensor(spell_mark(mark, size)).to(characters)
        for mark in (TEXT_BEGINS, TEXT_ENDS)
    )
    marked = characters.new_zeros(batch, positions + 2, size)
    marked[:, 0] = begins
    marked[:, 1:-1] = characters
    marked[torch.arange(batch, device=lengths.device), lengths + 1] = ends
    begin = elmo.begin(0) if state is None else state
    before = torch.cat([begin[:batch], elmo.begin(max(0, batch - len(begin)))])
    states, after = elmo.read(
        marked, lengths + 2, None if state is None else before, lengths + 2
    )
    hidden = ~padding(lengths, positions).readable()[..., None]
    return states[:, :, 1:-1].masked_fill(hidden, 0.0), torch.cat(
        [after, begin[batch:]]
    )


@dataclass(frozen=True)
class ElmoStates:
    """Word vectors from the trained run in the folder `elmo`.

    `sizes` are those of its model; training fills them in, so that a trained run needs
    that folder no longer.
    """

    elmo: str
    sizes: ElmoConfig | None = None


def make_embedding(
    vocabulary: int, source: Size | ElmoStates, dropout: float
) -> Embedding:
    """Return a table of width `source`, or a mix of ELMo's states.

    The weights of ELMo and the spellings of the words are filled in later.

    Raises:
        ValueError: The sizes of the ELMo are not known.
    """
    if isinstance(source, int):
        return TokenEmbedding(vocabulary, source, dropout=dropout)
    if source.sizes is None:
        raise ValueError(
            f"the sizes of the ELMo in {source.elmo} are not known; give ElmoStates its ElmoConfig"
        )
    elmo = Elmo(vocabulary, replace(source.sizes, predictions=False))
    return ElmoEmbedding(
        elmo,
        torch.zeros(vocabulary, source.sizes.characters, dtype=torch.int64),
        dropout,
    )
