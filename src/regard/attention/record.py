"""Record attention weights: `with record(model) as maps: model(...)`.

Then `maps["decoder.layers.0.cross_attention"]` is a tensor. Nothing is stored on the
modules.
"""

import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.observer import (
    LookupEvent,
    Observer,
    observe_with,
    report_event,
    select_from,
)
from regard.attention.scores import Indices, Sides
from regard.attention.torch_modules import patch_torch
from regard.attention.transformers import patch_models, refuse_closed
from regard.maps.lookups import (
    ROUNDING,
    Breakdown,
    Lookups,
    is_softmax,
)
from regard.maps.reductions import KeepAll, Reduced, Reduction, gather_groups
from regard.shapes import to_float32


def concat_steps(name: str, steps: Sequence[Tensor], fill: int) -> Tensor:
    """Concatenate steps along the query axis; keys that a step lacks are `fill`.

    Raises:
        ValueError: The batch changed between steps.
    """
    if len({step.shape[:-2] for step in steps}) > 1:
        raise ValueError(
            f"the batch of {name!r} changed between steps; record a pass over the "
            "finished sequences instead"
        )
    keys = max(step.shape[-1] for step in steps)
    padded = [
        functional.pad(step, (0, keys - step.shape[-1]), value=fill) for step in steps
    ]
    return torch.cat(padded, -2)


class RecordedCall(NamedTuple):
    """One lookup of the batch's first row with its scores and values.

    Attributes:
        weights: `(head, query, key)`.
        value: `(head, key, value_width)`.
        allowed: `(1, query, key)`, True where a key may be read and has a finite score.
        scores: The score's two sides, or the scores before the mask for a score
            without sides.
    """

    weights: Tensor
    value: Tensor
    allowed: Tensor
    scores: Sides | Tensor

    @classmethod
    def of(
        cls, event: LookupEvent, value: Tensor, scores: Sides | Tensor
    ) -> "RecordedCall":
        """Return the first row of a lookup; what its heads share is repeated."""
        weights = event.weights(None, None)

        def select(tensor: Tensor) -> Tensor:
            shape = *weights.shape[:-2], *tensor.shape[-2:]
            row = tensor.detach().expand(shape)[0]
            return row if row.ndim == 3 else row[None]

        allowed = torch.ones_like(weights, dtype=torch.bool)
        if isinstance(scores, Tensor):
            allowed = scores.isfinite()
            scores = select(scores.where(allowed, 0.0))
        else:
            sides = select(scores.query), select(scores.key)
            scores = Sides(*sides, scores.scale, scores.energy)
        if event.mask is not None:
            allowed = allowed & event.mask.dense()
        is_allowed = select(allowed).any(0, keepdim=True)
        return cls(select(weights), select(value), is_allowed, scores)


class _Layer(NamedTuple):
    """All calls of one module for the batch's first row, queries in order.

    Attributes:
        weights: `(head, query, key)`.
        allowed: `(query, key)`, True where a key may be read and has a finite score.
    """

    weights: np.ndarray
    allowed: np.ndarray
    breakdown: Breakdown


def breakdown_of_calls(
    modules: Sequence[Sequence[RecordedCall]],
    weights: Float[np.ndarray, "_layer _head _target _source"],
) -> Breakdown | None:
    """Return the scores and values behind the weights of the batch's first row.

    Args:
        modules: The calls of each module.

    Returns:
        None for weights that do not come from these calls (other modules, or norms),
        and where keys or values change between calls.
    """
    layers = [layer for layer in map(_join_calls, modules) if layer is not None]
    if not layers or len(layers) < len(modules):
        return None
    forms = set()
    for layer in layers:
        arrays = layer.breakdown.arrays()
        shapes = [(name, array.shape) for name, array in arrays.items()]
        forms.add((layer.weights.shape, layer.breakdown.scale, *shapes))
    if len(forms) > 1 or (len(layers), *layers[0].weights.shape) != weights.shape:
        return None
    recorded = np.stack([layer.weights for layer in layers])
    if np.abs(recorded - weights).max(initial=0.0) > ROUNDING:
        return None
    allowed = np.any([layer.allowed for layer in layers], axis=0)
    arrays = {}
    for name in layers[0].breakdown.arrays():
        parts = [layer.breakdown.arrays()[name] for layer in layers]
        arrays[name] = np.concatenate(parts)
    breakdown = replace(layers[0].breakdown, **arrays, allowed=allowed)
    softmax = is_softmax(breakdown.scores(), allowed, weights)
    return replace(breakdown, softmax=softmax)


