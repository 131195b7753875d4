"""The breakdown of recorded weights: the scores and values of the calls of each module."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.observer import LookupRecord
from regard.attention.scores.protocol import Sides
from regard.maps.breakdown import ROUNDING, Breakdown, PlainScores, Sums, is_softmax


class Call(NamedTuple):
    """One lookup of a module: weights `(*batch, query, key)`, values `(*batch, key, value_width)` and the mask. `of` is
    the score's two sides, or the scores before the mask for a score without sides."""

    weights: Tensor
    value: Tensor
    mask: Mask | None
    of: Sides | Tensor

    @classmethod
    def of_record(cls, record: LookupRecord) -> "Call | None":
        """None if the module reported its weights only."""
        if record.scores is None or record.value is None:
            return None
        return cls(
            record.weights(None, None), record.value, record.mask, record.scores()
        )


def breakdown_of_calls(
    modules: Sequence[Sequence[Call]],
    weights: Float[np.ndarray, "_layer _head _target _source"],
) -> Breakdown | None:
    """The scores and values behind these weights of the batch's first row, from the calls of each module. None for
    weights that do not come from these calls (other modules, or norms), and where keys or values change between
    calls."""
    every = [_joined(calls) for calls in modules]
    found = [each for each in every if each is not None]
    if (
        not found
        or len(found) < len(every)
        or len({_shapes(each) for each in found}) > 1
    ):
        return None
    own = [each.weights for each in found]
    if (len(own), *own[0].shape) != weights.shape:
        return None
    if any(
        np.abs(one - other).max(initial=0.0) > ROUNDING
        for one, other in zip(own, weights, strict=True)
    ):
        return None
    allowed = np.any([each.allowed for each in found], axis=0)
    of, value = (
        _together([each.of for each in found]),
        np.stack([each.value for each in found]),
    )
    return Breakdown(of, value, allowed, is_softmax(of.scores(), allowed, weights))


class _Joined(NamedTuple):
    """All calls of one module for the batch's first row, queries in order: weights `(head, target, source)`, values
    `(head, source, value_width)`, allowed keys `(target, source)`, and the scores of one layer."""

    weights: np.ndarray
    value: np.ndarray
    allowed: np.ndarray
    of: Sums | PlainScores


def _joined(calls: Sequence[Call]) -> _Joined | None:
    last = calls[-1]
    values = (
        [_first(each.value, each) for each in calls]
        if last.weights.ndim in (3, 4)
        else []
    )
    of = _scores(calls) if values and _grow(values) else None
    if of is None:
        return None
    weights = _steps([_first(each.weights, each) for each in calls])
    allowed = _steps(
        [_first(_allowed(each), each).any(0, keepdim=True) for each in calls]
    )
    return _Joined(_array(weights), _array(values[-1]), _array(allowed[0]), of)


def _scores(calls: Sequence[Call]) -> Sums | PlainScores | None:
    """Scores of one module. None where keys change between calls, or where only some calls have sides."""
    sides = [(each.of, each) for each in calls if isinstance(each.of, Sides)]
    if not sides:
        scores_of_calls = [
            _first(each.of, each) for each in calls if isinstance(each.of, Tensor)
        ]
        return PlainScores(
            _array(
                _steps([each.where(each.isfinite(), 0.0) for each in scores_of_calls])
            )[None]
        )
    keys, last = [_first(side.key, call) for side, call in sides], sides[-1][0]
    if len(sides) < len(calls) or not _grow(keys):
        return None
    query = torch.cat([_first(side.query, call) for side, call in sides], -2)
    energy = (
        None
        if last.energy is None
        else _array(last.energy.expand(len(query), query.shape[-1]))[None]
    )
    return Sums(_array(query)[None], _array(keys[-1])[None], last.scale, energy)


def _together(every: Sequence[Sums | PlainScores]) -> Sums | PlainScores:
    """Join the scores of all layers."""
    arrays = {
        name: np.concatenate([each.arrays()[name] for each in every])
        for name in every[0].arrays()
    }
    return replace(every[0], **arrays)


def _shapes(joined: _Joined) -> tuple[object, ...]:
    """The shapes that modules must share to be joined."""
    scores = tuple((name, each.shape) for name, each in joined.of.arrays().items())
    return joined.weights.shape, joined.value.shape, joined.of.scale, scores


def _allowed(call: Call) -> Tensor:
    """`(*batch, query, key)` or broadcastable to it: keys that may be read and have a finite score."""
    allowed = (
        call.of.isfinite()
        if isinstance(call.of, Tensor)
        else torch.ones_like(call.weights, dtype=torch.bool)
    )
    return allowed if call.mask is None else allowed & call.mask.dense()


def _first(part: Tensor, call: Call) -> Tensor:
    """The batch's first row, `(head, ...)`. A part shared by all rows or heads is repeated."""
    found = part.detach().expand(*call.weights.shape[:-2], *part.shape[-2:])[0]
    return (
        found
        if found.ndim == 3
        else rearrange(found, "position width -> 1 position width")
    )


def _grow(steps: Sequence[Tensor]) -> bool:
    """Whether each step `(head, key, width)` begins with the keys of the step before it."""
    pairs = [(one, other[:, : one.shape[-2]]) for one, other in pairwise(steps)]
    return all(torch.equal(one, other) for one, other in pairs)


def _steps(parts: Sequence[Tensor]) -> Tensor:
    """Join the queries of all steps, `(head, query, key)`. Keys that an early step did not have are 0 there."""
    keys = max(each.shape[-1] for each in parts)
    return torch.cat(
        [nn.functional.pad(each, (0, keys - each.shape[-1])) for each in parts], -2
    )


def _array(tensor: Tensor) -> np.ndarray:
    """Convert to numpy, floats in single precision at least."""
    wide = (
        torch.promote_types(tensor.dtype, torch.float32)
        if tensor.is_floating_point()
        else tensor.dtype
    )
    return tensor.detach().to("cpu", wide).numpy()
