"""ELMo's states in place of a model's own token embedding (Peters 2018, section 3.3)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.elmo import Characters, Elmo, ElmoConfig
from regard.models.sizes import Size
from regard.nn.embeddings import Embedding, TokenEmbedding
from regard.nn.sublayers import Dropout
from regard.shapes import Float, Int, Lengths, States
from regard.text.special import SPECIAL
from regard.text.spelling import TEXT_BEGINS, TEXT_ENDS, spell_mark


class ScalarMix(nn.Module):
    """gamma sum_j s_j h_j with s = softmax(w), where gamma and w are learned (Peters 2018, 1802.05365, equation 1);
    initially the mean. `(layer, *batch, width)` -> `(*batch, width)`."""

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
        elmo: a trained model.
        spellings: the characters of each word of the vocabulary, `(word, character)`, from `spell_vocabulary`.
        dropout: dropout on the mix.
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
    """All layers' states of texts without markers: the markers are added here, and their own states are left out."""
    return continued_states(elmo, characters, lengths, None)[0]


@torch.no_grad()
def continued_states(
    elmo: Elmo, characters: Characters, lengths: Lengths, state: CarriedState | None
) -> tuple[Float[Tensor, "layer batch position width"], CarriedState]:
    """`word_states` after the state of earlier batches (None: zeros), as the released model reads one batch after
    another: row i goes on where the last batch that had a row i ended, in both directions. Returns the state for the
    next batch too."""
    batch, positions, size = characters.shape
    begins, ends = (
        torch.tensor(spell_mark(mark, size)).to(characters)
        for mark in (TEXT_BEGINS, TEXT_ENDS)
    )
    marked = characters.new_zeros(batch, positions + 2, size)
    marked[:, 0] = begins
    marked[:, 1:-1] = characters
    marked[torch.arange(batch, device=lengths.device), lengths + 1] = ends
    known = elmo.begin(0) if state is None else state
    before = torch.cat([known[:batch], elmo.begin(max(0, batch - len(known)))])
    states, after = elmo.read(
        marked, lengths + 2, None if state is None else before, lengths + 2
    )
    hidden = ~padding(lengths, positions).readable()[..., None]
    return states[:, :, 1:-1].masked_fill(hidden, 0.0), torch.cat(
        [after, known[batch:]]
    )


@dataclass(frozen=True)
class ElmoStates:
    """Word vectors from the trained run in the folder `elmo`. `sizes` are those of its model; training fills them in,
    so that a trained run needs that folder no longer."""

    elmo: str
    sizes: ElmoConfig | None = None


def make_embedding(
    vocabulary: int, source: Size | ElmoStates, dropout: float
) -> Embedding:
    """A table of width `source`, or a mix of ELMo's states. The weights of ELMo and the spellings of the words are
    filled in later.

    Raises:
        ValueError: the sizes of the ELMo are not known.
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
