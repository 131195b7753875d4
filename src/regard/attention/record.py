"""Weights while somebody looks: `with record(model) as maps: model(...)`.

Then `maps["decoder.layers.0.cross_attention"]` is a tensor. Modules ask `wanted(self)` and, only if somebody listens,
compute their weights and hand them over with `give`. Nothing is kept on the modules; outside of `with` blocks the
question costs one look at an empty list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.hugging_face import opened, refuse_closed
from regard.attention.observer import Listening
from regard.kernels.selected import Chosen, Projected, part
from regard.maps.breakdown import Sums, Workings, of_products
from regard.maps.lookups import Lookups
from regard.maps.reductions import Reduction, Whole

Measure = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A module, its weights `(*batch, query, key)` and the values it reads with them, `(*batch, key, value_width)` -> what
is kept in place of the weights, of the same shape."""


ALL = Whole()


@dataclass(frozen=True)
class Choice:
    """What is kept of weights: heads and query positions, None: all; and of those what. And what is made of all of them
    before; None: nothing."""

    heads: Sequence[int] | None = None
    rows: Sequence[int] | None = None
    reduce: Reduction = ALL
    measure: Measure | None = None

    @property
    def whole(self) -> bool:
        """Whether all weights are kept, as they are."""
        every = self.heads is None and self.rows is None
        return every and self.measure is None and self.reduce == ALL

    @property
    def partial(self) -> bool:
        """Whether less is kept: then they need not be there at once."""
        return self.measure is None and not self.whole


