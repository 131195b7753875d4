"""Residual connections with layer normalisation, after or before the sublayer they wrap."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from regard.nn.dropout import Dropout


class Residual(nn.Module, ABC):
    """Wraps a sublayer, a function of states `(..., width)`; `epsilon` is what its norm adds to a variance."""

    def __init__(self, width: int, dropout: float = 0.0, epsilon: float = 1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor: ...


class PostNorm(Residual):
    """norm(x + dropout(f(x))) (Vaswani 2017, section 3.1)."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(states + self.dropout(sublayer(states)))


class PreNorm(Residual):
    """x + dropout(f(norm(x))) (Xiong 2020, 2002.04745): trains without warm-up; wants a norm after the last layer."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return states + self.dropout(sublayer(self.norm(states)))
