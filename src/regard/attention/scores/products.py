"""Scores that are products of a query side and a key side."""

import torch
from torch import Tensor, nn

from regard.attention.scores.protocol import Product, Sides, weight
from regard.shapes import Key, Query, wide


class Dot(Product):
    """q . k (Luong 2015, equation 8)."""

    shares_keys = True

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query, key)


class ScaledDot(Product):
    """q . k / sqrt(d), where d is the width of the keys of one head (Vaswani 2017, equation 1), or q . k times another
    `scale`."""

    shares_keys = True

    def __init__(self, scale: float | None = None):
        super().__init__()
        self.scale = scale

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(
            query,
            key,
            scale=max(query.shape[-1], 1) ** -0.5 if self.scale is None else self.scale,
        )


class General(Product):
    """q^T W k (Luong 2015, equation 8)."""

    shares_keys = True

    def __init__(self, query_width: int, key_width: int, *, heads: int | None = None):
        super().__init__()
        self.query_width, self.key_width, self.heads = query_width, key_width, heads
        self.weight = weight(heads, query_width, key_width)

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query @ self.weight, key)


class TanhDot(Product):
    """q . tanh(W k + b) (Yang 2016, equations 5 and 6); `width` is the width of the queries."""

    def __init__(self, key_width: int, width: int, *, heads: int | None = None):
        super().__init__()
        self.query_width, self.key_width, self.heads = width, key_width, heads
        self.weight = weight(heads, key_width, width)
        self.bias = nn.Parameter(
            torch.zeros(*(() if heads is None else (heads,)), width)
        )

    def prepare(self, key: Key) -> Tensor:
        return torch.tanh(key @ self.weight + self.bias.unsqueeze(-2))

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query, key)


class Distance(Product):
    """-|q - k|^2 / (2 h^2), h = `width`: under softmax a Gaussian kernel around the query (Nadaraya 1964, Watson 1964).

    It is computed as the product of [q / h^2, -|q|^2 / 2h^2, 1] and [k, 1, -|k|^2 / 2h^2]. This loses digits if queries
    and keys lie much farther from zero than from each other: centre them first. In half precision the sides and their
    product are float32.
    """

    shares_keys = True

    def __init__(self, width: float = 1.0):
        super().__init__()
        if not width > 0:
            raise ValueError(f"width is {width}; it must be above 0")
        self.width = width

    def prepare(self, key: Key) -> Tensor:
        key = wide(key)
        square = key.square().sum(-1, keepdim=True) / (2 * self.width**2)
        return torch.cat([key, torch.ones_like(square), -square], -1)

    def sides(self, query: Query, key: Key) -> Sides:
        query = wide(query)
        square = query.square().sum(-1, keepdim=True) / (2 * self.width**2)
        return Sides(
            torch.cat([query / self.width**2, -square, torch.ones_like(square)], -1),
            key,
            exact=True,
        )
