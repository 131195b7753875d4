"""Scores: how well each key matches a query.

A score has a key side, prepared once per memory, and a query side:

    scores = score(query, score.prepare(key))        (*batch, query, key)

With `heads`, a score with parameters holds one set per head and expects a head axis
before (position, width).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.cpu import additive
from regard.shapes import (
    Features,
    Key,
    Query,
    Scores,
    to_float32,
)

Indices = Sequence[int] | None
"""Indices of heads or rows; None for all."""
Select = Callable[[Indices, Indices], Tensor]
"""Heads and queries -> numbers of their pairs, `(*batch, [head,] query, key)`."""


def make_weight(heads: int | None, rows: int, columns: int) -> nn.Parameter:
    """Return a matrix `([heads,] rows, columns)` for `x @ weight`.

    Its numbers are uniform within +-1/sqrt(rows).
    """
    shape = (rows, columns) if heads is None else (heads, rows, columns)
    bound = max(rows, 1) ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def group_size(query: Tensor, key: Tensor) -> int:
    """Return how many heads of `query` share each head of `key`.

    Both are `(*batch, head, position, width)`; without a head axis it is 1.
    """
    if min(query.ndim, key.ndim) < 3:
        return 1
    return query.shape[-3] // max(key.shape[-3], 1) or 1


def multiply_groups(grouped: Tensor, right: Tensor) -> Tensor:
    """Multiply `(*batch, head, row, inner)` by `(*batch, group, inner, column)`.

    Where several heads share a group they are rows of one product, so that `right` is
    not repeated.
    """
    size = group_size(grouped, right)
    if size == 1:
        return grouped @ right
    rows = grouped.unflatten(-3, (right.shape[-3], size)).flatten(-3, -2)
    return (rows @ right).unflatten(-2, (size, grouped.shape[-2])).flatten(-4, -3)


def expand_groups(tensor: Tensor, heads: Indices, size: int) -> Tensor:
    """Repeat groups `(*batch, group, row, column)`, each shared by `size` heads."""
    if size == 1:
        return index_rows(tensor, heads, None)
    if heads is None:
        return tensor.repeat_interleave(size, -3)
    return index_rows(tensor, [head // size for head in heads], None)


def index_rows(tensor: Tensor, heads: Indices, rows: Indices) -> Tensor:
    """Index heads and rows of `(*batch, [head,] row, column)`; None selects all."""
    if heads is not None:
        tensor = tensor[..., list(heads), :, :]
    if rows is not None:
        tensor = tensor[..., list(rows), :]
    return tensor


def index_broadcast(tensor: Tensor, heads: Indices, rows: Indices) -> Tensor:
    """Index heads and rows of a tensor in which an axis of size 1 or none serves all."""
    if tensor.ndim < 3 or tensor.shape[-3] == 1:
        heads = None
    if tensor.shape[-2] <= 1:
        rows = None
    return index_rows(tensor, heads, rows)


class Sides(NamedTuple):
    """The two sides of a score.

    The score is scale * sum_i q_i k_i; with an energy v it is sum_i v_i tanh(q_i +
    k_i).

    Attributes:
        query: `(*batch, query, width)`.
        key: `(*batch, key, width)`.
        scale: Factor of the products.
        energy: The vector v, `([head,] width)`.
        exact: Whether the product is computed in the dtype of the sides under autocast
            too.
    """

    query: Tensor
    key: Tensor
    scale: float = 1.0
    energy: Tensor | None = None
    exact: bool = False

    def scores(self) -> Scores:
        """Return the score of every pair, `(*batch, query, key)`.

        Products in float16 give float32: those of numbers above 256 would overflow.
        """
        query, key, scale, energy, exact = self
        if energy is not None:
            return additive(query, key, energy)
        if exact or query.dtype == torch.float16:
            with torch.autocast(query.device.type, enabled=False):
                return multiply_groups(to_float32(query) * scale, to_float32(key).mT)
        if scale != 1.0:
            query = query * scale
        return multiply_groups(query, key.mT)


class Score(nn.Module, ABC):
    """A score of every query against every key."""

    query_width: int | None = None
    """Width of the queries; None for the width of the keys (location scores: any)."""
    key_width: int | None = None
    heads: int | None = None
    """Number of heads for which it has weights of its own; None for any number."""
    depends_on_position = False
    """Whether a key's score depends on its position in the memory."""
    supports_shared_keys = False
    """Whether several heads of queries can share a head of keys that is not repeated:
    no head has key weights of its own."""

    @property
    def widths(self) -> tuple[int | None, int | None, None]:
        """Expected widths of queries, keys and values; None accepts any."""
        return self.query_width, self.key_width, None

    def prepare(self, key: Key) -> Tensor:
        """Compute the key side, once per memory: `(*batch, key, any width)`."""
        return key

    def sides(self, query: Query, key: Key) -> Sides | None:
        """Return both sides for prepared keys; None for a score without sides."""
        return None

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """Score queries against prepared keys."""


