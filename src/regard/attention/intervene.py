"""Change what a model attends to: `with intervene(model, Cut(keys=[3])): model(...)`.

A `Cut` hides keys, as a mask does. Other changes replace weights behind the alignment.
Nothing is stored on the modules.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.align.soft import Align, Aligned, AlignInput, dense_mask
from regard.attention.masks import Dense
from regard.attention.observer import Observer, observe_with
from regard.attention.record import match_modules, observe_others
from regard.attention.scores import Indices
from regard.shapes import Bool, Weights

AXES = ("rows", "heads", "queries", "keys")
Marks = Bool[Tensor, "..."]
"""True where weights change, broadcastable to `(batch, [head,] query, key)`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Change(ABC):
    """A change of the weights of some queries on some keys; None means all.

    Attributes:
        queries: Positions of the queries, counted over all steps inside the block.
        keys: Positions of the keys.
        heads: Numbers of the heads.
        rows: Rows of the batch.
    """

    queries: Indices = None
    keys: Indices = None
    heads: Indices = None
    rows: Indices = None

    @abstractmethod
    def apply(
        self, weights: Weights, allowed: Marks, marks: Marks, place: "Place"
    ) -> Weights:
        """Return the changed weights.

        Args:
            weights: `(batch, [head,] query, key)`.
            allowed: The keys that a query may read.
            marks: The weights to change.
            place: The lookup that they belong to.
        """


class Cut(Change):
    """Queries do not see keys; the other weights follow from the scores of the rest.

    A query without any key has the context 0.
    """

    def apply(
        self, weights: Weights, allowed: Marks, marks: Marks, place: "Place"
    ) -> Weights:
        return weights  # the keys are masked already


class Uniform(Change):
    """Queries weigh all these keys that they may read equally, and no others."""

    def apply(
        self, weights: Weights, allowed: Marks, marks: Marks, place: "Place"
    ) -> Weights:
        spread = (allowed & marks).expand_as(weights).to(weights.dtype)
        spread = spread / spread.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(marks.any(-1, keepdim=True), spread, weights)


