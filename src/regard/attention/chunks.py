"""The recorded lookups of one module: weights pass by pass, and scores and values.

A search drops recorded queries and reorders rows; `ModuleRecord` follows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.attention.masks import Mask
from regard.attention.observer import LookupEvent
from regard.attention.scores import Sides
from regard.maps.breakdown import (
    ROUNDING,
    Breakdown,
    PlainScores,
    ScoreFactors,
    is_softmax,
)
from regard.maps.reductions import Reduction
from regard.shapes import to_float32


@dataclass(frozen=True)
class Chunk:
    """Recorded weights of some queries of one pass.

    values: Reduced weights, `(batch, [head,] query, key)`.
    key_indices: The keys of single weights.
    rows: The queries' numbers over all passes; with one value for all of them if these
        are reduced.
    number: Number of the pass.
    """

    values: Tensor
    key_indices: Tensor | None
    rows: Sequence[int]
    number: int

    def select_batch(self, batch_rows: Tensor) -> "Chunk":
        """Select batch rows; a negative index gives an empty row (weights 0, keys -1)."""
        absent = (batch_rows < 0).view(-1, *[1] * (self.values.ndim - 1))
        indices = batch_rows.clamp(min=0)
        values = self.values[indices].masked_fill(absent, 0.0)
        keys = self.key_indices
        if keys is not None:
            keys = keys[indices].masked_fill(absent, -1)
        return replace(self, values=values, key_indices=keys)

    def drop_rows(self, first: int) -> "Chunk":
        """Drop the queries from number `first` on.

        Raises:
            ValueError: Queries are reduced to one value.
        """
        indices = [index for index, row in enumerate(self.rows) if row < first]
        if len(indices) == len(self.rows):
            return self
        if indices and self.values.shape[-2] != len(self.rows):
            raise ValueError(
                "totals over queries hold rejected tokens of a decode with drafts; "
                "record the weights instead"
            )
        keys = self.key_indices
        return replace(
            self,
            values=self.values[..., indices, :],
            key_indices=None if keys is None else keys[..., indices, :],
            rows=[self.rows[index] for index in indices],
        )

    def drop_keys(self, count: int) -> "Chunk":
        """Drop the last `count` keys unless a query reads one of them."""
        if self.key_indices is not None or self.values[..., -count:].any():
            return self
        return replace(self, values=self.values[..., :-count])


class ModuleRecord:
    """The chunks of one module, in the order of the queries.

    `queries` has the number of queries of each pass.
    """

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.queries: list[int] = []
        self.cached = False

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(self.queries)

    def add(self, chunk: Chunk, reduce: Reduction, *, separate: bool) -> None:
        """Add a chunk.

        Args:
            chunk: The chunk.
            reduce: The reduction, which may join it with the last one.
            separate: Whether to keep chunks of different passes apart all the same.
        """
        last = self.chunks[-1] if self.chunks else None
        if last is None or (separate and last.number != chunk.number):
            self.chunks.append(chunk)
            return
        values = reduce.append([last.values], chunk.values)
        if len(values) == 2:
            self.chunks.append(chunk)
        else:
            rows = [*last.rows, *chunk.rows]
            self.chunks[-1] = replace(chunk, values=values[0], rows=rows)

    def reorder(self, rows: Tensor) -> None:
        """Reorder the batch: row i becomes the former row `rows[i]`."""
        self.chunks = [chunk.select_batch(rows) for chunk in self.chunks]

    def reject(self, count: int) -> None:
        """Drop the last queries. Raises ValueError as `Chunk.drop_rows` does."""
        total = self.count
        chunks = []
        for chunk in self.chunks:
            shorter = chunk.drop_rows(total - count)
            if not shorter.rows and chunk.rows:
                continue
            if shorter.values.shape[-1] == total:
                shorter = shorter.drop_keys(count)
            chunks.append(shorter)
        self.chunks = chunks
        while count > 0 and self.queries:
            rejected = min(count, self.queries[-1])
            self.queries[-1] -= rejected
            count -= rejected

    def select(self, rows: Tensor, first: int) -> None:
        """From pass `first` on, keep row `rows[s, p]` of pass p for sequence s.

        Later passes than `rows` has are dropped.
        """
        end = first + rows.shape[1]
        chunks = []
        for chunk in self.chunks:
            if first <= chunk.number < end:
                batch_rows = rows[:, chunk.number - first].to(chunk.values.device)
                chunk = chunk.select_batch(batch_rows)
            if chunk.number < end:
                chunks.append(chunk)
        self.chunks = chunks
        self.queries = self.queries[:end]

    def weights(self, name: str, reduce: Reduction) -> Tensor:
        """Return the recorded weights of the module of this name, for messages."""
        values: list[Tensor] = []
        for chunk in self.chunks:
            values = reduce.append(values, chunk.values)
        return concat_steps(name, values, 0)

    def key_indices(self, name: str) -> Tensor:
        """Return the keys of single weights; -1 where a query had fewer keys."""
        keys = [chunk.key_indices for chunk in self.chunks]
        return concat_steps(name, [index for index in keys if index is not None], -1)


def concat_steps(name: str, steps: Sequence[Tensor], fill: int) -> Tensor:
    """Concatenate steps along the query axis; keys that a step lacks are `fill`.

    Raises:
        ValueError: The batch changed between steps.
    """
    if len({step.shape[:-2] for step in steps}) > 1:
        sizes = steps[0].shape[0], steps[-1].shape[0]
        raise ValueError(
            f"the batch of {name!r} changed between steps, from {sizes[0]} rows to "
            f"{sizes[1]}: record a pass over the finished sequences instead"
        )
    keys = max(step.shape[-1] for step in steps)
    padded = [
        functional.pad(step, (0, keys - step.shape[-1]), value=fill) for step in steps
    ]
    return torch.cat(padded, -2)


class RecordedCall(NamedTuple):
    """One lookup of a module with its scores and values.

    weights: `(*batch, query, key)`.
    value: `(*batch, key, value_width)`.
    mask: Mask over the keys.
    scores: The score's two sides, or the scores before the mask for a score without.
    """

    weights: Tensor
    value: Tensor
    mask: Mask | None
    scores: Sides | Tensor

    @classmethod
    def of_event(cls, event: LookupEvent) -> "RecordedCall | None":
        """Return the call of an event; None if the module reported weights only."""
        if event.scores is None or event.value is None:
            return None
        weights = event.weights(None, None)
        return cls(weights, event.value, event.mask, event.scores())

    def first_row(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the batch's first row, `(head, ...)`, repeated if shared."""
        shape = *self.weights.shape[:-2], *tensor.shape[-2:]
        row = tensor.detach().expand(shape)[0]
        return row if row.ndim == 3 else row[None]

    def find_allowed(self) -> Tensor:
        """Return which keys may be read and have a finite score, for any head."""
        allowed = torch.ones_like(self.weights, dtype=torch.bool)
        if isinstance(self.scores, Tensor):
            allowed = self.scores.isfinite()
        if self.mask is not None:
            allowed = allowed & self.mask.dense()
        return self.first_row(allowed).any(0, keepdim=True)


