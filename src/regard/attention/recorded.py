"""Recorded attention weights, by the names of the modules that computed them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.observer import LookupRecord, Observer, Projected, chosen_of
from regard.attention.recorded_breakdown import Call, breakdown_of_calls
from regard.attention.recorded_steps import Part, Steps, joined
from regard.maps.breakdown import Breakdown, Sums, breakdown_of_products
from regard.maps.lookups import Lookups
from regard.maps.reductions import Kept, Reduction, Whole, gathered

Measure = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A module, its weights `(*batch, query, key)` and its values `(*batch, key, value_width)` -> the numbers to keep in
place of the weights, of the same shape."""


ALL = Whole()


@dataclass(frozen=True)
class Choice:
    """What to keep of the weights. `heads` and `rows` select heads and query positions (None: all) and `reduce` applies
    to these; `measure` applies to all. `breakdown` also keeps the scores and values, `differentiable` the graph."""

    heads: Sequence[int] | None = None
    rows: Sequence[int] | None = None
    reduce: Reduction = ALL
    measure: Measure | None = None
    differentiable: bool = False
    breakdown: bool = False

    @property
    def whole(self) -> bool:
        """Whether all weights are kept, unchanged."""
        every = self.heads is None and self.rows is None
        return every and self.measure is None and self.reduce == ALL


