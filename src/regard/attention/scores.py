"""How well each key matches a query. Every score has a key side, prepared once a memory, and a query side.

    scores = score(query, score.prepare(key))        (*batch, query, key)

With `heads`, a score that has parameters holds one set a head and expects a head axis before (position, width).
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.additive import additive
from regard.kernels.product import scaled
from regard.shapes import Key, Query, Scores


def weight(heads: int | None, rows: int, columns: int) -> nn.Parameter:
    """A `([heads,] rows, columns)` matrix for `x @ weight`, uniform within +-1/sqrt(rows)."""
    shape = (rows, columns) if heads is None else (heads, rows, columns)
    return nn.Parameter(torch.empty(shape).uniform_(-(rows**-0.5), rows**-0.5))


class Sides(NamedTuple):
    """What a score sums over: scale * sum_i q_i k_i, or with an energy v `([head,] width)` scale * sum_i v_i tanh(q_i +
    k_i). query `(*batch, query, width)`, key `(*batch, key, width)`."""

    query: Tensor
    key: Tensor
    scale: float = 1.0
    energy: Tensor | None = None


class Score(nn.Module, ABC):
    """Scores of every query against every key."""

    query_width: int | None = None
    """Width of the queries it takes; None: any, equal to the keys' (or, for location, no key is looked at)."""
    key_width: int | None = None
    by_place = False
    """Whether it matters which of a memory's keys a key is: then scores of some keys are not those that all have."""
    is_tanh_sum = False
    """Whether the score is what `as_tanh_sum` gives, and may therefore run on a kernel of our own."""

    @property
    def widths(self) -> tuple[int | None, int | None, None]:
        """The widths of queries, keys and values it takes; None: any, for queries as for keys."""
        return self.query_width, self.key_width, None

    def prepare(self, key: Key) -> Tensor:
        """The key side, computed once a memory: what `forward` takes as `key`. `(*batch, key, any width)`."""
        return key

    def as_product(self, query: Query) -> Tensor | None:
        """`(*batch, query, width)` whose product with the prepared keys, times its `scale`, is the score; None if there
        is no such."""
        return None

    def scale(self, product: Tensor) -> float:
        """What that is multiplied by, of which a kernel spares one the pass over the queries."""
        return 1.0

    def as_tanh_sum(self, query: Query) -> tuple[Tensor, Tensor]:
        """A query side `(*batch, query, width)` and an energy `([head,] width)`: energy . tanh(query + key) with the
        prepared keys is the score. Raises TypeError unless `is_tanh_sum`."""
        raise TypeError(f"{type(self).__name__} is no tanh of a sum")

    def sides(self, query: Query, key: Key) -> Sides | None:
        """The sides that the score of prepared keys is a sum over, to be seen; None if there are no such."""
        if self.is_tanh_sum:
            summand, energy = self.as_tanh_sum(query)
            return Sides(summand, key, energy=energy)
        product = self.as_product(query)
        return None if product is None else Sides(product, key, self.scale(product))

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """Scores of queries against prepared keys."""


class Product(Score):
    """A score that is a product of its two sides, and may therefore run on PyTorch's fused attention."""

    @abstractmethod
    def as_product(self, query: Query) -> Tensor: ...

    def forward(self, query: Query, key: Key) -> Scores:
        product = self.as_product(query)
        if product.shape[-1] != key.shape[-1]:
            raise ValueError(
                f"a product needs equal widths; query {tuple(query.shape)} gives {product.shape[-1]}, "
                f"key is {tuple(key.shape)}"
            )
        return scaled(product, self.scale(product)) @ key.mT


class Dot(Product):
    """q . k (Luong 2015, equation 8)."""

    def as_product(self, query: Query) -> Tensor:
        return query


class ScaledDot(Product):
    """q . k / sqrt(d), d the width of the keys, of one head where there are heads (Vaswani 2017, equation 1)."""

    def as_product(self, query: Query) -> Tensor:
        return query

    def scale(self, product: Tensor) -> float:
        return product.shape[-1] ** -0.5


class General(Product):
    """q^T W k (Luong 2015, equation 8)."""

    def __init__(self, query_width: int, key_width: int, *, heads: int | None = None):
        super().__init__()
        self.query_width, self.key_width = query_width, key_width
        self.weight = weight(heads, query_width, key_width)

    def as_product(self, query: Query) -> Tensor:
        return query @ self.weight


class TanhDot(Product):
    """q . tanh(W k + b) (Yang 2016, equations 5 and 6), the query `width` wide."""

    def __init__(self, key_width: int, width: int, *, heads: int | None = None):
        super().__init__()
        self.query_width, self.key_width = width, key_width
        self.weight = weight(heads, key_width, width)
        self.bias = nn.Parameter(torch.zeros(*(() if heads is None else (heads,)), width))

    def prepare(self, key: Key) -> Tensor:
        return torch.tanh(key @ self.weight + self.bias.unsqueeze(-2))

    def as_product(self, query: Query) -> Tensor:
        return query


