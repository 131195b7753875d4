"""Scores by the angle between query and key."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.scores.protocol import Product, Sides
from regard.shapes import Float, Key, Query, wide


class LearnedSharpness(nn.Module):
    """One learned positive number, exp of a free parameter: `(*batch, query, width)` -> `()`."""

    def __init__(self, initial: float = 1.0):
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(math.log(initial)))

    def forward(self, query: Query) -> Tensor:
        return self.logarithm.exp()


class PredictedSharpness(nn.Module):
    """One positive number per query, softplus of a linear map (Graves 2014, section 3.3.1): `(*batch, query, 1)`."""

    def __init__(self, query_width: int):
        super().__init__()
        self.linear = nn.Linear(query_width, 1)

    def forward(self, query: Query) -> Tensor:
        return functional.softplus(self.linear(query))


class Cosine(Product):
    """beta cos(q, k) (Graves 2014, equation 5). `sharpness` is beta > 0, a number or a module that computes it from
    queries.

    A zero vector, or one shorter than `unit` measures, has cosine 0 with every vector.
    """

    shares_keys = True

    def __init__(self, sharpness: float | nn.Module = 1.0):
        super().__init__()
        if isinstance(sharpness, float | int) and not sharpness > 0:
            raise ValueError(f"sharpness is {sharpness}; it must be above 0")
        self.sharpness = sharpness

    def prepare(self, key: Key) -> Tensor:
        return unit(key)

    def sides(self, query: Query, key: Key) -> Sides:
        sharpness = (
            self.sharpness(query)
            if isinstance(self.sharpness, nn.Module)
            else self.sharpness
        )
        return Sides(unit(query) * sharpness, key)


def unit(vectors: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
    """Divide each vector by its length, computed in float32. A vector shorter than 1e-8, in float16 than the smallest
    normal number, counts as zero: its result and its gradients of every order are 0."""
    shortest = max(1e-8, torch.finfo(vectors.dtype).smallest_normal)
    numbers = wide(vectors)
    short = torch.linalg.vector_norm(numbers.detach(), dim=-1, keepdim=True) < shortest
    length = torch.linalg.vector_norm(
        numbers.masked_fill(short, 1.0), dim=-1, keepdim=True
    )
    return (numbers / length.masked_fill(short, torch.inf)).to(vectors.dtype)


class Content(Product):
    """beta cos(k, M_i), where each query holds both k and beta (Graves 2014, equations 5 and 6). Its first `key_width`
    numbers give k, through a tanh; the next one gives beta, through a softplus. Later numbers are not used here.

    The paper does not bound k; the tanh gives it the range of the vectors that are written.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        if query_width <= key_width:
            raise ValueError(
                f"queries of width {query_width} hold no key of width {key_width} and its sharpness"
            )
        self.query_width, self.key_width = query_width, key_width
        self.cosine = Cosine()

    def prepare(self, key: Key) -> Tensor:
        return self.cosine.prepare(key)

    def sides(self, query: Query, key: Key) -> Sides:
        assert self.key_width is not None
        content, sharpness = query[..., : self.key_width + 1].split(
            [self.key_width, 1], -1
        )
        direction = self.cosine.sides(content.tanh(), key)
        return direction._replace(
            query=direction.query * functional.softplus(sharpness)
        )