class Maps(Mapping[str, Tensor], Observer):
    """Recorded weights by module name, `(batch, [head,] query, key)`. The steps of a decode are joined along the query
    axis; keys that an early step did not have are 0 there. Further calls of a module in one pass of a model of
    transformers are further layers, `name:1` and so on. After a beam search of that library the rows are those of the
    returned sequences; queries and keys of rejected drafts are dropped."""

    def __init__(self, names: dict[int, str], choice: Choice):
        self._names, self.choice = names, choice
        self.draws: dict[str, list[Any]] = {}
        """Samples of each module in the order of the steps, for training."""
        self._steps: dict[str, Steps] = {}
        self._search: dict[str, int] | None = None
        """Number of passes of each module before the current beam search."""
        self._several_batches: set[str] = set()
        """Modules whose rows or queries changed during a decode; these have no breakdown."""
        self._calls: dict[str, list[Call]] = {}
        self._query_sides: dict[str, list[Tensor]] = {}
        self._projected: dict[str, Projected] = {}

    def observes(self, module: nn.Module) -> bool:
        return id(module) in self._names

    @property
    def needs_weights(self) -> bool:
        return (
            self.choice.breakdown
            or self.choice.measure is not None
            or self.choice.whole
        )

    def receive(self, module: nn.Module, record: LookupRecord) -> None:
        """Raises ValueError for a measure on a module whose values are unknown."""
        name, measure = self._names[id(module)], self.choice.measure
        name = f"{name}:{record.call}" if record.call else name
        if record.draws:
            self.draws.setdefault(name, []).extend(record.draws)
        call = Call.of_record(record) if self.choice.breakdown else None
        if call is not None:
            self._calls.setdefault(name, []).append(call)
        if record.projected is not None and self.choice.whole:
            query, key, value = (each.detach() for each in record.projected[:3])
            projected = Projected(query, key, value, record.projected.scale)
            self._query_sides.setdefault(name, []).append(projected.query)
            self._projected[name] = (
                projected  # a step's keys and values include those of earlier steps
            )
        if measure is not None:
            chosen = chosen_of(
                measure(module, record.weights(None, None), _value(record, name))
            )
            record = record._replace(weights=chosen)
        self._add(name, record)

    def _add(self, name: str, record: LookupRecord) -> None:
        steps = self._steps.setdefault(name, Steps())
        first, number, reduce = steps.count, len(steps.queries), self.choice.reduce
        steps.queries.append(record.queries)
        steps.cached |= record.cached
        if record.first_key:
            self._several_batches.add(name)
        chosen = (
            range(first, first + record.queries)
            if self.choice.rows is None
            else self.choice.rows
        )
        rows = [row - first for row in chosen if first <= row < first + record.queries]
        for some, (found, places) in self._kept(record, rows):
            found = found if self.choice.differentiable else found.detach()
            if reduce.keeps_keys and record.first_key:
                found = nn.functional.pad(found, (record.first_key, 0))
            places = None if places is None else places + record.first_key
            part = Part(found, places, [first + row for row in some], number)
            steps.add(part, reduce, apart=self._search is not None)

    def _kept(
        self, record: LookupRecord, rows: list[int]
    ) -> Iterable[tuple[Sequence[int], Kept]]:
        """The reduced weights of these rows, with the rows: one group of all, or groups that the reduction adds up."""
        every, reduce = list(range(record.queries)), self.choice.reduce

        def kept(some: Sequence[int]) -> Kept:
            return reduce.of(
                record.weights(self.choice.heads, None if some == every else some)
            )

        groups = [*reduce.parts(rows, record.width)]
        if len(groups) == 1 or self.choice.differentiable or reduce.keeps_keys:
            return ((some, kept(some)) for some in groups)
        return [(rows, gathered(map(kept, groups), len(rows)))]

    def reordered(self, rows: Tensor) -> None:
        """Reorder what is recorded of a decode, unless a beam search chooses its rows at its end."""
        if self._search is None:
            for steps in self._decoded():
                steps.reorder(rows)

    def rejected(self, queries: int) -> None:
        """Drop the last queries of a decode."""
        for steps in self._decoded():
            steps.reject(queries)

    def search_started(self) -> None:
        """Keep the passes of a beam search apart until its end."""
        self._search = {name: len(steps.queries) for name, steps in self._steps.items()}

    def search_ended(self, rows: Tensor) -> None:
        """Keep of each pass the row of each returned sequence, `(sequence, pass)`."""
        before, self._search = self._search or {}, None
        for name, steps in self._steps.items():
            first = before.get(name, 0)
            if len(steps.queries) > first:
                steps.select(rows, first)
                self._several_batches.add(name)

    def _decoded(self) -> Iterator[Steps]:
        """The steps of modules that read a cache."""
        for name, steps in self._steps.items():
            if steps.cached:
                self._several_batches.add(name)
                yield steps

    def __getitem__(self, name: str) -> Tensor:
        return joined(name, self._steps[name].values(self.choice.reduce), 0)

    def places(self, name: str) -> Tensor:
        """The keys of the greatest weights; -1 where a query had fewer keys."""
        return joined(name, self._steps[name].places(), -1)

    def without(self, *names: str | None) -> "Maps":
        """The maps of the other modules."""
        others = copy(self)
        others._steps = {
            each: steps for each, steps in self._steps.items() if each not in names
        }
        return others

    def together(self) -> Tensor:
        """All maps as one, `(batch, map, query, key)`: one map per module and head, in the order of the modules."""
        return torch.cat(
            [each if each.ndim == 4 else each[:, None] for each in self.values()], 1
        )

    def layered(self) -> Tensor:
        """All maps as one, `(batch, layer, head, query, key)`: one layer per module, in order. Modules with different
        numbers of heads are joined into one layer."""
        maps = [each if each.ndim == 4 else each[:, None] for each in self.values()]
        if len({each.shape[1] for each in maps}) > 1:
            return torch.cat(maps, 1)[:, None]
        return torch.stack(maps, 1)

    def lookups(
        self,
        source: Sequence[str],
        target: Sequence[str] | None = None,
        *,
        row: int = 0,
    ) -> Lookups:
        """The maps of one row of the batch, one layer per module, with labels of the keys and queries (by default the
        same). Models of transformers have a breakdown, see `breakdown_of_products`.

        Raises ValueError if the maps differ in shape from each other or from the labels."""
        parts = {
            name: each[row] if each.ndim == 4 else each[row, None]
            for name, each in self.items()
        }
        if len({each.shape for each in parts.values()}) != 1:
            shapes = {name: tuple(each.shape) for name, each in parts.items()}
            shown = shapes or "none, since no recorded module attended"
            raise ValueError(
                f"expected maps (head, query, key) of one shape, got {shown}; select some with only="
            )
        weights = torch.stack(list(parts.values())).detach().float().cpu().numpy()
        labels = tuple(source), tuple(source if target is None else target)
        return Lookups(
            weights,
            *labels,
            layers=distinguished(parts),
            breakdown=self._breakdown(row, weights),
        )

    def breakdown(
        self, weights: Float[np.ndarray, "_layer _head _target _source"]
    ) -> Breakdown | None:
        """The scores and values behind these weights of the batch's first row. None if the weights are not the recorded
        ones, if keys or values change between steps, or if the recording has no breakdown."""
        return breakdown_of_calls([*self._calls.values()], weights)

    def _breakdown(self, row: int, weights: np.ndarray) -> Breakdown | None:
        """The breakdown of all modules; None if some have none, or if their shapes or scales differ."""
        if not all(
            name in self._projected and name not in self._several_batches
            for name in self
        ):
            return None
        every = [self._projected[name] for name in self]
        if (
            len({(*each.key.shape, each.value.shape[-1], each.scale) for each in every})
            > 1
        ):
            return None

        def stacked(tensors: Iterable[Tensor]) -> np.ndarray:
            """Repeat each group for every head that it serves."""
            found = np.stack([each[row].float().cpu().numpy() for each in tensors])
            return found.repeat(weights.shape[1] // found.shape[1], 1)

        query = stacked(torch.cat(self._query_sides[name], 2) for name in self)
        key, value = (
            stacked(each.key for each in every),
            stacked(each.value for each in every),
        )
        return breakdown_of_products(Sums(query, key, every[0].scale), value, weights)

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


def distinguished(names: Iterable[str]) -> tuple[str, ...]:
    """Shorten module names to the part that distinguishes them: `layer 0` for `encoder.layers.0.attention`, and for the
    calls of one module."""
    names = [*names]
    if len(names) > 1 and len({name.partition(":")[0] for name in names}) == 1:
        return tuple(f"layer {number}" for number in range(len(names)))
    parts = [name.split(".") for name in names]
    numbers = [[part for part in each if part.isdigit()] for each in parts]
    if all(len(each) == 1 for each in numbers) and len(
        {each[0] for each in numbers}
    ) == len(parts):
        return tuple(f"layer {each[0]}" for each in numbers)
    return tuple(".".join(each) for each in parts)


def _value(record: LookupRecord, name: str) -> Tensor:
    """Raises ValueError if the value is unknown."""
    if record.value is not None:
        return record.value
    if record.projected is not None:
        raise ValueError(
            f"{name!r} is a module of transformers and reports weights only; leave measure out"
        )
    raise ValueError(f"{name!r} reports weights without values; leave measure out")
