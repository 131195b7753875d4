"""ELMo: Peters et al. 2018 (1802.05365), and its layers as an embedding."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.language_model import FULL, Softmax, output_kind
from regard.models.sizes import Share, Size
from regard.nn.encoders import CharacterEncoder
from regard.nn.layers import Dropout, Embedding, TokenEmbedding
from regard.nn.recurrent import Cell, Looped, gather_positions, reverse_index
from regard.shapes import (
    Characters,
    Features,
    Float,
    Inputs,
    Int,
    Lengths,
    States,
    Tokens,
)
from regard.text.kinds import SPECIAL
from regard.text.words import ALPHABET, TEXT_BEGINS, TEXT_ENDS, spell_mark

Layers = Float[Tensor, "layer batch position width"]
Predictions = Float[Tensor, "batch word projection"]
Clip = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class ElmoConfig:
    """Sizes; the released model has seven filters, 4,096 cells and projections of 512.

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
    highways: NonNegativeInt = 1
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


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class ProjectedLSTMCell(Cell):
    """An LSTM whose output is a projection of its gated cell.

    Both clipped as in Peters 2018's model. See Sak 2014, 1402.1128.

    The state is [h; c], where h has width `projection` and c has width `width`:

    c' = clip(f * c + i * tanh(g)),  h' = clip(P (o * tanh(c'))),  with i, f, g, o = W x
    + U h + b
    """

    def __init__(self, config: ElmoConfig):
        projection = config.projection
        width = config.cell
        super().__init__(projection, projection + width)
        self.inputs = nn.Linear(projection, 4 * width, bias=False)
        self.recurrent = nn.Linear(projection, 4 * width)
        self.projection = nn.Linear(width, projection, bias=False)
        self.config = config
        nn.init.zeros_(self.recurrent.bias)
        nn.init.ones_(self.recurrent.bias[width : 2 * width].data)

    def project(self, inputs: Tensor) -> Tensor:
        return self.inputs(inputs)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        hidden, cell = state.split([self.width, self.state_width - self.width], -1)
        gates = projected + self.recurrent(hidden)
        gates = gates.to(self.recurrent.weight.dtype)  # c accumulates in full precision
        inward, forget, new, out = gates.chunk(4, -1)
        cell = forget.sigmoid() * cell + inward.sigmoid() * new.tanh()
        size = self.config.cell_clip or torch.inf
        cell = cell.clamp(-size, size)
        size = self.config.projection_clip or torch.inf
        hidden = self.projection(out.sigmoid() * cell.tanh()).clamp(-size, size)
        return torch.cat([hidden, cell], -1)


class TwoStacks(nn.Module):
    """Forward layers and, independent of them, backward layers, from zeros.

    Each layer but the first has a residual connection, and `dropout` stands before
    each.
    """

    def __init__(self, config: ElmoConfig, dropout: Dropout):
        super().__init__()
        self.forwards, self.backwards = (
            nn.ModuleList(
                Looped(ProjectedLSTMCell(config)) for _ in range(config.layers)
            )
            for _ in range(2)
        )
        self.dropout = dropout

    def forward(self, inputs: Inputs, lengths: Lengths) -> Layers:
        """Return the states of all layers, forward states before backward ones.

        Inputs are `(batch, position, input_width)` with at least one position. Past the
        end stand zeros.
        """
        inside, reverse = reverse_index(lengths, inputs.shape[1])
        ahead = self._read(self.forwards, inputs)
        back = self._read(self.backwards, gather_positions(inputs, reverse))
        layers = []
        for forward, backward in zip(ahead, back, strict=True):
            states = torch.cat([forward, gather_positions(backward, reverse)], -1)
            layers.append(states.masked_fill(~inside[..., None], 0.0))
        return torch.stack(layers)

    def _read(self, layers: Iterable[nn.Module], states: Tensor) -> list[Tensor]:
        layer_outputs: list[Tensor] = []
        for layer in layers:
            dropped = self.dropout(states)
            outputs = layer(dropped)[0]
            states = outputs + dropped if layer_outputs else outputs
            layer_outputs.append(states)
        return layer_outputs


