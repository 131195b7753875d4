"""Reductions of attention weights: averages, rollout, entropy, the greatest weights.

A `Reduction` gets the weights of some queries at a time while they are recorded, so
that no tensor of all queries by all keys is needed. Its result has as many axes as the
weights.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError
from regard.maps.alignment import Matrix
from regard.shapes import Weights, to_float32

Numbers = Sequence[int] | None
"""The numbers of maps, layer x heads + head; None for all."""
ROLLOUT = "a rollout combines all layers and heads"
GRADIENT = "a gradient is of the whole model, not of a layer or head"
"""Why these leave no choice of maps."""
QUERIES_PER_GROUP, WEIGHTS_PER_GROUP = 256, 1 << 20
"""The most queries, and the most weights, that are reduced at a time."""


def refuse_maps(numbers: Numbers, reason: str) -> None:
    """Raise InputError with a reason if maps are chosen."""
    if numbers is not None:
        raise InputError(
            f"{reason}. Remove --layer, --head and --map (maps in Python)."
        )


def logarithm(weights: Weights) -> Weights:
    """Return the natural logarithm in float32 or wider, finite at 0."""
    weights = to_float32(weights)
    smallest = 1e-30 if weights.dtype.itemsize < 8 else 1e-300
    return weights.clamp(min=smallest).log()


def row_entropy(weights: Weights) -> Float[Tensor, "*batch query"]:
    """Return -sum_i a_ti log a_ti of each query, in nats. A weight of 0 adds 0."""
    terms = weights * logarithm(weights)
    return -terms.sum(-1).to(weights.dtype)


def entropy_bits(weights: Weights) -> Float[Tensor, "*batch query"]:
    """Return the entropy of each query in bits, of weights divided by their sum.

    H_t = -sum_s p_ts log2 p_ts: 0 for a single key, log2 S for S equal weights, NaN for
    a query without weight.
    """
    total = weights.sum(-1)
    has_weight = total > 0
    shares = weights / torch.where(has_weight, total, 1.0)[..., None]
    return torch.where(has_weight, row_entropy(shares) / math.log(2), torch.nan)


def mean_entropies(
    weights: Float[np.ndarray, "... target source"],
) -> Float[np.ndarray, "..."]:
    """Average `entropy_bits` over rows (Ghader & Monz 2017, 1710.03348, section 3.2).

    Rows without weight are left out; the result is NaN if no row has weight.
    """
    return entropy_bits(torch.tensor(weights)).nanmean(-1).numpy()


def average_heads(
    weights: Float[np.ndarray, "... head target source"],
) -> Float[np.ndarray, "... target source"]:
    """Average over heads. Rows that sum to 1 in every head sum to 1 in the mean.

    Raises:
        ValueError: There is no head.
    """
    if weights.shape[-3] == 0:
        raise ValueError(
            f"weights of shape {weights.shape} hold no head; expected at least 1"
        )
    return weights.mean(axis=-3)


def average_maps(
    weights: Float[np.ndarray, "map target source"], maps: Numbers
) -> Matrix:
    """Average the maps with these numbers, or all.

    Raises:
        InputError: There is no map of a number.
    """
    if maps is not None:
        weights = select_maps(weights, maps)
    return average_heads(weights)


def select_maps(
    weights: Float[np.ndarray, "map target source"], maps: Sequence[int]
) -> Float[np.ndarray, "selected target source"]:
    """Select the maps with these numbers.

    Raises:
        InputError: There is no map of a number.
    """
    count = len(weights)
    for number in maps:
        if not 0 <= number < count:
            raise InputError(
                f"map {number} is not there; the model has {count}, from 0 to {count - 1}"
            )
    return weights[list(maps)]


def shares(amounts: Float[np.ndarray, "... source"]) -> Float[np.ndarray, "... source"]:
    """Divide absolute values by the sum of their row. A row of zeros stays zero."""
    sizes = np.abs(amounts)
    total = sizes.sum(-1, keepdims=True)
    return np.divide(
        sizes,
        total,
        out=np.zeros_like(sizes),
        where=total > 0,
    )


def rollout(
    weights: Collection[Float[np.ndarray, "_head position position"]],
) -> Float[np.ndarray, "position position"]:
    """Compute the share of each input position in each last state.

    It is the product over the layers of half the weights, averaged over heads, and half
    the identity for the residual (Abnar 2020, 2005.00928, section 3). Rows that sum to
    1 in every layer sum to 1 in the result.

    Args:
        weights: The weights of each layer, in order.

    Raises:
        ValueError: There is no layer or head.
    """
    layers = [average_heads(layer) for layer in weights]
    if not layers:
        raise ValueError("weights hold no layer; expected at least 1")
    identity = np.eye(len(layers[0]))
    product = identity
    for layer in layers:
        mixing = (layer + identity) / 2
        product = mixing @ product
    return product


def patch_weights(
    weights: Float[np.ndarray, " position"], rows: int, columns: int
) -> Float[np.ndarray, "rows columns"]:
    """Return the weights of an image's patches, which are the last positions.

    They are divided by their sum unless it is 0.
    """
    first = len(weights) - rows * columns
    return shares(weights[first:]).reshape(rows, columns)


class Reduced(NamedTuple):
    """The reduced values of some queries, and for single weights their keys."""

    values: Tensor
    places: Tensor | None = None


def gather_groups(groups: Iterable[Reduced], queries: int) -> Reduced:
    """Join the reduced values of groups of queries along the query axis.

    The result is allocated with the first group. A small result of each group would lie
    between the large weights of two groups, and memory would grow with queries x keys:
    freed weights would leave no gap that is large enough.
    """
    results: list[Tensor] = []
    start = 0
    for group in groups:
        parts = [part for part in group if part is not None]
        if not results:
            for part in parts:
                shape = (*part.shape[:-2], queries, part.shape[-1])
                results.append(part.new_empty(shape))
        stop = start + parts[0].shape[-2]
        for result, part in zip(results, parts, strict=True):
            result[..., start:stop, :] = part
        start = stop
    return Reduced(*results)


class Reduction(ABC):
    """Reduces weights `(*batch, query, key)`.

    Attributes:
        keeps_keys: Whether the result's last axis is that of the keys.
    """

    keeps_keys: ClassVar[bool] = False

    @abstractmethod
    def of(self, weights: Weights) -> Reduced:
        """Reduce the weights of some queries."""

    def parts(self, queries: Sequence[int], width: int = 0) -> Iterable[Sequence[int]]:
        """Split queries into groups that are reduced together.

        Args:
            width: The number of weights of each; 0 if it is unknown.
        """
        size = min(QUERIES_PER_GROUP, max(1, WEIGHTS_PER_GROUP // max(1, width)))
        # one empty group if there are no queries
        count = max(1, len(queries))
        for start in range(0, count, size):
            yield queries[start : start + size]

    def append(self, values: list[Tensor], new: Tensor) -> list[Tensor]:
        """Append the values of further queries to those that are joined in the end."""
        values.append(new)
        return values


@dataclass(frozen=True)
class KeepAll(Reduction):
    """Keep the weights, `(*batch, query, key)`."""

    keeps_keys = True

    def of(self, weights: Weights) -> Reduced:
        """Return the weights."""
        return Reduced(weights)

    def parts(self, queries: Sequence[int], width: int = 0) -> Iterable[Sequence[int]]:
        """Return all queries as one group."""
        return [queries]


@dataclass(frozen=True)
class Greatest(Reduction):
    """Keep the greatest weights of each query in descending order, and their keys.

    The result is `(*batch, query, count)`, with fewer if there are fewer keys.

    Attributes:
        count: Weights per query. Default: the arg-max.

    Raises:
        InputError: The count is below 1.
    """

    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(
                f"the number of weights per query is {self.count}; expected 1 or more"
            )

    def of(self, weights: Weights) -> Reduced:
        """Return the greatest weights and their keys."""
        values, keys = weights.topk(min(self.count, weights.shape[-1]), -1)
        return Reduced(values, keys)


@dataclass(frozen=True)
class Entropy(Reduction):
    """Keep each query's `entropy_bits`, `(*batch, query, 1)`."""

    def of(self, weights: Weights) -> Reduced:
        """Return the entropies."""
        return Reduced(entropy_bits(to_float32(weights))[..., None])


@dataclass(frozen=True)
class Totals(Reduction):
    """Keep the total weight of each key over all queries, `(*batch, 1, key)`."""

    keeps_keys = True

    def of(self, weights: Weights) -> Reduced:
        """Return the totals."""
        return Reduced(to_float32(weights).sum(-2, keepdim=True))

    def append(self, values: list[Tensor], new: Tensor) -> list[Tensor]:
        """Add the totals of further queries."""
        # the totals of another batch are not added; joining them raises an error
        if values and values[-1].shape[:-2] == new.shape[:-2]:
            longer = values.pop()
            shorter = new
            if shorter.shape[-1] > longer.shape[-1]:
                longer, shorter = shorter, longer
            padding = longer.shape[-1] - shorter.shape[-1]
            new = longer + functional.pad(shorter, (0, padding))
        values.append(new)
        return values
