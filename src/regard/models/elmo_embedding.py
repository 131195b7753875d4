"""ELMo's states in place of a model's own token embedding (Peters 2018, section 3.3)."""

import torch
from torch import Tensor

from regard.attention.masks import padding
from regard.models.elmo import Characters, Elmo
from regard.nn.dropout import Dropout
from regard.nn.embeddings import Embedding
from regard.nn.scalar_mix import ScalarMix
from regard.shapes import Float, Int, Lengths, States
from regard.text.special import SPECIAL
from regard.text.spelling import TEXT_BEGINS, TEXT_ENDS, spell_mark


class ElmoEmbedding(Embedding):
    """A mix of the layers of an `elmo` that stays as it is, without dropout of its own; the mix is learned.

    Args:
        elmo: a trained model.
        spellings: the characters of each word of a vocabulary, `(word, character)`, as `spell_vocabulary` gives them.
        dropout: of the mix.
    """

    spellings: Tensor

    def __init__(self, elmo: Elmo, spellings: Int[Tensor, "word character"], dropout: float = 0.0):
        super().__init__()
        self.elmo = elmo.requires_grad_(False).eval()
        self.mix = ScalarMix(elmo.layers + 1)
        self.dropout = Dropout(dropout)
        self.register_buffer("spellings", spellings.to(torch.int32))

    @property
    def width(self) -> int:
        return self.elmo.width

    def train(self, mode: bool = True) -> "ElmoEmbedding":
        """As of any module, but the language models stay in evaluation."""
        super().train(mode)
        self.elmo.eval()
        return self

    def forward(self, tokens: Int[Tensor, "batch position"]) -> States:
        """Words by their ids, padded on the right -> `(batch, position, width)`."""
        return self.read(self.spellings[tokens], (tokens != SPECIAL.pad).sum(-1))

    def read(self, characters: Characters, lengths: Lengths) -> States:
        """Words by their characters, which need not be in the vocabulary -> `(batch, position, width)`."""
        return self.dropout(self.mix(word_states(self.elmo, characters, lengths)))


@torch.no_grad()
def word_states(elmo: Elmo, characters: Characters, lengths: Lengths) -> Float[Tensor, "layer batch position width"]:
    """All layers' states of whole texts given without marks: these are added, and their own states left out."""
    batch, positions, size = characters.shape
    begins, ends = (torch.tensor(spell_mark(mark, size)).to(characters) for mark in (TEXT_BEGINS, TEXT_ENDS))
    marked = characters.new_zeros(batch, positions + 2, size)
    marked[:, 0] = begins
    marked[:, 1:-1] = characters
    marked[torch.arange(batch, device=lengths.device), lengths + 1] = ends
    states = elmo(marked, lengths + 2)[:, :, 1:-1]
    return states.masked_fill(~padding(lengths, positions).readable()[..., None], 0.0)