def _join_calls(calls: Sequence[RecordedCall]) -> _Layer | None:
    """Join the calls of a module.

    The result is None if keys or values change between calls, or if only some calls
    have sides.
    """
    weights, values, allowed, scores = zip(*calls, strict=True)
    if not _is_growing(values) or len({*map(type, scores)}) > 1:
        return None
    value = _to_numpy(values[-1])[None]
    last = scores[-1]
    if isinstance(last, Tensor):
        plain = _to_numpy(concat_steps("", scores, 0))[None]
        breakdown = Breakdown(value=value, plain=plain)
    else:
        queries, keys, *_ = zip(*scores, strict=True)
        if not _is_growing(keys):
            return None
        query = torch.cat(queries, -2)
        energy = last.energy
        if energy is not None:
            energy = _to_numpy(energy.expand(len(query), query.shape[-1]))[None]
        breakdown = Breakdown(
            value=value,
            query=_to_numpy(query)[None],
            key=_to_numpy(last.key)[None],
            energy=energy,
            scale=last.scale,
        )
    return _Layer(
        _to_numpy(concat_steps("", weights, 0)),
        _to_numpy(concat_steps("", allowed, 0)[0]),
        breakdown,
    )


def _is_growing(steps: Sequence[Tensor]) -> bool:
    """Return whether each step `(head, key, width)` begins with the step before it."""
    starts = [step[:, : before.shape[-2]] for before, step in pairwise(steps)]
    return all(map(torch.equal, steps, starts))


def _to_numpy(tensor: Tensor) -> np.ndarray:
    """Convert to NumPy, floats in single precision at least."""
    tensor = tensor.detach().cpu()
    return (to_float32(tensor) if tensor.is_floating_point() else tensor).numpy()