class Product(Score):
    """A score that is the product of its two sides."""

    @abstractmethod
    def sides(self, query: Query, key: Key) -> Sides: ...

    def forward(self, query: Query, key: Key) -> Scores:
        """Multiply the sides.

        Raises:
            ValueError: The sides differ in width.
        """
        sides = self.sides(query, key)
        if sides.query.shape[-1] != key.shape[-1]:
            raise ValueError(
                f"a product needs sides of one width; query {tuple(query.shape)} gives "
                f"{sides.query.shape[-1]}, key is {tuple(key.shape)}"
            )
        return sides.scores()


class TanhSum(Score):
    """A score that is an energy times the tanh of the sum of its two sides."""

    hidden_width: int | None = None
    """Width of the sum, which a history adds to; None if it is unknown."""

    @abstractmethod
    def sides(self, query: Query, key: Key) -> Sides: ...

    def forward(self, query: Query, key: Key) -> Scores:
        return self.sides(query, key).scores()


def is_unmodified(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether calling the module runs exactly the `forward` of `kind`.

    It does not if a subclass has a `forward` of its own or the module has hooks.
    """
    if not isinstance(module, kind):
        return False
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    return getattr(module.forward, "__func__", None) is kind.forward


class Dot(Product):
    """q . k (Luong 2015, equation 8)."""

    supports_shared_keys = True

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query, key)


class ScaledDot(Product):
    """q . k / sqrt(d), where d is the width of a head (Vaswani 2017, equation 1).

    Args:
        scale: Another factor than 1 / sqrt(d).
    """

    supports_shared_keys = True

    def __init__(self, scale: float | None = None):
        super().__init__()
        self.scale = scale

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query, key, self.scale or max(query.shape[-1], 1) ** -0.5)


class General(Product):
    """q^T W k (Luong 2015, equation 8)."""

    supports_shared_keys = True

    def __init__(self, query_width: int, key_width: int, *, heads: int | None = None):
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.heads = heads
        self.weight = make_weight(heads, query_width, key_width)

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query @ self.weight, key)


class TanhDot(Product):
    """q . tanh(W k + b) (Yang 2016, equations 5 and 6).

    Args:
        key_width: Width of the keys.
        width: Width of the queries.
        heads: Number of heads, each with its own weights.
    """

    def __init__(self, key_width: int, width: int, *, heads: int | None = None):
        super().__init__()
        self.query_width = width
        self.key_width = key_width
        self.heads = heads
        self.weight = make_weight(heads, key_width, width)
        shape = (width,) if heads is None else (heads, width)
        self.bias = nn.Parameter(torch.zeros(shape))

    def prepare(self, key: Key) -> Tensor:
        return torch.tanh(key @ self.weight + self.bias.unsqueeze(-2))

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query, key)


class Distance(Product):
    """-|q - k|^2 / (2 h^2): under softmax a Gaussian kernel (Nadaraya, Watson 1964).

    It is the product of [q / h^2, -|q|^2 / 2h^2, 1] and [k, 1, -|k|^2 / 2h^2]. This
    loses digits if queries and keys lie much farther from zero than from each other:
    center them first. In half precision the sides and their product are float32.

    Args:
        width: h, the width of the kernel.
    """

    supports_shared_keys = True

    def __init__(self, width: float = 1.0):
        super().__init__()
        if not width > 0:
            raise ValueError(f"width is {width}; it must be above 0")
        self.width = width

    def prepare(self, key: Key) -> Tensor:
        key = to_float32(key)
        square = key.square().sum(-1, keepdim=True) / (2 * self.width**2)
        return torch.cat([key, torch.ones_like(square), -square], -1)

    def sides(self, query: Query, key: Key) -> Sides:
        query = to_float32(query)
        square = query.square().sum(-1, keepdim=True) / (2 * self.width**2)
        parts = [query / self.width**2, -square, torch.ones_like(square)]
        return Sides(torch.cat(parts, -1), key, exact=True)


class LearnedSharpness(nn.Module):
    """One learned positive number: `(*batch, query, width)` -> `()`."""

    def __init__(self, initial: float = 1.0):
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(math.log(initial)))

    def forward(self, query: Query) -> Tensor:
        return self.logarithm.exp()


class PredictedSharpness(nn.Module):
    """One positive number per query, `(*batch, query, 1)` (Graves 2014, section 3.3.1)."""

    def __init__(self, query_width: int):
        super().__init__()
        self.linear = nn.Linear(query_width, 1)

    def forward(self, query: Query) -> Tensor:
        return functional.softplus(self.linear(query))


class Cosine(Product):
    """beta cos(q, k) (Graves 2014, equation 5).

    A vector too short for `normalize_length` has cosine 0 with every vector.

    Args:
        sharpness: beta > 0, a number or a module that computes it from queries.
    """

    supports_shared_keys = True

    def __init__(self, sharpness: float | nn.Module = 1.0):
        super().__init__()
        if isinstance(sharpness, float | int) and not sharpness > 0:
            raise ValueError(f"sharpness is {sharpness}; it must be above 0")
        self.sharpness = sharpness

    def prepare(self, key: Key) -> Tensor:
        return normalize_length(key)

    def sides(self, query: Query, key: Key) -> Sides:
        sharpness = self.sharpness
        if isinstance(sharpness, nn.Module):
            sharpness = sharpness(query)
        return Sides(normalize_length(query) * sharpness, key)


def normalize_length(
    vectors: Features,
) -> Features:
    """Divide each vector by its length, computed in float32.

    A vector shorter than 1e-8, in float16 than the smallest normal number, counts as
    zero: its result and its gradients of every order are 0.
    """
    shortest = max(1e-8, torch.finfo(vectors.dtype).smallest_normal)
    numbers = to_float32(vectors)
    short = numbers.detach().norm(dim=-1, keepdim=True) < shortest
    # where the root has no gradient
    length = numbers.masked_fill(short, 1.0).norm(dim=-1, keepdim=True)
    return (numbers / length.masked_fill(short, torch.inf)).to(vectors.dtype)


class Content(Product):
    """beta cos(k, M_i), where each query holds k and beta (Graves 2014, equations 5, 6).

    The first `key_width` numbers of a query give k, through a tanh; the next one gives
    beta, through a softplus. Later numbers are not used here. The paper does not bound
    k; the tanh gives it the range of the vectors that are written.
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        if query_width <= key_width:
            raise ValueError(
                f"queries of width {query_width} hold no key of width {key_width} and "
                "its sharpness"
            )
        self.query_width = query_width
        self.key_width = self.content_width = key_width

    def prepare(self, key: Key) -> Tensor:
        return normalize_length(key)

    def sides(self, query: Query, key: Key) -> Sides:
        width = self.content_width
        sharpness = functional.softplus(query[..., width, None])
        return Sides(normalize_length(query[..., :width].tanh()) * sharpness, key)


class Additive(TanhSum):
    """v^T tanh(W_q q + W_k k) (Bahdanau 2015, appendix A.1.2).

    Luong's concat score v^T tanh(W [q; k]) is the same function, with W = [W_q, W_k]
    (Luong 2015, equation 8). With `bias` it is v^T tanh(W_q q + W_k k + b) (See 2017,
    equation 1). With `normalized` v is g v / |v|, where the learned number g begins as
    1 / sqrt(width) (Raffel 2017, section 2.4).
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        width: int,
        *,
        heads: int | None = None,
        bias: bool = False,
        normalized: bool = False,
    ):
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.heads = heads
        self.hidden_width = width
        self.query_weight = make_weight(heads, query_width, width)
        self.key_weight = make_weight(heads, key_width, width)
        energy = make_weight(heads, width, 1).squeeze(-1)
        self.energy = nn.Parameter(energy.detach().clone())
        shape = (width,) if heads is None else (heads, 1, width)
        self.bias = nn.Parameter(torch.zeros(shape)) if bias else None
        gain = torch.full(energy.shape[:-1], width**-0.5).unsqueeze(-1)
        self.gain = nn.Parameter(gain) if normalized else None

    def prepare(self, key: Key) -> Tensor:
        prepared = key @ self.key_weight
        return prepared if self.bias is None else prepared + self.bias

    def sides(self, query: Query, key: Key) -> Sides:
        energy = self.energy
        if self.gain is not None:
            energy = self.gain * normalize_length(energy)
        return Sides(query @ self.query_weight, key, energy=energy)


class InverseDistance(Score):
    """-log(|q - k| + eps): under softmax, weights proportional to 1 / (|q - k| + eps)."""

    def __init__(self, eps: float = 1e-3):
        super().__init__()
        if not eps > 0:
            raise ValueError(f"eps is {eps}; it must be above 0")
        self.eps = eps

    def forward(self, query: Query, key: Key) -> Scores:
        difference = to_float32(query)[..., None, :] - to_float32(key)[..., None, :, :]
        square = difference.square().sum(-1)
        same = square == 0  # where the root has no gradient
        distance = square.masked_fill(same, 1.0).sqrt().masked_fill(same, 0.0)
        return -(distance + self.eps).log()


class Location(Score):
    """Row i of W q scores position i, whatever its key (Luong 2015, equation 9).

    A source shorter than `max_source` uses the first rows.

    Args:
        query_width: Width of the queries.
        max_source: Largest number of positions.
        ignore_tail: Whether further keys score minus infinity instead of raising.
        heads: Number of heads, each with its own weights.
    """

    depends_on_position = True

    def __init__(
        self,
        query_width: int,
        max_source: int,
        *,
        ignore_tail: bool = False,
        heads: int | None = None,
    ):
        super().__init__()
        self.query_width = query_width
        self.heads = heads
        self.max_source = max_source
        self.ignore_tail = ignore_tail
        self.weight = make_weight(heads, query_width, max_source)

    def forward(self, query: Query, key: Key) -> Scores:
        """Score positions.

        Raises:
            ValueError: There are more than `max_source` keys and no `ignore_tail`.
        """
        size = key.shape[-2]
        if size > self.max_source and not self.ignore_tail:
            raise ValueError(
                f"{size} source positions, but location scores were made for at most "
                f"{self.max_source}; raise max_source or set ignore_tail"
            )
        scores = query @ self.weight[..., :size]
        return functional.pad(scores, (0, size - scores.shape[-1]), value=-torch.inf)