class Ablate(Change):
    """Weights are 0, and the others are as before: a head that adds nothing."""

    def apply(
        self, weights: Weights, allowed: Marks, marks: Marks, place: "Place"
    ) -> Weights:
        return weights.masked_fill(marks, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Force(Change):
    """Weights are given ones.

    Attributes:
        weights: `([batch, [head,]] query, key)` for all positions; or such weights by
            the names of modules, as `record` returns them of another text.
    """

    weights: Tensor | Mapping[str, Tensor]

    def apply(
        self, weights: Weights, allowed: Marks, marks: Marks, place: "Place"
    ) -> Weights:
        table = self.weights
        if not isinstance(table, Tensor):
            if place.name not in table:
                return weights
            table = table[place.name]
        queries, keys = weights.shape[-2:]
        queries += place.first_query
        keys += place.first_key
        if table.shape[-2] < queries or table.shape[-1] < keys:
            raise ValueError(
                f"the weights for {place.name!r} are {tuple(table.shape)}; expected at "
                f"least {queries} queries and {keys} keys"
            )
        table = table[..., place.first_query : queries, place.first_key : keys]
        return torch.where(marks, table.to(weights), weights)


class Place(NamedTuple):
    """The changes of one lookup.

    Attributes:
        changes: The changes.
        name: Name of the module; `name:1` for its second call within a pass.
        first_query: Number of queries before this lookup.
        first_key: Number of keys that a cache has forgotten.
    """

    changes: Sequence[Change]
    name: str
    first_query: int
    first_key: int = 0

    def mark(self, change: Change, shape: Sequence[int], device: torch.device) -> Marks:
        """Return which weights `(batch, [head,] query, key)` a change concerns."""
        names = AXES if len(shape) > 3 else ("rows", *AXES[2:])[-len(shape) :]
        marks = torch.ones((1, shape[-1]), dtype=torch.bool, device=device)
        for axis, (name, size) in enumerate(zip(names, shape, strict=True)):
            chosen = getattr(change, name)
            if chosen is None:
                continue
            first = {"queries": self.first_query, "keys": self.first_key}.get(name, 0)
            inside = [item - first for item in chosen if first <= item < first + size]
            flags = torch.zeros(size, dtype=torch.bool, device=device)
            flags[inside] = True
            marks = marks & flags.view(-1, *[1] * (len(shape) - 1 - axis))
        return marks

    def hide(self, shape: Sequence[int], device: torch.device) -> Marks | None:
        """Return which keys are cut; None if none is."""
        hidden = None
        for change in self.changes:
            if isinstance(change, Cut):
                marks = self.mark(change, shape, device)
                hidden = marks if hidden is None else hidden | marks
        return hidden

    @property
    def replaces_weights(self) -> bool:
        """Whether weights change behind the alignment."""
        return not all(isinstance(change, Cut) for change in self.changes)

    def reweigh(self, weights: Weights, allowed: Marks) -> Weights:
        """Return the changed weights of queries on the keys that they may read."""
        for change in self.changes:
            marks = self.mark(change, weights.shape, weights.device)
            weights = change.apply(weights, allowed, marks, self)
        return weights

    def change_lookup(self, lookup: Any) -> Any:
        """Return a `Lookup` with keys hidden and the alignment changed."""
        query, memory = lookup.query, lookup.memory
        hidden = self.hide((*query.shape[:-1], memory.key.shape[-2]), query.device)
        if hidden is not None:
            mask = Dense(~hidden) & memory.mask
            lookup = lookup._replace(
                memory=replace(memory, mask=mask, zero_masked=False)
            )
        if self.replaces_weights:
            lookup = lookup._replace(align=ChangedAlign(lookup.align, self))
        return lookup


class ChangedAlign(Align):
    """An alignment whose weights are changed; its state is that of its own weights."""

    def __init__(self, align: Align, place: Place):
        super().__init__()
        self.align = align
        self.place = place

    def forward(self, inputs: AlignInput) -> Aligned:
        aligned = self.align(*inputs)
        weights = aligned.weights
        allowed = dense_mask(inputs.mask, inputs.scores)
        changed = self.place.reweigh(weights, allowed)
        # a lookup may align one query after another
        first_query = self.place.first_query + weights.shape[-2]
        self.place = self.place._replace(first_query=first_query)
        return aligned._replace(weights=changed)


class Intervener(Observer):
    """The changes of some modules, and the lookups that they met."""

    def __init__(self, names: dict[int, str], changes: Sequence[Change]):
        self.names = names
        self.planned = changes
        self.counts: Counter[tuple[int, int]] = Counter()
        self.sizes = dict.fromkeys(AXES, 0)
        """The largest size of each axis so far."""

    def changes(self, module: nn.Module) -> bool:
        return bool(self.planned) and id(module) in self.names

    def intervene(
        self,
        module: nn.Module,
        shape: Sequence[int],
        call: int,
        first_key: int,
        first_query: int | None,
    ) -> Place:
        name = self.names[id(module)]
        if first_query is None:
            first_query = self.counts[id(module), call]
        self.counts[id(module), call] = first_query + shape[-2]
        rows, *heads, queries, keys = (1, *shape) if len(shape) < 3 else shape
        sizes = rows, *(heads or [1]), first_query + queries, first_key + keys
        for axis, size in zip(AXES, sizes, strict=True):
            self.sizes[axis] = max(self.sizes[axis], size)
        name = f"{name}:{call}" if call else name
        return Place(self.planned, name, first_query, first_key)

    def check(self) -> None:
        """Check that the model attended at the changed places.

        Raises:
            ValueError: It did not attend, or a place does not exist.
        """
        if self.planned and not self.counts:
            raise ValueError(
                "nothing was changed: no chosen module attended inside the block; run "
                "the model there, or choose other modules with only="
            )
        for change in self.planned:
            for axis, size in self.sizes.items():
                wrong = [
                    item for item in getattr(change, axis) or () if not 0 <= item < size
                ]
                if wrong:
                    raise ValueError(
                        f"{axis} {wrong} do not exist: the model had {size} {axis}, "
                        f"0 to {size - 1}"
                    )


@contextmanager
def intervene(
    model: nn.Module,
    *changes: Change,
    only: str | Sequence[str] = "*",
    strict: bool = True,
) -> Iterator[None]:
    """Change the attention that `model` computes inside the block.

    Every later step sees the consequences. Blocks may be nested, and `record` shows the
    changed weights. A cut leaves the fused forms of attention in place.

    Args:
        model: The model, which may be or contain a model of the transformers library or
            PyTorch's own attention.
        changes: The changes, in this order; without any the model computes as outside.
        only: Names of the modules to change, with wildcards, as in `record`.
        strict: Whether changes of what does not exist are an error. A text that is
            being written may end before a changed position.

    Raises:
        ValueError: No module matches, or with `strict` no matching module attended, or
            a position, head or row does not exist.
    """
    intervener = Intervener(match_modules(model, only), changes)
    with observe_with(intervener), observe_others(model):
        yield
    if strict:
        intervener.check()