class _Layer(NamedTuple):
    """All calls of one module for the batch's first row, queries in order."""

    weights: Float[np.ndarray, "head target source"]
    value: Float[np.ndarray, "head source value_width"]
    allowed: np.ndarray
    scores: ScoreFactors | PlainScores

    def shapes(self) -> tuple[object, ...]:
        """Return the shapes that layers must share to be stacked."""
        arrays = self.scores.arrays()
        scores = [(name, array.shape) for name, array in arrays.items()]
        return self.weights.shape, self.value.shape, self.scores.scale, *scores


def breakdown_of_calls(
    modules: Sequence[Sequence[RecordedCall]],
    weights: Float[np.ndarray, "_layer _head _target _source"],
) -> Breakdown | None:
    """Return the scores and values behind the weights of the batch's first row.

    Args:
        modules: The calls of each module.
        weights: The weights.

    Returns:
        None for weights that do not come from these calls (other modules, or norms),
        and where keys or values change between calls.
    """
    layers = []
    for calls in modules:
        layer = _join_calls(calls)
        if layer is None:
            return None
        layers.append(layer)
    if not layers or len({layer.shapes() for layer in layers}) > 1:
        return None
    recorded = np.stack([layer.weights for layer in layers])
    if recorded.shape != weights.shape:
        return None
    if np.abs(recorded - weights).max(initial=0.0) > ROUNDING:
        return None
    allowed = np.any([layer.allowed for layer in layers], axis=0)
    arrays = {}
    for name in layers[0].scores.arrays():
        arrays[name] = np.concatenate([layer.scores.arrays()[name] for layer in layers])
    scores = replace(layers[0].scores, **arrays)
    value = np.stack([layer.value for layer in layers])
    softmax = is_softmax(scores.scores(), allowed, weights)
    return Breakdown(scores, value, allowed, softmax)


def _join_calls(calls: Sequence[RecordedCall]) -> _Layer | None:
    if calls[-1].weights.ndim not in (3, 4):
        return None
    values = [call.first_row(call.value) for call in calls]
    if not _is_growing(values):
        return None
    scores = _join_scores(calls)
    if scores is None:
        return None
    weights = [call.first_row(call.weights) for call in calls]
    allowed = [call.find_allowed() for call in calls]
    return _Layer(
        _to_numpy(concat_steps("", weights, 0)),
        _to_numpy(values[-1]),
        _to_numpy(concat_steps("", allowed, 0)[0]),
        scores,
    )


def _join_scores(calls: Sequence[RecordedCall]) -> ScoreFactors | PlainScores | None:
    """Return the scores of one module.

    None where keys change between calls, or where only some calls have sides.
    """
    plain, queries, keys, sides = [], [], [], None
    for call in calls:
        if isinstance(call.scores, Sides):
            sides = call.scores
            queries.append(call.first_row(sides.query))
            keys.append(call.first_row(sides.key))
        else:
            scores = call.first_row(call.scores)
            plain.append(scores.where(scores.isfinite(), 0.0))
    if sides is None:
        return PlainScores(_to_numpy(concat_steps("", plain, 0))[None])
    if plain or not _is_growing(keys):
        return None
    query, energy = torch.cat(queries, -2), sides.energy
    if energy is not None:
        energy = _to_numpy(energy.expand(len(query), query.shape[-1]))[None]
    key = _to_numpy(keys[-1])[None]
    return ScoreFactors(_to_numpy(query)[None], key, sides.scale, energy)


def _is_growing(steps: Sequence[Tensor]) -> bool:
    """Return whether each step `(head, key, width)` begins with the step before it."""
    starts = [step[:, : before.shape[-2]] for before, step in pairwise(steps)]
    return all(map(torch.equal, steps, starts))


def _to_numpy(tensor: Tensor) -> np.ndarray:
    """Convert to NumPy, floats in single precision at least."""
    tensor = tensor.detach().cpu()
    return (to_float32(tensor) if tensor.is_floating_point() else tensor).numpy()
