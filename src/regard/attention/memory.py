"""The dictionary of a lookup: keys, values, and a mask of the keys that may be read.

Encoder states, a cache of past steps, an image's grid of features and a document's sentences are all a `Memory`.
"""

from dataclasses import InitVar, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.attention.masks import Mask, Padding, as_mask, padding
from regard.shapes import Float, Int, Lengths, Rows, States, Tokens


@dataclass(frozen=True, eq=False)
class Memory:
    """Keys `(*batch, key, key_width)`, values `(*batch, key, value_width)` and the mask over them.

    Keys and values that no query may read are set to 0 at construction, so that padding has no influence, NaN included.
    `clean=False` skips this for keys and values of a memory that was cleaned before.

    `summary (batch, width)` is an encoder's vector of the whole sequence, for decoders that start from one. `tokens
    (batch, key)` are the ids at the keys, for decoders that copy them. `exponentials (*batch, key, any width)` is the
    input of an additive score's kernel, computed from these keys by `prepare`. `places ([batch,] key)` are the
    positions of the keys, for relative positions, or the first of successive ones; None for 0, 1, 2, ... `bias
    ([*batch,] query, key)` is added to the scores; with an axis for heads before `query` it is that of each head of a
    `MultiHead`.
    """

    key: Tensor
    value: Tensor
    mask: Mask | None = None
    summary: Tensor | None = None
    tokens: Tokens | None = None
    exponentials: Tensor | None = None
    places: Tensor | int | None = None
    bias: Tensor | None = None
    clean: InitVar[bool] = True

    def __post_init__(self, clean: bool) -> None:
        if self.mask is None:
            return
        if not isinstance(self.mask, Mask):
            object.__setattr__(self, "mask", as_mask(self.mask))
        readable = self.mask.readable()
        if not clean or readable is None:
            return
        hidden = ~readable[..., None]
        if hidden.shape[-2] not in (1, self.key.shape[-2]):
            raise ValueError(
                f"the mask covers {hidden.shape[-2]} keys, but the memory has {self.key.shape[-2]}"
            )
        same = self.key is self.value
        object.__setattr__(self, "key", self.key.masked_fill(hidden, 0.0))
        object.__setattr__(
            self, "value", self.key if same else self.value.masked_fill(hidden, 0.0)
        )
        object.__setattr__(self, "exponentials", None)

    @classmethod
    def of(
        cls,
        states: States,
        lengths: Lengths | None = None,
        summary: Tensor | None = None,
        tokens: Tokens | None = None,
    ) -> "Memory":
        """A memory whose keys and values are both the states `(batch, position, width)`, masked past `lengths
        (batch,)`."""
        mask = None if lengths is None else padding(lengths, states.shape[1])
        return cls(states, states, mask, summary, tokens)

    @property
    def lengths(self) -> Tensor | None:
        """`(batch,)` if the mask is padding only, else None."""
        return self.mask.lengths if isinstance(self.mask, Padding) else None

    def append(self, key: Tensor, value: Tensor) -> "Memory":
        """The memory with more positions `(*batch, more, width)` at its end.

        Raises:
            ValueError: the memory has a mask or positions of its keys, which do not cover the new positions.
        """
        if self.mask is not None:
            raise ValueError(
                "a memory with a mask does not grow; append to one without and mask when it is read"
            )
        if self.bias is not None:
            raise ValueError(
                "a memory with a bias does not grow; give the bias when it is read"
            )
        if self.places is not None:
            raise ValueError(
                "a memory with positions of its keys does not grow; give them when it is read"
            )
        key, value = torch.cat([self.key, key], -2), torch.cat([self.value, value], -2)
        return replace(self, key=key, value=value, exponentials=None)

    def select(self, rows: Rows) -> "Memory":
        """The memory of the batch rows `rows`, in this order; rows may repeat."""
        pick = partial(torch.index_select, dim=0, index=rows)
        key = pick(self.key)
        value = key if self.value is self.key else pick(self.value)
        mask = None if self.mask is None else self.mask.select(rows)
        parts = (
            None if part is None else pick(part)
            for part in (self.summary, self.tokens, self.exponentials)
        )
        places = self.places
        places = (
            pick(places) if isinstance(places, Tensor) and places.ndim > 1 else places
        )
        bias = self.bias
        bias = bias if bias is None or bias.ndim < 3 or len(bias) == 1 else pick(bias)
        return Memory(key, value, mask, *parts, places=places, bias=bias, clean=False)

    def positions(self) -> Int[Tensor, "..."]:
        """The positions of the keys, `([batch,] key)`."""
        if isinstance(self.places, Tensor):
            return self.places
        first = self.places or 0
        return torch.arange(first, first + self.key.shape[-2], device=self.key.device)

    def first_places(self, count: int) -> Tensor | int:
        """The positions of the first `count` keys, where the queries of self-attention stand. Raises ValueError for
        fewer keys with positions of their own."""
        if not isinstance(self.places, Tensor):
            return self.places or 0
        if count > self.places.shape[-1]:
            known = self.places.shape[-1]
            raise ValueError(
                f"{count} queries read {known} keys with places; give the queries' places too"
            )
        return self.places[..., :count]


def selected(part: Any, rows: Rows) -> Any:
    """The batch rows `rows`, in this order, of a tensor, a tuple of parts, None, or an object with a `select`
    method."""
    match part:
        case None:
            return None
        case Tensor():
            return part.index_select(0, rows)
        case tuple():
            return tuple(selected(each, rows) for each in part)
        case _:
            return part.select(rows)


PAYS = 0.9
"""Packing saves time up to this share of real tokens."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Positions `(token,)` of the real tokens in a flattened batch of `batch` rows and `positions` columns."""

    places: Int[Tensor, " token"]
    batch: int
    positions: int

    @classmethod
    def of(cls, lengths: Lengths, positions: int) -> "Packing | None":
        """The packing of sequences of `lengths (batch,)`. None where it does not pay: with little padding, on an
        accelerator (counting would wait for it), and in a graph that is exported for all sizes."""
        if not lengths.is_cpu or torch.compiler.is_exporting():
            return None
        if int(lengths.sum()) > PAYS * len(lengths) * positions:
            return None
        inside = torch.arange(positions) < lengths[:, None]
        return cls(inside.flatten().nonzero()[:, 0], len(lengths), positions)

    def pack(self, states: States) -> Float[Tensor, "token width"]:
        """The real tokens of `(batch, position, width)`, row by row."""
        return states.flatten(0, 1).index_select(0, self.places)

    def unpack(self, states: Float[Tensor, "token width"]) -> States:
        """Put packed tokens back at their positions; padding is zeros."""
        empty = states.new_zeros(self.batch * self.positions, states.shape[1])
        return empty.index_copy(0, self.places, states).unflatten(
            0, (self.batch, self.positions)
        )
