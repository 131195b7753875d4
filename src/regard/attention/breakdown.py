"""What weights are made of, while somebody asks: `with worked(model, names) as seen: model(...)`.

Recording is of many examples, and keeps weights alone; this is of the one that is looked at, so that each of its
lookups can be worked out. Nothing is kept on the modules.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.observer import Listening
from regard.attention.record import named
from regard.attention.scores import Sides
from regard.maps.breakdown import ROUNDING, Given, Sums, Workings, is_softmax


class Working(NamedTuple):
    """One call of a module: weights `(*batch, query, key)`, values `(*batch, key, value_width)`, the mask, and what the
    scores are sums over, or where there is nothing of that kind the scores themselves, before the mask."""

    weights: Tensor
    value: Tensor
    mask: Mask | None
    of: Sides | Tensor


class Worked:
    """What modules told, each time that they were called."""

    def __init__(self, names: dict[int, str]):
        self.names = names
        self.calls: dict[int, list[Working]] = {}

    def workings(self, weights: Float[np.ndarray, "_layer _head _target _source"]) -> Workings | None:
        """What these weights of the batch's first row are made of. None where they are not what was told: others were
        recorded, or measures of them, or other calls; and where each call reads other keys or values."""
        every = [_told(calls) for calls in self.calls.values()]
        found = [each for each in every if each is not None]
        if not found or len(found) < len(every) or len({_shapes(each) for each in found}) > 1:
            return None
        told = [each.weights for each in found]
        if (len(told), *told[0].shape) != weights.shape:
            return None
        if any(np.abs(one - other).max(initial=0.0) > ROUNDING for one, other in zip(told, weights, strict=True)):
            return None
        allowed = np.any([each.allowed for each in found], axis=0)
        of, value = _together([each.of for each in found]), np.stack([each.value for each in found])
        return Workings(of, value, allowed, is_softmax(of.scores(), allowed, weights))


_asking: Listening[Worked] = Listening("regard_asking")


@contextmanager
def worked(model: nn.Module, names: str | Sequence[str]) -> Iterator[Worked]:
    """Inside the block, what the weights of the modules of those names are made of, as `record` takes names. No fused
    kernel serves these then. Raises ValueError as `record`."""
    with _asking.by(Worked(named(model, names))) as kept:
        yield kept


def asking() -> bool:
    """Whether somebody asks what any weights are made of."""
    return _asking.now() is not None


def asked(module: nn.Module) -> bool:
    """Whether somebody asks what the weights of this module are made of."""
    kept = _asking.now()
    return kept is not None and id(module) in kept.names


def tell(module: nn.Module, working: Working) -> None:
    """Hand it to whoever asks for it."""
    kept = _asking.now()
    if kept is not None and id(module) in kept.names:
        kept.calls.setdefault(id(module), []).append(working)


class _Told(NamedTuple):
    """All calls of one module, of the batch's first row, later queries behind earlier ones: weights `(head, target,
    source)`, values `(head, source, value_width)`, what is allowed `(target, source)`, and scores of one layer."""

    weights: np.ndarray
    value: np.ndarray
    allowed: np.ndarray
    of: Sums | Given


def _told(calls: Sequence[Working]) -> _Told | None:
    last = calls[-1]
    values = [_first(each.value, each) for each in calls] if last.weights.ndim in (3, 4) else []
    of = _scores(calls) if values and _grow(values) else None
    if of is None:
        return None
    weights = _steps([_first(each.weights, each) for each in calls])
    allowed = _steps([_first(_allowed(each), each).any(0, keepdim=True) for each in calls])
    return _Told(_array(weights), _array(values[-1]), _array(allowed[0]), of)


def _scores(calls: Sequence[Working]) -> Sums | Given | None:
    """Of one module. None where keys change from call to call, or some calls have sides and others have none."""
    sides = [(each.of, each) for each in calls if isinstance(each.of, Sides)]
    if not sides:
        given = [_first(each.of, each) for each in calls if isinstance(each.of, Tensor)]
        return Given(_array(_steps([each.where(each.isfinite(), 0.0) for each in given]))[None])
    keys, last = [_first(side.key, call) for side, call in sides], sides[-1][0]
    if len(sides) < len(calls) or not _grow(keys):
        return None
    query = torch.cat([_first(side.query, call) for side, call in sides], -2)
    energy = None if last.energy is None else _array(last.energy.expand(len(query), query.shape[-1]))[None]
    return Sums(_array(query)[None], _array(keys[-1])[None], last.scale, energy)


def _together(every: Sequence[Sums | Given]) -> Sums | Given:
    """Of all layers."""
    arrays = {name: np.concatenate([each.arrays()[name] for each in every]) for name in every[0].arrays()}
    return replace(every[0], **arrays)


def _shapes(told: _Told) -> tuple[object, ...]:
    """What is the same in all modules that are seen together."""
    scores = tuple((name, each.shape) for name, each in told.of.arrays().items())
    return told.weights.shape, told.value.shape, told.of.scale, scores


def _allowed(call: Working) -> Tensor:
    """`(*batch, query, key)`, an axis of one serving all: what may be read and has a score at all."""
    allowed = call.of.isfinite() if isinstance(call.of, Tensor) else torch.ones_like(call.weights, dtype=torch.bool)
    return allowed if call.mask is None else allowed & call.mask.dense()


def _first(part: Tensor, call: Working) -> Tensor:
    """Of the batch's first row `(head, ...)`; what serves all rows or heads is repeated."""
    found = part.detach().expand(*call.weights.shape[:-2], *part.shape[-2:])[0]
    return found if found.ndim == 3 else rearrange(found, "position width -> 1 position width")


def _grow(steps: Sequence[Tensor]) -> bool:
    """Whether each step `(head, key, width)` begins with what the step before it had."""
    pairs = [(one, other[:, : one.shape[-2]]) for one, other in pairwise(steps)]
    return all(torch.equal(one, other) for one, other in pairs)


def _steps(parts: Sequence[Tensor]) -> Tensor:
    """The queries of all steps `(head, query, key)`, those of keys that an early step had not yet being zero."""
    keys = max(each.shape[-1] for each in parts)
    return torch.cat([nn.functional.pad(each, (0, keys - each.shape[-1])) for each in parts], -2)


def _array(tensor: Tensor) -> np.ndarray:
    """In no less than single precision."""
    wide = torch.promote_types(tensor.dtype, torch.float32) if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", wide).numpy()