class Additive(Score):
    """v^T tanh(W_q q + W_k k) (Bahdanau 2015, appendix A.1.2).

    Luong's concat score v^T tanh(W [q; k]) is the same function, with W = [W_q, W_k] (Luong 2015, equation 8). With
    `bias` it is v^T tanh(W_q q + W_k k + b) (See 2017, equation 1).
    """

    is_tanh_sum = True

    def __init__(self, query_width: int, key_width: int, width: int, *, heads: int | None = None, bias: bool = False):
        super().__init__()
        self.query_width, self.key_width = query_width, key_width
        self.query_weight = weight(heads, query_width, width)
        self.key_weight = weight(heads, key_width, width)
        energy = weight(heads, width, 1).squeeze(-1)
        self.energy = nn.Parameter(energy.detach().clone())
        self.bias = nn.Parameter(torch.zeros(*(() if heads is None else (heads, 1)), width)) if bias else None

    def prepare(self, key: Key) -> Tensor:
        prepared = key @ self.key_weight
        return prepared if self.bias is None else prepared + self.bias

    def as_tanh_sum(self, query: Query) -> tuple[Tensor, Tensor]:
        return query @ self.query_weight, self.energy

    def forward(self, query: Query, key: Key) -> Scores:
        summand, energy = self.as_tanh_sum(query)
        return additive(summand, key, energy)


class LearnedSharpness(nn.Module):
    """One positive number, learned: exp of a free parameter. `(*batch, query, width)` -> `()`."""

    def __init__(self, initial: float = 1.0):
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(math.log(initial)))

    def forward(self, query: Query) -> Tensor:
        return self.logarithm.exp()


class PredictedSharpness(nn.Module):
    """A positive number a query: softplus of a linear map (Graves 2014, section 3.3.1). -> `(*batch, query, 1)`."""

    def __init__(self, query_width: int):
        super().__init__()
        self.linear = nn.Linear(query_width, 1)

    def forward(self, query: Query) -> Tensor:
        return functional.softplus(self.linear(query))


class Cosine(Product):
    """beta cos(q, k) (Graves 2014, equation 5), beta > 0 a number, or a module from queries to it.

    A zero vector has cosine 0 with everything.
    """

    def __init__(self, sharpness: float | nn.Module = 1.0):
        super().__init__()
        if isinstance(sharpness, float | int) and not sharpness > 0:
            raise ValueError(f"sharpness is {sharpness}; it must be above 0")
        self.sharpness = sharpness

    def prepare(self, key: Key) -> Tensor:
        return functional.normalize(key, dim=-1)

    def as_product(self, query: Query) -> Tensor:
        sharpness = self.sharpness(query) if isinstance(self.sharpness, nn.Module) else self.sharpness
        return functional.normalize(query, dim=-1) * sharpness


class Content(Product):
    """beta cos(k, M_i), where the query says both: its first `key_width` numbers are k, through a tanh, the next one is
    beta, through a softplus (Graves 2014, equations 5 and 6). Whatever stands behind them is for others.

    The paper says of k no more than that the head emits it; through a tanh it is like what is written.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        if query_width <= key_width:
            raise ValueError(f"queries of width {query_width} hold no key of width {key_width} and its sharpness")
        self.query_width, self.key_width = query_width, key_width
        self.cosine = Cosine()

    def prepare(self, key: Key) -> Tensor:
        return self.cosine.prepare(key)

    def as_product(self, query: Query) -> Tensor:
        assert self.key_width is not None
        content, sharpness = query[..., : self.key_width + 1].split([self.key_width, 1], -1)
        return self.cosine.as_product(content.tanh()) * functional.softplus(sharpness)


class Distance(Product):
    """-|q - k|^2 / (2 h^2): under softmax a Gaussian kernel of width h around the query (Nadaraya 1964, Watson 1964).

    Expanded, it is the product of [q / h^2, -|q|^2 / 2h^2, 1] and [k, 1, -|k|^2 / 2h^2], which loses digits where
    queries and keys lie much farther from zero than from each other: centre them first.
    """

    def __init__(self, width: float = 1.0):
        super().__init__()
        if not width > 0:
            raise ValueError(f"width is {width}; it must be above 0")
        self.width = width

    def prepare(self, key: Key) -> Tensor:
        square = key.square().sum(-1, keepdim=True) / (2 * self.width**2)
        return torch.cat([key, torch.ones_like(square), -square], -1)

    def as_product(self, query: Query) -> Tensor:
        square = query.square().sum(-1, keepdim=True) / (2 * self.width**2)
        return torch.cat([query / self.width**2, -square, torch.ones_like(square)], -1)


class InverseDistance(Score):
    """-log(|q - k| + eps): under softmax the weights are proportional to 1 / (|q - k| + eps)."""

    def __init__(self, eps: float = 1e-3):
        super().__init__()
        if not eps > 0:
            raise ValueError(f"eps is {eps}; it must be above 0")
        self.eps = eps

    def forward(self, query: Query, key: Key) -> Scores:
        distance = torch.linalg.vector_norm(query[..., :, None, :] - key[..., None, :, :], dim=-1)
        return -(distance + self.eps).log()


class Location(Score):
    """Row i of W q scores position i, whatever its key (Luong 2015, equation 9), over at most `max_source` positions.

    A shorter source uses the first rows.
    """

    by_place = True

    def __init__(self, query_width: int, max_source: int, *, ignore_tail: bool = False, heads: int | None = None):
        super().__init__()
        self.query_width, self.max_source, self.ignore_tail = query_width, max_source, ignore_tail
        self.weight = weight(heads, query_width, max_source)

    def forward(self, query: Query, key: Key) -> Scores:
        """Raises ValueError for more than `max_source` keys; with `ignore_tail` those score minus infinity instead."""
        size = key.shape[-2]
        if size > self.max_source and not self.ignore_tail:
            raise ValueError(
                f"{size} source positions, but location scores were made for at most {self.max_source}; "
                "raise max_source or set ignore_tail"
            )
        scores = query @ self.weight[..., :size]
        return functional.pad(scores, (0, size - scores.shape[-1]), value=-torch.inf)