Measure = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A module, its weights `(*batch, query, key)` and its values `(*batch, key,
value_width)` -> the numbers to record in place of the weights, of the same shape."""
KEEP_ALL = KeepAll()


@dataclass(frozen=True)
class RecordOptions:
    """What to record of the weights.

    Attributes:
        heads: The heads; None for all.
        rows: The query positions; None for all.
        reduce: What to keep of their weights.
        measure: What to record in place of all weights.
        differentiable: Whether to keep the graph.
        breakdown: Whether to keep scores and values too.
    """

    heads: Indices = None
    rows: Indices = None
    reduce: Reduction = KEEP_ALL
    measure: Measure | None = None
    differentiable: bool = False
    breakdown: bool = False


class ReportsWeights:
    """A model of transformers, which reports its attention weights but no values."""

    @property
    @abstractmethod
    def token_table(self) -> Any:
        """The module that embeds tokens."""

    @property
    def skip_count(self) -> int:
        """Number of positions before the source, which maps leave out."""
        return 0


@dataclass
class ModuleRecord:
    """The recorded weights of one module, step by step.

    Attributes:
        count: Number of queries so far, recorded or not.
        values: Reduced weights, `(batch, [head,] query, key)`.
        key_indices: The keys of single weights.
    """

    count: int = 0
    values: list[Tensor] = field(default_factory=list)
    key_indices: list[Tensor] = field(default_factory=list)


class Maps(Mapping[str, Tensor], Observer):
    """Recorded weights by module name, `(batch, [head,] query, key)`.

    The steps of a decode are joined along the query axis; keys that an early step did
    not have are 0 there. Further calls of a module in one pass of a model of
    transformers are further layers, `name:1` and so on.
    """

    def __init__(self, names: dict[int, str], options: RecordOptions):
        self._names = names
        self.options = options
        self.draws: dict[str, list[Any]] = {}
        """Samples of each module in the order of the steps, for training."""
        self._records: dict[str, ModuleRecord] = {}
        self._calls: dict[str, list[RecordedCall]] = {}

    def observes(self, module: nn.Module) -> bool:
        return id(module) in self._names

    @property
    def needs_weights(self) -> bool:
        options = self.options
        is_partial = options.heads is not None or options.rows is not None
        keeps_all = not is_partial and options.reduce == KEEP_ALL
        return options.breakdown or options.measure is not None or keeps_all

    def receive(self, module: nn.Module, event: LookupEvent) -> None:
        """Record a lookup.

        Raises:
            ValueError: There is a measure, but the module's values are unknown.
        """
        name = self._names[id(module)]
        options = self.options
        if event.call:
            name = f"{name}:{event.call}"
        if event.draws:
            self.draws.setdefault(name, []).extend(event.draws)
        value = event.value
        is_empty = value is None or len(value) == 0  # nothing to break down
        if options.breakdown and event.scores is not None and not is_empty:
            call = RecordedCall.of(event, cast(Tensor, value), event.scores())
            self._calls.setdefault(name, []).append(call)
        if options.measure is not None:
            if value is None:
                raise ValueError(
                    f"module {name!r} reports weights without values; leave measure out"
                )
            weights = options.measure(module, event.weights(None, None), value)
            event = event._replace(weights=select_from(weights))
        record = self._records.setdefault(name, ModuleRecord())
        rows = list(range(event.queries))
        if options.rows is not None:
            rows = [row - record.count for row in options.rows]
            rows = [row for row in rows if 0 <= row < event.queries]
        record.count += event.queries
        all_rows = list(range(event.queries))

        def compute(group: Sequence[int]) -> Reduced:
            selected = None if group == all_rows else group
            return options.reduce.of(event.weights(options.heads, selected))

        groups = [*options.reduce.parts(rows, event.width)]
        results: Iterable[Reduced] = map(compute, groups)
        keep_apart = options.differentiable or options.reduce.keeps_keys
        if len(groups) != 1 and not keep_apart:
            results = [gather_groups(results, len(rows))]
        for values, keys in results:
            if not options.differentiable:
                values = values.detach()
            if options.reduce.keeps_keys and event.first_key:
                values = nn.functional.pad(values, (event.first_key, 0))
            record.values = options.reduce.append(record.values, values)
            if keys is not None:
                record.key_indices.append(keys + event.first_key)

    def __getitem__(self, name: str) -> Tensor:
        return concat_steps(name, self._records[name].values, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def key_indices(self, name: str) -> Tensor:
        """Return the keys of the greatest weights; -1 where a query had fewer keys."""
        return concat_steps(name, self._records[name].key_indices, -1)

    def exclude(self, *names: str | None) -> "Maps":
        """Return the maps of the other modules."""
        maps = copy(self)
        maps._records = {
            name: record for name, record in self._records.items() if name not in names
        }
        return maps

    def _with_heads(self) -> list[Tensor]:
        return [maps if maps.ndim == 4 else maps[:, None] for maps in self.values()]

    def stack_heads(self) -> Float[Tensor, "batch map query key"]:
        """Return all maps as one: one for each module and head, in order."""
        return torch.cat(self._with_heads(), 1)

    def stack_layers(self) -> Float[Tensor, "batch layer head query key"]:
        """Return all maps as one, with one layer for each module.

        Modules with different numbers of heads are joined into one layer.
        """
        maps = self._with_heads()
        is_uniform = len({layer.shape[1] for layer in maps}) == 1
        return torch.stack(maps, 1) if is_uniform else torch.cat(maps, 1)[:, None]

    def lookups(
        self,
        source: Sequence[str],
        target: Sequence[str] | None = None,
        *,
        row: int = 0,
    ) -> Lookups:
        """Return the labeled maps of one row of the batch, one layer for each module.

        Args:
            source: Labels of the keys.
            target: Labels of the queries; by default those of the keys.
            row: The row of the batch.

        Raises:
            ValueError: The maps differ in shape from each other or from the labels.
        """
        maps = [layer[row] for layer in self._with_heads()]
        shapes = {tuple(layer.shape) for layer in maps}
        if len(shapes) != 1:
            raise ValueError(
                "expected maps (head, query, key) of one shape, got "
                f"{shapes or 'none, since no recorded module attended'} of "
                f"{', '.join(self)}; select some with only="
            )
        weights = torch.stack(maps).detach().float().cpu().numpy()
        return Lookups(
            weights,
            tuple(source),
            tuple(source if target is None else target),
            layers=short_names(self),
        )

    def breakdown(
        self,
        weights: Float[np.ndarray, "_layer _head _target _source"],
    ) -> Breakdown | None:
        """Return the scores and values behind weights of the batch's first row.

        The result is None if the weights are not the recorded ones, if keys or values
        change between steps, or if the recording has no breakdown.
        """
        return breakdown_of_calls([*self._calls.values()], weights)


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """Shorten module names to `layer 0` and so on, where a number tells them apart."""
    names = tuple(names)
    modules = {name.partition(":")[0] for name in names}
    if len(names) > 1 and len(modules) == 1:
        return tuple(f"layer {index}" for index in range(len(names)))
    numbers = [re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name) for name in names]
    labels = dict.fromkeys(f"layer {row[0]}" for row in numbers if len(row) == 1)
    return names if len(labels) < len(names) else tuple(labels)


@contextmanager
def record(
    model: nn.Module,
    only: str | Sequence[str] = "*",
    *,
    heads: Indices = None,
    rows: Indices = None,
    reduce: Reduction = KEEP_ALL,
    differentiable: bool = False,
    measure: Measure | None = None,
    breakdown: bool = False,
    may_be_empty: bool = False,
) -> Iterator[Maps]:
    """Collect the attention weights that `model` computes inside the block.

    If only some weights are recorded, attention by a softmax of products stays fused:
    the recorded weights are computed apart, for some queries at a time unless the
    weights themselves are kept. Other attention computes all its weights first. The
    model may be or contain a model of the transformers library, which computes as
    without the block.

    Args:
        only: Names of the modules to record, with `*` and `?` as wildcards, for example
            `"decoder.*.cross_attention"`.
        heads: Heads to keep, of maps that have heads. By default all.
        rows: Query positions to keep, counted over all steps of a decode. By default
            all.
        reduce: What to keep of these weights (`regard.maps.reductions`): `KeepAll()`,
            or the `Greatest(count)` of each query, whose keys are
            `maps.key_indices(name)`, the `Entropy()` of each, or the `Totals()` over
            queries.
        differentiable: Keep the weights in the graph, so that a loss can use them.
        measure: A function of module, weights and values whose result is kept in place
            of the weights.
        breakdown: Keep scores and values too, for `maps.breakdown`; no fused form is
            used then.
        may_be_empty: Whether a recording without maps is no error.

    Raises:
        ValueError: No module has a name that `only` matches, or none of them attended
            inside the block; or there is a `measure`
            and a module does not report values; or a matched module of transformers
            does not use the library's common attention.
    """
    options = RecordOptions(
        heads,
        rows,
        reduce,
        measure,
        differentiable,
        breakdown,
    )
    maps = Maps(match_modules(model, only), options)
    with observe_with(maps), observe_others(model):
        yield maps
    if not maps and not may_be_empty:
        raise ValueError(
            "nothing was recorded: no chosen module attended inside the block; run the "
            "model there, or choose other modules with only="
        )


@contextmanager
def observe_others(model: nn.Module) -> Iterator[None]:
    """Let models of transformers and PyTorch's own attention be observed too."""
    models = find_pretrained(model)
    with ExitStack() as stack:
        if models:
            stack.enter_context(patch_models(models))
        if not all(map(is_observable, model.modules())):
            stack.enter_context(patch_torch(model))
        yield


