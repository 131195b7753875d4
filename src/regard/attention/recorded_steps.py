"""The recorded weights of one module, pass by pass, and what a search drops of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from regard.maps.reductions import Reduction


@dataclass(frozen=True)
class Part:
    """What is kept of some queries of one pass.

    values: `(batch, [head,] query, key)`, reduced.
    places: the keys of single weights.
    rows: the queries' numbers over all passes; with one value for all of them if these are reduced.
    number: number of the pass.
    """

    values: Tensor
    places: Tensor | None
    rows: Sequence[int]
    number: int

    def of_batch(self, chosen: Tensor) -> "Part":
        """The part with these rows of the batch, of which those below 0 are empty: weights 0, places -1."""
        absent = (chosen < 0).view(-1, *[1] * (self.values.ndim - 1))
        values = self.values[chosen.clamp(min=0)].masked_fill(absent, 0.0)
        places = (
            None
            if self.places is None
            else self.places[chosen.clamp(min=0)].masked_fill(absent, -1)
        )
        return replace(self, values=values, places=places)

    def before(self, row: int) -> "Part":
        """The part without the queries from number `row` on. Raises ValueError where queries are reduced to one
        value."""
        kept = [place for place, each in enumerate(self.rows) if each < row]
        if len(kept) == len(self.rows):
            return self
        if kept and self.values.shape[-2] != len(self.rows):
            raise ValueError(
                "totals over queries hold rejected tokens of a decode with drafts; record the weights instead"
            )
        places = None if self.places is None else self.places[..., kept, :]
        return replace(
            self,
            values=self.values[..., kept, :],
            places=places,
            rows=[self.rows[each] for each in kept],
        )

    def without_keys(self, count: int) -> "Part":
        """The part without its last keys, of which the queries that are kept read none; unchanged if one reads them."""
        if self.places is not None or self.values[..., -count:].any():
            return self
        return replace(self, values=self.values[..., :-count])


class Steps:
    """The parts of one module, in the order of the queries. `queries` has the number of queries of each pass."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.queries: list[int] = []
        self.cached = False

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(self.queries)

    def add(self, part: Part, reduce: Reduction, *, apart: bool) -> None:
        """Add a part; `apart` from those of other passes, even where the reduction joins them."""
        last = self.parts[-1] if self.parts else None
        if last is None or (apart and last.number != part.number):
            self.parts.append(part)
            return
        values = reduce.after([last.values], part.values)
        if len(values) == 2:
            self.parts.append(part)
        else:
            self.parts[-1] = replace(
                part, values=values[0], rows=[*last.rows, *part.rows]
            )

    def reorder(self, rows: Tensor) -> None:
        """Rows of the batch continue as these of them."""
        self.parts = [each.of_batch(rows) for each in self.parts]

    def reject(self, queries: int) -> None:
        """Drop the last queries. Raises ValueError as `Part.before`."""
        keys, most = self.count, self.count - queries
        self.parts = [
            each
            for part in self.parts
            if (each := part.before(most)).rows or not part.rows
        ]
        self.parts = [
            each.without_keys(queries) if each.values.shape[-1] == keys else each
            for each in self.parts
        ]
        while queries > 0 and self.queries:
            less = min(queries, self.queries[-1])
            self.queries[-1] -= less
            queries -= less

    def select(self, rows: Tensor, first: int) -> None:
        """Keep of every pass from number `first` on the row of each sequence, `(sequence, pass)`, and no pass after
        these."""
        last = first + rows.shape[1]
        self.parts = [
            each
            if each.number < first
            else each.of_batch(rows[:, each.number - first].to(each.values.device))
            for each in self.parts
            if each.number < last
        ]
        self.queries = self.queries[:last]

    def values(self, reduce: Reduction) -> list[Tensor]:
        """The values of all parts, to join along the query axis."""
        found: list[Tensor] = []
        for part in self.parts:
            found = reduce.after(found, part.values)
        return found

    def places(self) -> list[Tensor]:
        """The keys of single weights, to join along the query axis."""
        return [each.places for each in self.parts if each.places is not None]


def joined(name: str, steps: Sequence[Tensor], empty: int) -> Tensor:
    """Join steps along the query axis; keys that a step lacks are `empty`. Raises ValueError for another batch."""
    if len({step.shape[:-2] for step in steps}) > 1:
        raise ValueError(
            f"the batch of {name!r} changed between steps, from {steps[0].shape[0]} rows to {steps[-1].shape[0]}: "
            "record a pass over the finished sequences instead"
        )
    keys = max(step.shape[-1] for step in steps)
    return torch.cat(
        [
            functional.pad(step, (0, keys - step.shape[-1]), value=empty)
            for step in steps
        ],
        -2,
    )