class Elmo(nn.Module):
    """A forward and a backward language model over character-based word vectors.

    They share the word vectors and the output layer (section 3.1).

        loss = -sum_t log p(y_t | y_1 ... y_{t-1}) + log p(y_t | y_{t+1} ... y_T)
        h_0 = [x; x],  h_j = [forward_j; backward_j]

    `ScalarMix` mixes these layers for another model.
    """

    def __init__(self, vocabulary: int, config: ElmoConfig):
        super().__init__()
        self.layers = config.layers
        self.characters = config.characters
        self.width = 2 * config.projection
        self.words = CharacterEncoder(
            ALPHABET,
            config.character_width,
            config.filters,
            ACTIVATIONS[config.activation](),
            config.highways,
            config.projection,
        )
        self.dropout = Dropout(config.dropout)
        self.reader = TwoStacks(config, self.dropout)
        self.output = None
        if config.predictions:
            self.output = output_kind(config.softmax)(config.projection, vocabulary)

    def forward(self, characters: Characters, lengths: Lengths) -> Layers:
        """Return the states of words, `(layers + 1, batch, position, 2 projection)`.

        Words are given by their characters, the texts' begin and end markers included;
        past the end stand zeros. h_0 is the word's vector twice, each further h_j is
        [forward; backward].
        """
        inside, _ = reverse_index(lengths, characters.shape[1])
        vectors = self.words(characters).masked_fill(~inside[..., None], 0.0)
        states = self.reader(vectors, lengths)
        return torch.cat([torch.cat([vectors, vectors], -1)[None], states])

    def features(
        self,
        characters: Characters,
        lengths: Lengths,
    ) -> tuple[Predictions, Predictions]:
        """Return the inputs of the output layer, both `(batch, word, projection)`.

        The first predict each word but the first from the words before it, the second
        each word but the last from the words behind it.
        """
        states = self(characters, lengths)[-1]
        ahead, back = self.dropout(states).chunk(2, -1)
        return ahead[:, :-1], back[:, 1:]


class ScalarMix(nn.Module):
    """gamma sum_j s_j h_j with s = softmax(w), where gamma and w are learned.

    It maps `(layer, *batch, width)` to `(*batch, width)`, initially by the mean. See
    Peters 2018, 1802.05365, equation 1.
    """

    def __init__(self, layers: int):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Float[Tensor, "layer *batch width"]) -> Features:
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
        self,
        elmo: Elmo,
        spellings: Int[Tensor, "word character"],
        dropout: float = 0.0,
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

    def forward(self, tokens: Tokens) -> States:
        """Word ids, padded on the right -> `(batch, position, width)`."""
        lengths = (tokens != SPECIAL.pad).sum(-1)
        return self.read(self.spellings[tokens], lengths)

    def read(self, characters: Characters, lengths: Lengths) -> States:
        """Words by their characters, known or unknown to the vocabulary -> `(batch, position, width)`."""
        layers = word_states(self.elmo, characters, lengths)
        return self.dropout(self.mix(layers))


@torch.no_grad()
def word_states(elmo: Elmo, characters: Characters, lengths: Lengths) -> Layers:
    """Return all layers' states of texts without markers.

    The markers are added here, and their own states are left out.
    """
    batch, positions, size = characters.shape
    begins = torch.tensor(spell_mark(TEXT_BEGINS, size))
    ends = torch.tensor(spell_mark(TEXT_ENDS, size))
    marked = characters.new_zeros(batch, positions + 2, size)
    marked[:, 0] = begins.to(characters)
    marked[:, 1:-1] = characters
    rows = torch.arange(batch, device=lengths.device)
    marked[rows, lengths + 1] = ends.to(characters)
    states = elmo(marked, lengths + 2)
    real = padding(lengths, positions).readable()
    return states[:, :, 1:-1].masked_fill(~real[..., None], 0.0)


@dataclass(frozen=True)
class ElmoStates:
    """Word vectors from the trained run in the folder `elmo`.

    `sizes` are those of its model; training fills them in, so that a trained run needs
    that folder no longer.
    """

    elmo: str
    sizes: ElmoConfig | None = None


def make_embedding(
    vocabulary: int,
    source: Size | ElmoStates,
    dropout: float,
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
