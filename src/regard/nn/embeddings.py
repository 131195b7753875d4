"""Token embeddings."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.shapes import Float, Int
from regard.text.special import SPECIAL


class Embedding(nn.Module, ABC):
    """Vectors of tokens, whatever they are made of."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Of a vector."""

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]: ...


class TokenEmbedding(Embedding):
    """Vectors of tokens `(*batch,)` -> `(*batch, width)`, with dropout.

    The table starts small, so that an output layer tied to it starts near even; what is read from it is multiplied by
    `scale`, by default sqrt(width) (Vaswani 2017, section 3.4), so that the layers above start with numbers near 1.
    """

    def __init__(self, vocabulary: int, width: int, *, dropout: float = 0.0, scale: float | None = None):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        nn.init.zeros_(self.table.weight[SPECIAL.pad].data)  # an output layer tied to it then scores padding by 0
        self.scale = width**0.5 if scale is None else scale
        self.dropout = Dropout(dropout)

    @property
    def vocabulary(self) -> int:
        return self.table.num_embeddings

    @property
    def width(self) -> int:
        return self.table.embedding_dim

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        return self.dropout(self.table(tokens) * self.scale)


class OpenEmbedding(TokenEmbedding):
    """For ids past the vocabulary too, which stand for words that only one source has: all are read as the `unknown`
    token."""

    unknown = SPECIAL.unknown

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        return super().forward(tokens.where(tokens < self.vocabulary, self.unknown))
