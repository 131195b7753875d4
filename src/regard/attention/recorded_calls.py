"""The scores and values behind recorded weights, joined over the steps of a decode."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.attention.masks import Mask
from regard.attention.scores import Sides
from regard.maps.breakdown import (
    ROUNDING,
    Breakdown,
    PlainScores,
    ScoreFactors,
    is_softmax,
)
from regard.shapes import to_float32


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
    padded = []
    for step in steps:
        missing = keys - step.shape[-1]
        padded.append(functional.pad(step, (0, missing), value=fill))
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
        parts = [layer.scores.arrays()[name] for layer in layers]
        arrays[name] = np.concatenate(parts)
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
    plain = []
    queries = []
    keys = []
    sides = None
    for call in calls:
        if isinstance(call.scores, Sides):
            sides = call.scores
            queries.append(call.first_row(sides.query))
            keys.append(call.first_row(sides.key))
        else:
            scores = call.first_row(call.scores)
            plain.append(scores.where(scores.isfinite(), 0.0))
    if sides is None:
        scores = _to_numpy(concat_steps("", plain, 0))
        return PlainScores(scores[None])
    if plain or not _is_growing(keys):
        return None
    query = torch.cat(queries, -2)
    energy = sides.energy
    if energy is not None:
        energy = energy.expand(len(query), query.shape[-1])
        energy = _to_numpy(energy)[None]
    key = _to_numpy(keys[-1])[None]
    query = _to_numpy(query)[None]
    return ScoreFactors(query, key, sides.scale, energy)


def _is_growing(steps: Sequence[Tensor]) -> bool:
    """Return whether each step `(head, key, width)` begins with the step before it."""
    starts = [step[:, : before.shape[-2]] for before, step in pairwise(steps)]
    return all(map(torch.equal, steps, starts))


def _to_numpy(tensor: Tensor) -> np.ndarray:
    """Convert to NumPy, floats in single precision at least."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        tensor = to_float32(tensor)
    return tensor.numpy()
