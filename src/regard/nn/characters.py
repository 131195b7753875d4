"""Word vectors from characters."""

from collections.abc import Sequence

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.shapes import Float, Int


class Highway(nn.Module):
    """g * relu(W_t x + b_t) + (1 - g) * x with g = sigmoid(W_g x + b_g) (Srivastava 2015, 1505.00387): `(*batch,
    width)` -> `(*batch, width)`. The initial bias of -2 lets most of x pass."""

    def __init__(self, width: int):
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        for linear in (self.transform, self.gate):
            nn.init.normal_(linear.weight, std=width**-0.5)
            nn.init.zeros_(linear.bias)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(
        self, states: Float[Tensor, "*batch width"]
    ) -> Float[Tensor, "*batch width"]:
        gate = self.gate(states).sigmoid()
        return gate * self.transform(states).relu() + (1 - gate) * states


def numbered(rows: Int[Tensor, "row column"], size: int) -> Int[Tensor, " row"]:
    """The place of each row among the distinct rows in their order, for ids below `size`. This is what
    `rows.unique(dim=0, return_inverse=True)` gives, whose comparisons are slow on a CPU."""
    bits = (size - 1).bit_length()
    found = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for part in rows.long().split(62 // bits, 1):
        shifts = bits * torch.arange(part.shape[1], device=rows.device).flip(0)
        packed = (part << shifts).sum(1).unique(return_inverse=True)[1]
        found = (found * len(rows) + packed).unique(return_inverse=True)[1]
    return found


class CharacterEncoder(nn.Module):
    """Convolutions over a word's characters, max-pooling over the word, an activation, highway layers and a projection
    (Kim 2016, 1508.06615; Jozefowicz 2016, 1602.02410).

    Args:
        alphabet: number of ids; id 0 is padding, with a zero vector.
        width: width of a character's vector.
        filters: pairs (kernel size in characters, number of filters).
        activation: activation after the pooling.
        highways: number of highway layers.
        projection: width of the output.
    """

    def __init__(
        self,
        alphabet: int,
        width: int,
        filters: Sequence[tuple[int, int]],
        activation: nn.Module,
        highways: int,
        projection: int,
    ):
        super().__init__()
        self.width = projection
        self.table = nn.Embedding(alphabet, width, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, count, size) for size, count in filters
        )
        self.activation = activation
        found = sum(count for _, count in filters)
        self.highways = nn.Sequential(*(Highway(found) for _ in range(highways)))
        self.projection = nn.Linear(found, projection)
        nn.init.uniform_(self.table.weight[1:].data, -1.0, 1.0)
        nn.init.normal_(self.projection.weight, std=found**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(
        self, characters: Int[Tensor, "*batch character"]
    ) -> Float[Tensor, "*batch width"]:
        """Words with the same number of characters, padded to at least the widest kernel. Equal words are encoded
        once."""
        rows = characters.flatten(0, -2)
        places = numbered(rows, self.table.num_embeddings)
        first = places.new_empty(int(places.max()) + 1).scatter_(
            0, places, torch.arange(len(rows)).to(places)
        )
        words = rows[first]
        embedded = rearrange(self.table(words), "n c w -> n w c")
        found = [
            self.activation(convolution(embedded).amax(-1))
            for convolution in self.convolutions
        ]
        vectors = self.projection(self.highways(torch.cat(found, -1)))
        return vectors[places].unflatten(0, characters.shape[:-1])


class NoCharacters(nn.Module):
    """In place of a character encoder: vectors of width 0."""

    def forward(
        self, characters: Int[Tensor, "*batch character"]
    ) -> Float[Tensor, "*batch width"]:
        return torch.zeros(*characters.shape[:-1], 0, device=characters.device)
