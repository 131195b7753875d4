"""Record attention weights: `with record(model) as maps: model(...)`.

Then `maps["decoder.layers.0.cross_attention"]` is a tensor. Nothing is stored on the
modules.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.chunks import (
    Chunk,
    ModuleRecord,
    RecordedCall,
    breakdown_of_calls,
)
from regard.attention.observer import (
    LookupEvent,
    Observer,
    Projected,
    observe_with,
    report_event,
    select_from,
)
from regard.attention.transformers import patch_models, refuse_closed
from regard.maps.breakdown import Breakdown, ScoreFactors, build_product_breakdown
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


class Maps(Mapping[str, Tensor], Observer):
    """Recorded weights by module name, `(batch, [head,] query, key)`.

    The steps of a decode are joined along the query axis; keys that an early step did
    not have are 0 there. Further calls of a module in one pass of a model of
    transformers are further layers, `name:1` and so on. After a beam search of that
    library the rows are those of the returned sequences; queries and keys of rejected
    drafts are dropped.
    """

    def __init__(self, names: dict[int, str], options: RecordOptions):
        self._names, self.options = names, options
        self.draws: dict[str, list[Any]] = {}
        """Samples of each module in the order of the steps, for training."""
        self._records: dict[str, ModuleRecord] = {}
        self._search: dict[str, int] | None = None
        """Number of passes of each module before the current beam search."""
        self._changed: set[str] = set()
        """Modules whose rows or queries changed during a decode: without breakdown."""
        self._calls: dict[str, list[RecordedCall]] = {}
        self._queries: dict[str, list[Tensor]] = {}
        self._projected: dict[str, Projected] = {}

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
        name, options = self._names[id(module)], self.options
        if event.call:
            name = f"{name}:{event.call}"
        if event.draws:
            self.draws.setdefault(name, []).extend(event.draws)
        call = RecordedCall.of_event(event) if options.breakdown else None
        if call is not None:
            self._calls.setdefault(name, []).append(call)
        if event.projected is not None and options.keeps_all:
            query, key, value = (side.detach() for side in event.projected[:3])
            self._queries.setdefault(name, []).append(query)
            # a step's keys and values include those of earlier steps
            self._projected[name] = Projected(query, key, value, event.projected.scale)
        if options.measure is not None:
            value = check_value(event, name)
            weights = options.measure(module, event.weights(None, None), value)
            event = event._replace(weights=select_from(weights))
        self._add(name, event)

    def _add(self, name: str, event: LookupEvent) -> None:
        record = self._records.setdefault(name, ModuleRecord())
        first, number, reduce = record.count, len(record.queries), self.options.reduce
        record.queries.append(event.queries)
        record.cached |= event.cached
        if event.first_key:
            self._changed.add(name)
        rows = list(range(event.queries))
        if self.options.rows is not None:
            rows = [row - first for row in self.options.rows]
            rows = [row for row in rows if 0 <= row < event.queries]
        for group, (values, keys) in self._reduce(event, rows):
            values = values if self.options.differentiable else values.detach()
            if reduce.keeps_keys and event.first_key:
                values = nn.functional.pad(values, (event.first_key, 0))
            keys = None if keys is None else keys + event.first_key
            chunk = Chunk(values, keys, [first + row for row in group], number)
            record.add(chunk, reduce, separate=self._search is not None)

    def _reduce(
        self, event: LookupEvent, rows: list[int]
    ) -> Iterable[tuple[Sequence[int], Reduced]]:
        """Return the reduced weights of these rows, in one or more groups of rows."""
        all_rows, options = list(range(event.queries)), self.options

        def compute(group: Sequence[int]) -> Reduced:
            selected = None if group == all_rows else group
            return options.reduce.of(event.weights(options.heads, selected))

        groups = [*options.reduce.parts(rows, event.width)]
        joined = len(groups) == 1 or options.differentiable
        if joined or options.reduce.keeps_keys:
            return ((group, compute(group)) for group in groups)
        return [(rows, gather_groups(map(compute, groups), len(rows)))]

    def reorder_rows(self, rows: Tensor) -> None:
        if self._search is None:  # a beam search chooses its rows at its end
            for record in self._cached_records():
                record.reorder(rows)

    def reject_queries(self, count: int) -> None:
        for record in self._cached_records():
            record.reject(count)

    def start_search(self) -> None:
        self._search = {
            name: len(record.queries) for name, record in self._records.items()
        }

    def end_search(self, rows: Tensor) -> None:
        before, self._search = self._search or {}, None
        for name, record in self._records.items():
            first = before.get(name, 0)
            if len(record.queries) > first:
                record.select(rows, first)
                self._changed.add(name)

    def _cached_records(self) -> Iterator[ModuleRecord]:
        """Yield the records of modules that read a cache."""
        for name, record in self._records.items():
            if record.cached:
                self._changed.add(name)
                yield record

    def __getitem__(self, name: str) -> Tensor:
        return self._records[name].weights(name, self.options.reduce)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def key_indices(self, name: str) -> Tensor:
        """Return the keys of the greatest weights; -1 where a query had fewer keys."""
        return self._records[name].key_indices(name)

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

        Models of transformers have a breakdown, see `build_product_breakdown`.

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
            breakdown=self._product_breakdown(row, weights),
        )

    def breakdown(
        self, weights: Float[np.ndarray, "_layer _head _target _source"]
    ) -> Breakdown | None:
        """Return the scores and values behind weights of the batch's first row.

        None if the weights are not the recorded ones, if keys or values change between
        steps, or if the recording has no breakdown.
        """
        return breakdown_of_calls([*self._calls.values()], weights)

    def _product_breakdown(self, row: int, weights: np.ndarray) -> Breakdown | None:
        """Return the breakdown of models of transformers.

        None if a module has none, or if their shapes or scales differ.
        """
        sides, shapes = [], set()
        for name in self:
            if name not in self._projected or name in self._changed:
                return None
            projected = self._projected[name]
            query = torch.cat(self._queries[name], 2)
            sides.append((query, projected.key, projected.value))
            width = projected.value.shape[-1]
            shapes.add((projected.key.shape, width, projected.scale))
        if len(shapes) > 1:
            return None
        stacks = []
        for tensors in zip(*sides, strict=True):
            rows = [tensor[row].float().cpu().numpy() for tensor in tensors]
            stack = np.stack(rows)
            # each group is repeated for every head that it serves
            stacks.append(stack.repeat(weights.shape[1] // stack.shape[1], 1))
        query, key, value = stacks
        [(_, _, scale)] = shapes
        return build_product_breakdown(ScoreFactors(query, key, scale), value, weights)


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """Shorten module names to `layer 0` and so on, where a number tells them apart."""
    names = [*names]
    if len(names) > 1 and len({name.partition(":")[0] for name in names}) == 1:
        return tuple(f"layer {index}" for index in range(len(names)))
    numbers = []
    for name in names:
        numbers.append([part for part in name.split(".") if part.isdigit()])
    single = all(len(parts) == 1 for parts in numbers)
    if single and len({parts[0] for parts in numbers}) == len(names):
        return tuple(f"layer {parts[0]}" for parts in numbers)
    return tuple(names)


def check_value(event: LookupEvent, name: str) -> Tensor:
    """Return the values of an event. Raises ValueError if they are unknown."""
    if event.value is not None:
        return event.value
    module = f"module {name!r}"
    if event.projected is not None:
        module += " of transformers"
    raise ValueError(f"{module} reports weights without values; leave measure out")


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
    model: nn.Module, only: str | Sequence[str], measure: Measure | None = None
) -> AbstractContextManager[Maps]:
    """Record weights together with their scores and values, for `maps.breakdown`.

    No fused form is used.
    """
    return record_with(model, only, RecordOptions(measure=measure, breakdown=True))


@contextmanager
def record_with(
    model: nn.Module, only: str | Sequence[str], options: RecordOptions
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
