"""What a configuration says of its embedding: a width, or the states of a trained ELMo."""

from dataclasses import dataclass, replace

import torch

from regard.models.elmo import Elmo, ElmoConfig
from regard.models.elmo_embedding import ElmoEmbedding
from regard.models.sizes import Size
from regard.nn.embeddings import Embedding, TokenEmbedding


@dataclass(frozen=True)
class ElmoStates:
    """Vectors of words by the trained run in the folder `elmo`. `sizes` are those of its model, looked up when training
    begins, so that the run that has them is whole without that folder."""

    elmo: str
    sizes: ElmoConfig | None = None


def make_embedding(vocabulary: int, source: Size | ElmoStates, dropout: float) -> Embedding:
    """A table of that width, or a mix of states that are still to be filled in, as are the spellings of the words.

    Raises:
        ValueError: the sizes of the ELMo are not known.
    """
    if isinstance(source, int):
        return TokenEmbedding(vocabulary, source, dropout=dropout)
    if source.sizes is None:
        raise ValueError(f"the sizes of the ELMo in {source.elmo} are not known; give ElmoStates its ElmoConfig")
    elmo = Elmo(vocabulary, replace(source.sizes, predictions=False))
    return ElmoEmbedding(elmo, torch.zeros(vocabulary, source.sizes.characters, dtype=torch.int64), dropout)