class Maps(Mapping[str, Tensor]):
    """Recorded weights by module name, `(batch, [head,] query, key)`. The steps of a decode are joined into one map:
    later steps follow along the query axis and keys that an early step had not yet are 0."""

    def __init__(self, names: dict[int, str], choice: Choice, differentiable: bool):
        self._names, self.choice, self._differentiable = names, choice, differentiable
        self.draws: dict[str, list[Any]] = {}
        """What modules with drawn weights hand over for their training, in the order of the steps."""
        self._steps: dict[str, list[Tensor]] = {}
        self._places: dict[str, list[Tensor]] = {}
        self._queries: dict[str, int] = {}
        self._asked: dict[str, list[Tensor]] = {}
        self._projected: dict[str, Projected] = {}

    def wants(self, module: nn.Module) -> bool:
        return id(module) in self._names

    def add(self, module: nn.Module, weights: Tensor, value: Tensor | None) -> None:
        if self.choice.measure is not None:
            if value is None:
                raise ValueError(f"{self._names[id(module)]!r} hands over weights without values; leave measure out")
            weights = self.choice.measure(module, weights, value)

        def chosen(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
            return part(weights, heads if weights.ndim > 3 else None, rows)

        self._add(module, weights.shape[-2], chosen)

    def add_chosen(self, module: nn.Module, queries: int, weights: Chosen, projected: Projected | None) -> None:
        if self.choice.measure is not None:
            raise ValueError(
                f"of {self._names[id(module)]!r}, of transformers, weights alone are known; leave measure out"
            )
        self._add(module, queries, weights)
        if projected is not None and self.choice.whole:
            query, key, value = (each.detach() for each in projected[:3])
            self._asked.setdefault(self._names[id(module)], []).append(query)
            # keys and values of a step have those of the steps before it
            self._projected[self._names[id(module)]] = Projected(query, key, value, projected.scale)

    def _add(self, module: nn.Module, queries: int, weights: Chosen) -> None:
        name = self._names[id(module)]
        first = self._queries.get(name, 0)
        self._queries[name] = first + queries
        asked = range(first, first + queries) if self.choice.rows is None else self.choice.rows
        rows = [row - first for row in asked if first <= row < first + queries]
        reduce, every = self.choice.reduce, list(range(queries))
        for some in reduce.parts(rows):
            found, places = reduce.of(weights(self.choice.heads, None if some == every else some))
            found = found if self._differentiable else found.detach()
            self._steps[name] = reduce.after(self._steps.get(name, []), found)
            if places is not None:
                self._places.setdefault(name, []).append(places)

    def add_draw(self, module: nn.Module, draw: Any) -> None:
        self.draws.setdefault(self._names[id(module)], []).append(draw)

    def __getitem__(self, name: str) -> Tensor:
        return self._joined(name, self._steps[name], 0)

    def places(self, name: str) -> Tensor:
        """Of the greatest weights: the key that each belongs to, -1 where there were not so many."""
        return self._joined(name, self._places[name], -1)

    def _joined(self, name: str, steps: list[Tensor], empty: int) -> Tensor:
        if len({step.shape[:-2] for step in steps}) > 1:
            raise ValueError(
                f"the batch of {name!r} changed between steps, from {steps[0].shape[0]} rows to {steps[-1].shape[0]}: "
                "record a pass over the finished sequences instead"
            )
        keys = max(step.shape[-1] for step in steps)
        return torch.cat([nn.functional.pad(step, (0, keys - step.shape[-1]), value=empty) for step in steps], -2)

    def without(self, name: str | None) -> "Maps":
        """Those of the other modules."""
        others = copy(self)
        others._steps = {each: steps for each, steps in self._steps.items() if each != name}
        return others

    def together(self) -> Tensor:
        """All maps as one, `(batch, map, query, key)`: a map a module and head, in the order of the modules."""
        return torch.cat([each if each.ndim == 4 else each[:, None] for each in self.values()], 1)

    def layered(self) -> Tensor:
        """All maps as one, `(batch, layer, head, query, key)`: a layer a module, in their order; modules with different
        numbers of heads are one layer."""
        maps = [each if each.ndim == 4 else each[:, None] for each in self.values()]
        if len({each.shape[1] for each in maps}) > 1:
            return torch.cat(maps, 1)[:, None]
        return torch.stack(maps, 1)

    def lookups(self, source: Sequence[str], target: Sequence[str] | None = None, *, row: int = 0) -> Lookups:
        """All maps of one row of the batch, a layer a module, with a label for each position that is read and each that
        reads; by default these are the same. Of models of transformers they come with their workings, as `of_products`
        gives them. Raises ValueError where the maps are not all of one shape, or other than the labels."""
        parts = {name: each[row] if each.ndim == 4 else each[row, None] for name, each in self.items()}
        if len({each.shape for each in parts.values()}) != 1:
            shapes = {name: tuple(each.shape) for name, each in parts.items()}
            given = shapes or "none, as nothing that was listened to attended"
            raise ValueError(f"maps (head, query, key) of one shape are expected, given {given}; choose some by only=")
        weights = torch.stack(list(parts.values())).detach().float().cpu().numpy()
        labels = tuple(source), tuple(source if target is None else target)
        return Lookups(weights, *labels, layers=told_apart(parts), workings=self._workings(row, weights))

    def _workings(self, row: int, weights: np.ndarray) -> Workings | None:
        """Of all modules; None where some handed over none, or other shapes or scales than the first."""
        if not all(name in self._projected for name in self):
            return None
        every = [self._projected[name] for name in self]
        if len({(*each.key.shape, each.value.shape[-1], each.scale) for each in every}) > 1:
            return None

        def stacked(tensors: Iterable[Tensor]) -> np.ndarray:
            """Each group once for every head that it serves."""
            found = np.stack([each[row].float().cpu().numpy() for each in tensors])
            return found.repeat(weights.shape[1] // found.shape[1], 1)

        query = stacked(torch.cat(self._asked[name], 2) for name in self)
        key, value = stacked(each.key for each in every), stacked(each.value for each in every)
        return of_products(Sums(query, key, every[0].scale), value, weights)

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


def told_apart(names: Iterable[str]) -> tuple[str, ...]:
    """Names of modules by what tells them apart: `layer 0` for `encoder.layers.0.attention`."""
    parts = [name.split(".") for name in names]
    numbers = [[part for part in each if part.isdigit()] for each in parts]
    if all(len(each) == 1 for each in numbers) and len({each[0] for each in numbers}) == len(parts):
        return tuple(f"layer {each[0]}" for each in numbers)
    return tuple(".".join(each) for each in parts)


listening: Listening[Maps] = Listening("regard_listening")


@contextmanager
def record(
    model: nn.Module,
    only: str | Sequence[str] = "*",
    *,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    reduce: Reduction = ALL,
    differentiable: bool = False,
    measure: Measure | None = None,
) -> Iterator[Maps]:
    """Collect the attention weights that `model` computes inside the block.

    Where less than all weights is asked for, attention by a softmax of products stays fused, and its weights are
    computed apart, of no more than `TOGETHER` queries at a time unless the weights themselves are kept. Other attention
    has its weights whole, and what is asked for is made of those. The model may be, or hold, one of the transformers
    library, whose attention stays fused always.

    Args:
        only: names of the modules to listen to, with `*` and `?` as wildcards, e.g. `"decoder.*.cross_attention"`.
        heads: heads to keep, of maps that have heads. Default all.
        rows: query positions to keep, counted over all steps of a decode. Default all.
        reduce: what to keep of these weights (`regard.maps.reductions`): by default `Whole()`, or the `Greatest(count)`
            of each query, whose keys `maps.places(name)` says, the `Entropy()` of each, or the `Totals()` over queries.
        differentiable: leave the weights in the graph, so that a loss may be made of them.
        measure: what to keep in place of the weights, made of these and the values that are read.

    Raises:
        ValueError: no module of the model has a name that `only` asks for; or there is a `measure`, and a module has no
            values to hand over; or all that is asked for is of transformers, in models that do not use the library's
            common attention.
    """
    maps = Maps(named(model, only), Choice(heads, rows, reduce, measure), differentiable)
    with listening.by(maps), opened(model, give_chosen):
        yield maps


def named(model: nn.Module, only: str | Sequence[str]) -> dict[int, str]:
    """The names of the modules to listen to, by their identity. Raises ValueError where there is none,
    or none that can be heard."""
    patterns = [only] if isinstance(only, str) else list(only)
    found = {
        id(module): name.removesuffix(".attend")
        for name, module in model.named_modules()
        if any(fnmatchcase(name.removesuffix(".attend"), pattern) for pattern in patterns)
    }
    if not found:
        raise ValueError(f"no module is called {only!r}; the model has {[name for name, _ in model.named_children()]}")
    refuse_closed(model, found)
    return found


def wanted(module: nn.Module) -> bool:
    """Whether somebody listens to this module now."""
    maps = listening.now()
    return maps is not None and maps.wants(module)


def chosen_from(module: nn.Module) -> bool:
    """Whether somebody listens to this module who keeps less than all of its weights."""
    maps = listening.now()
    return maps is not None and maps.wants(module) and maps.choice.partial


def give_chosen(module: nn.Module, queries: int, weights: Chosen, projected: Projected | None = None) -> None:
    """Let whoever listens to `module` choose of its weights, which are computed for nobody else, and have what they are
    made of."""
    maps = listening.now()
    if maps is not None and maps.wants(module):
        maps.add_chosen(module, queries, weights, projected)


def give_draw(module: nn.Module, draw: Any) -> None:
    """Hand what `module` drew (`regard.attention.align.Draw`) to whoever listens to it."""
    maps = listening.now()
    if maps is not None and maps.wants(module):
        maps.add_draw(module, draw)


def give(module: nn.Module, weights: Tensor, value: Tensor | None = None) -> None:
    """Hand the weights `(*batch, query, key)` of `module`, and the values `(*batch, key, value_width)` that it reads
    with them, to whoever listens to it."""
    maps = listening.now()
    if maps is not None and maps.wants(module):
        maps.add(module, weights, value)
