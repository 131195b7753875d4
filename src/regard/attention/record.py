"""Record attention weights: `with record(model) as maps: model(...)`.

Then `maps["decoder.layers.0.cross_attention"]` is a tensor. Nothing is stored on the
modules.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.observer import (
    LookupEvent,
    Observer,
    observe_with,
    report_event,
    select_from,
)
from regard.attention.recorded_calls import (
    RecordedCall,
    breakdown_of_calls,
    concat_steps,
)
from regard.attention.transformers import patch_models, refuse_closed
from regard.maps.breakdown import Breakdown
from regard.maps.lookups import Lookups
from regard.maps.reductions import KeepAll, Reduced, Reduction, gather_groups

Measure = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A module, its weights `(*batch, query, key)` and its values `(*batch, key,
value_width)` -> the numbers to record in place of the weights, of the same shape."""
KEEP_ALL = KeepAll()


@dataclass(frozen=True)
class RecordOptions:
    """What to record of the weights.

    heads, rows: Heads and query positions; None for all.
    reduce: What to keep of these.
    measure: What to record in place of all weights.
    differentiable: Whether to keep the graph.
    breakdown: Whether to keep scores and values too.
    """

    heads: Sequence[int] | None = None
    rows: Sequence[int] | None = None
    reduce: Reduction = KEEP_ALL
    measure: Measure | None = None
    differentiable: bool = False
    breakdown: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether all weights are kept, unchanged."""
        if self.heads is not None or self.rows is not None:
            return False
        return self.measure is None and self.reduce == KEEP_ALL


class ReportsWeights:
    """A model of transformers, which reports its attention weights but no values."""

    @property
    @abstractmethod
    def token_table(self) -> Any:
        """The module that embeds tokens."""

    @property
    def skipped(self) -> int:
        """Number of positions before the text, which no map shows."""
        return 0


@dataclass
class ModuleRecord:
    """The recorded weights of one module, step by step.

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
        return options.breakdown or options.measure is not None or options.keeps_all

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
        if options.breakdown and event.scores is not None and value is not None:
            weights = event.weights(None, None)
            call = RecordedCall(weights, value, event.mask, event.scores())
            calls = self._calls.setdefault(name, [])
            calls.append(call)
        if options.measure is not None:
            if value is None:
                raise ValueError(
                    f"module {name!r} reports weights without values; leave measure out"
                )
            weights = event.weights(None, None)
            weights = options.measure(module, weights, value)
            event = event._replace(weights=select_from(weights))
        record = self._records.setdefault(name, ModuleRecord())
        rows = list(range(event.queries))
        if options.rows is not None:
            rows = [row - record.count for row in options.rows]
            rows = [row for row in rows if 0 <= row < event.queries]
        record.count += event.queries
        for values, keys in self._reduce(event, rows):
            if not options.differentiable:
                values = values.detach()
            if options.reduce.keeps_keys and event.first_key:
                values = nn.functional.pad(values, (event.first_key, 0))
            record.values = options.reduce.append(record.values, values)
            if keys is not None:
                record.key_indices.append(keys + event.first_key)

    def _reduce(self, event: LookupEvent, rows: list[int]) -> Iterable[Reduced]:
        """Return the reduced weights of these rows, in one or more groups of rows."""
        all_rows = list(range(event.queries))
        options = self.options

        def compute(group: Sequence[int]) -> Reduced:
            selected = None if group == all_rows else group
            weights = event.weights(options.heads, selected)
            return options.reduce.of(weights)

        groups = [*options.reduce.parts(rows, event.width)]
        results = map(compute, groups)
        joined = len(groups) == 1 or options.differentiable
        if joined or options.reduce.keeps_keys:
            return results
        return [gather_groups(results, len(rows))]

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
        if len({layer.shape[1] for layer in maps}) > 1:
            return torch.cat(maps, 1)[:, None]
        return torch.stack(maps, 1)

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
        if len({layer.shape for layer in maps}) != 1:
            shapes = {
                name: tuple(layer.shape) for name, layer in zip(self, maps, strict=True)
            }
            raise ValueError(
                "expected maps (head, query, key) of one shape, got "
                f"{shapes or 'none, since no recorded module attended'}; select some "
                "with only="
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

        None if the weights are not the recorded ones, if keys or values change between
        steps, or if the recording has no breakdown.
        """
        return breakdown_of_calls([*self._calls.values()], weights)


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """Shorten module names to `layer 0` and so on, where a number tells them apart."""
    names = tuple(names)
    modules = {name.partition(":")[0] for name in names}
    if len(names) > 1 and len(modules) == 1:
        return tuple(f"layer {index}" for index in range(len(names)))
    labels = []
    for name in names:
        numbers = [part for part in name.split(".") if part.isdigit()]
        if len(numbers) != 1:
            return names
        labels.append(f"layer {numbers[0]}")
    if len(set(labels)) < len(names):
        return names
    return tuple(labels)


@contextmanager
def record(
    model: nn.Module,
    only: str | Sequence[str] = "*",
    *,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    reduce: Reduction = KEEP_ALL,
    differentiable: bool = False,
    measure: Measure | None = None,
) -> Iterator[Maps]:
    """Collect the attention weights that `model` computes inside the block.

    If only some weights are recorded, attention by a softmax of products stays fused:
    the recorded weights are computed apart, for some queries at a time unless the
    weights themselves are kept. Other attention computes all its weights first. The
    model may be or contain a model of the transformers library, which computes as
    without the block.

    Args:
        model: The model.
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

    Raises:
        ValueError: No module has a name that `only` matches; or there is a `measure`
            and a module does not report values; or a matched module of transformers
            does not use the library's common attention.
    """
    options = RecordOptions(heads, rows, reduce, measure, differentiable)
    with record_with(model, only, options) as maps:
        yield maps


def record_breakdown(
    model: nn.Module,
    only: str | Sequence[str],
    measure: Measure | None = None,
) -> AbstractContextManager[Maps]:
    """Record weights together with their scores and values, for `maps.breakdown`.

    No fused form is used.
    """
    return record_with(model, only, RecordOptions(measure=measure, breakdown=True))


@contextmanager
def record_with(
    model: nn.Module,
    only: str | Sequence[str],
    options: RecordOptions,
) -> Iterator[Maps]:
    """Collect the weights that `options` select. Raises ValueError as `record` does."""
    maps = Maps(match_modules(model, only), options)
    with observe_with(maps), patch_models(model):
        yield maps


def match_modules(model: nn.Module, only: str | Sequence[str]) -> dict[int, str]:
    """Return the names of the modules to record, by identity.

    Raises:
        ValueError: No module matches, or none of them can be recorded.
    """
    patterns = [only] if isinstance(only, str) else list(only)
    names = {}
    for name, module in model.named_modules():
        name = name.removesuffix(".attend")
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            names[id(module)] = name
    if not names:
        children = [name for name, _ in model.named_children()]
        raise ValueError(f"no module is called {only!r}; the model has {children}")
    refuse_closed(model, names)
    return names


def report(module: nn.Module, weights: Tensor, value: Tensor | None = None) -> None:
    """Report weights of a module to its observer.

    Args:
        module: The module.
        weights: `(*batch, query, key)`.
        value: The values that it reads with them, `(*batch, key, value_width)`.
    """
    event = LookupEvent(weights.shape[-2], select_from(weights), value)
    report_event(module, event)