def is_observable(module: nn.Module) -> bool:
    """Return whether a module is this library's, or one of PyTorch's without attention."""
    home = type(module).__module__.partition(".")[0]
    is_plain = home == "torch" and not isinstance(module, nn.MultiheadAttention)
    return is_plain or home == "regard"


def find_pretrained(model: nn.Module) -> list[Any]:
    """Return the models of transformers within `model`, nested ones included."""
    library = sys.modules.get("transformers")
    if library is None:  # a model of it exists only if it was imported
        return []
    kind = library.PreTrainedModel
    return [module for module in model.modules() if isinstance(module, kind)]


def match_modules(model: nn.Module, only: str | Sequence[str]) -> dict[int, str]:
    """Return the names of the modules to record, by identity.

    Raises:
        ValueError: No module matches, or none of them can be recorded.
    """
    patterns = [only] if isinstance(only, str) else only
    names = {}
    for name, module in model.named_modules():
        name = name.removesuffix(".attend")
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            names[id(module)] = name
    if not names:
        children = [name for name, _ in model.named_children()]
        raise ValueError(f"no module is called {only!r}; the model has {children}")
    if models := find_pretrained(model):
        refuse_closed(model, models, names)
    return names


def report(module: nn.Module, weights: Tensor, value: Tensor | None = None) -> None:
    """Report weights of a module to its observer.

    Args:
        weights: `(*batch, query, key)`.
        value: The values that it reads with them, `(*batch, key, value_width)`.
    """
    report_event(module, LookupEvent(weights.shape[-2], select_from(weights), value))
