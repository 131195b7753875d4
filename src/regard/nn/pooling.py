"""One vector of a sequence: read by a query that is learned, the mean, or the greatest of each number."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.masks import Mask, padding
from regard.attention.memory import Memory
from regard.attention.scores import TanhDot
from regard.shapes import Float, Lengths, States

SummaryName = Literal["attention", "average", "maximum"]


class Summary(nn.Module, ABC):
    """States of padded sequences to one vector each; zeros for a sequence of length 0."""

    @abstractmethod
    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """States `(batch, position, width)` with each sequence's `lengths (batch,)`."""


class Attention(Summary):
    """What a learned query u reads of the states h (Yang 2016, equations 5 to 7 and 8 to 10):

        u_i = tanh(W h_i + b),  a = softmax(u_i . u),  s = sum a_i h_i

    The paper draws u at random and does not say how; here it is normal, its numbers of variance 1 / `hidden`.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(hidden) * hidden**-0.5)
        self.attend = Attend(TanhDot(width, hidden))

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        query = self.query.expand(len(states), 1, -1)
        return self.attend(query, Memory.of(states, lengths))[:, 0]


class Average(Summary):
    """Their mean."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        memory = Memory.of(states, lengths)
        return mean(memory.value, padding(lengths, states.shape[1]), lengths)


class Maximum(Summary):
    """The greatest that each number is at any position."""

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        outside = ~padding(lengths, states.shape[1]).readable()
        empty = (lengths == 0)[:, None]
        lowest = torch.finfo(states.dtype).min
        least = states.new_full((len(states), 1, states.shape[2]), lowest)  # so that there is something to choose from
        whole = torch.cat([states.masked_fill(outside[..., None], lowest), least], 1)
        return whole.amax(1).masked_fill(empty, 0.0)


def mean(states: States, mask: Mask, lengths: Lengths) -> Tensor:
    """Mean over the allowed positions: `(batch, width)`, zero where there is none."""
    allowed = mask.dense().mT.to(states.dtype)
    return (states * allowed).sum(1) / lengths.clamp(min=1)[:, None]


def make_summary(name: SummaryName, width: int, hidden: int) -> Summary:
    """The summary of a name, of states so wide; `hidden` is how wide what attention compares is."""
    return Attention(width, hidden) if name == "attention" else Average() if name == "average" else Maximum()
