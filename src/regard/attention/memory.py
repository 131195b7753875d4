"""The dictionary of a lookup: keys, values and a mask of the keys.

Encoder states, a cache of past steps, an image's grid of features and a document's
sentences are all a `Memory`. A `KVCache` grows with the positions read, and a `Tape` is a
memory that can be written to.
"""

from dataclasses import InitVar, dataclass, replace
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.nn import functional

from regard.attention.masks import Mask, Padding, as_mask, padding
from regard.errors import InputError
from regard.shapes import Float, Int, Lengths, Rows, States, Tokens

HEADS = "number of heads"
"""The name of this size in messages."""
Widths = tuple[int | None, int | None, int | None]
"""Expected widths of queries, keys and values; None accepts any."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Keys, values and the mask over them.

    Keys and values hidden from every query are set to 0 at construction, so that
    padding has no influence, NaN included. `zero_masked=False` skips this for a memory
    whose keys and values were set to 0 before.

    Attributes:
        key: `(*batch, key, key_width)`.
        value: `(*batch, key, value_width)`.
        mask: Broadcastable to `(*batch, query, key)`.
        summary: An encoder's vector of the whole sequence, `(batch, width)`, for
            decoders that start from one.
        tokens: The ids at the keys, `(batch, key)`, for decoders that copy them.
        exponentials: The input of the kernel of additive scores, from `Attend.prepare`,
            `(*batch, key, any width)`.
        position_ids: The positions of the keys, `([batch,] key)`, or the first of
            successive ones; None for 0, 1, 2, ...
        bias: Numbers to add to the scores, `([*batch,] query, key)`; with an axis for
            heads before `query`, one for each head of a `MultiHead`.
    """

    key: Tensor
    value: Tensor
    mask: Mask | None = None
    summary: Tensor | None = None
    tokens: Tokens | None = None
    exponentials: Tensor | None = None
    position_ids: Tensor | int | None = None
    bias: Tensor | None = None
    zero_masked: InitVar[bool] = True

    def __post_init__(self, zero_masked: bool) -> None:
        if self.mask is None:
            return
        if not isinstance(self.mask, Mask):
            vars(self)["mask"] = as_mask(self.mask)
        readable = self.mask.readable() if zero_masked else None
        if readable is None:
            return
        hidden = ~readable[..., None]
        keys = self.key.shape[-2]
        if hidden.shape[-2] not in (1, keys):
            raise ValueError(
                f"the mask covers {hidden.shape[-2]} keys, but the memory has {keys}"
            )
        key = self.key.masked_fill(hidden, 0.0)
        shared = self.key is self.value
        value = key if shared else self.value.masked_fill(hidden, 0.0)
        vars(self).update(key=key, value=value, exponentials=None)

    @classmethod
    def of(
        cls,
        states: States,
        lengths: Lengths | None = None,
        summary: Tensor | None = None,
        tokens: Tokens | None = None,
    ) -> "Memory":
        """Return a memory whose keys and values are both `(batch, position, width)`.

        They are masked past `lengths (batch,)`.
        """
        mask = None if lengths is None else padding(lengths, states.shape[1])
        return cls(
            states,
            states,
            mask,
            summary,
            tokens,
        )

    @property
    def lengths(self) -> Tensor | None:
        """`(batch,)` if the mask is padding only, else None."""
        return self.mask.lengths if isinstance(self.mask, Padding) else None

    def select(self, rows: Rows) -> "Memory":
        """Return the memory of some batch rows in this order; rows may repeat."""
        key = self.key.index_select(0, rows)
        position_ids = self.position_ids
        bias = self.bias
        if isinstance(position_ids, Tensor) and position_ids.ndim > 1:
            position_ids = index_batch(position_ids, rows)
        if bias is not None and bias.ndim > 2 and len(bias) > 1:
            bias = index_batch(bias, rows)
        return Memory(
            key,
            key if self.value is self.key else self.value.index_select(0, rows),
            index_batch(self.mask, rows),
            index_batch(self.summary, rows),
            index_batch(self.tokens, rows),
            index_batch(self.exponentials, rows),
            position_ids,
            bias,
            zero_masked=False,
        )

    def key_positions(self) -> Int[Tensor, "..."]:
        """Return the positions of the keys, `([batch,] key)`."""
        if isinstance(self.position_ids, Tensor):
            return self.position_ids
        first = self.position_ids or 0
        return torch.arange(first, first + self.key.shape[-2], device=self.key.device)

    def query_positions(self, count: int) -> Tensor | int:
        """Return the positions of the first `count` keys, for queries that stand there.

        Raises:
            ValueError: There are fewer keys, and they have positions of their own.
        """
        if not isinstance(self.position_ids, Tensor):
            return self.position_ids or 0
        keys = self.position_ids.shape[-1]
        if count > keys:
            raise ValueError(
                f"the memory has positions for {keys} keys; pass position_ids= for the "
                f"{count} queries"
            )
        return self.position_ids[..., :count]


def index_batch(value: Any, rows: Rows) -> Any:
    """Return batch rows of a tensor, a tuple, None or an object with `select`."""
    match value:
        case None:
            return None
        case Tensor():
            return value.index_select(0, rows)
        case tuple():
            return tuple(index_batch(item, rows) for item in value)
        case _:
            return value.select(rows)


LEAST_ROOM = 16
"""Fewest positions to allocate when a cache grows."""


@dataclass(frozen=True, eq=False)
class KVCache:
    """Prepared keys and values of the positions read so far.

    Without a gradient, new positions are written into the room behind them, and the
    room doubles when it is full: a step does not copy earlier positions. Caches that
    grew from one share its tensors; if another one has written there, this one moves to
    tensors of its own.

    Attributes:
        key: `(batch, [head,] room, width)`, of which the first `length` positions are
            stored.
        value: `(batch, [head,] room, value_width)`, likewise.
        length: Number of positions stored.
        written: A list of one number: how many positions the caches that share the
            tensors have written into them.
        alignment: The alignment's state, if any.
        forgotten: Number of positions behind the sinks that a sliding window has
            dropped; position ids stay absolute.
        sinks: Number of first positions that a sliding window keeps.
    """

    key: Tensor
    value: Tensor
    length: int
    written: list[int]
    alignment: Any = None
    forgotten: int = 0
    sinks: int = 0

    @classmethod
    def of(cls, key: Tensor, value: Tensor) -> "KVCache":
        """Return the cache of these positions."""
        return cls(
            key,
            value,
            key.shape[-2],
            [key.shape[-2]],
        )

    @property
    def position(self) -> int:
        """Number of positions read so far, the forgotten ones included."""
        return self.length + self.forgotten

    def memory(self, mask: Mask | None = None) -> Memory:
        """Return the stored positions, under a mask."""
        position_ids = None
        if self.forgotten:
            stored = torch.arange(self.length, device=self.key.device)
            later = stored + self.forgotten
            position_ids = torch.where(stored < self.sinks, stored, later)
        key, value = self.positions()
        return Memory(
            key,
            value,
            mask,
            position_ids=position_ids,
            zero_masked=False,
        )

    def forget(self, before: int, sinks: int) -> "KVCache":
        """Return the cache without the positions that no later one reads.

        These are all but the last `before` and the first `sinks`. They are copied once
        there are twice as many, so that most steps copy nothing and memory is bounded.
        """
        keep = before + sinks
        if self.length <= 2 * keep + LEAST_ROOM:
            return self
        first = self.length - before
        parts = []
        for tensor in self.positions():
            ends = [tensor[..., :sinks, :], tensor[..., first:, :]]
            parts.append(torch.cat(ends, -2))
        forgotten = self.forgotten + self.length - keep
        cache = KVCache.of(*parts)
        return replace(
            cache, alignment=self.alignment, forgotten=forgotten, sinks=sinks
        )

    def append(self, key: Tensor, value: Tensor) -> "KVCache":
        """Return the cache with more positions at its end."""
        end = self.length + key.shape[-2]
        if torch.is_grad_enabled() or not self.length:
            pairs = zip(self.positions(), (key, value), strict=True)
            key, value = (torch.cat(pair, -2) for pair in pairs)
            return replace(
                self,
                key=key,
                value=value,
                length=end,
                written=[end],
            )
        cache = self
        if self.written != [self.length] or end > self.key.shape[-2]:
            room = max(LEAST_ROOM, 2 * end) - self.length
            keys, values = (
                functional.pad(part, (0, 0, 0, room)) for part in self.positions()
            )
            cache = replace(
                self,
                key=keys,
                value=values,
                written=[0],
            )
        new = slice(self.length, end)
        cache.key[..., new, :] = key
        cache.value[..., new, :] = value
        cache.written[0] = end
        return replace(cache, length=end)

    def select(self, rows: Rows) -> "KVCache":
        """Return the cache of the batch rows `rows`, in this order; rows may repeat."""
        key, value = (part.index_select(0, rows) for part in self.positions())
        alignment = index_batch(self.alignment, rows)
        written = [self.length]
        return replace(
            self,
            key=key,
            value=value,
            written=written,
            alignment=alignment,
        )

    def positions(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values without the room behind them."""
        return self.key[..., : self.length, :], self.value[..., : self.length, :]


PACKING_SHARE = 0.9
"""Packing saves time up to this share of real tokens."""


@dataclass(frozen=True, eq=False)
class Packing:
    """The real tokens of a padded batch of `batch` rows and `positions` columns.

    Attributes:
        token_indices: Their indices in the flattened batch, `(token,)`.
    """

    token_indices: Int[Tensor, " token"]
    batch: int
    positions: int

    @classmethod
    def of(cls, lengths: Lengths, positions: int) -> "Packing | None":
        """Return the packing of sequences of `lengths (batch,)`, where it saves time.

        It doesn't with little padding, on an accelerator (counting would wait for it),
        or in a graph that is exported for all sizes.
        """
        if not lengths.is_cpu or torch.compiler.is_exporting():
            return None
        if int(lengths.sum()) > PACKING_SHARE * len(lengths) * positions:
            return None
        inside = torch.arange(positions) < lengths[:, None]
        return cls(inside.flatten().nonzero()[:, 0], len(lengths), positions)

    def pack(self, states: States) -> Float[Tensor, "token width"]:
        """Return the real tokens of `(batch, position, width)`, row by row."""
        return states.flatten(0, 1).index_select(0, self.token_indices)

    def unpack(self, states: Float[Tensor, "token width"]) -> States:
        """Put packed tokens back at their positions; padding is zeros."""
        empty = states.new_zeros(self.batch * self.positions, states.shape[1])
        padded = empty.index_copy_(0, self.token_indices, states)
        return padded.unflatten(0, (self.batch, self.positions))


BLANK_CONTENT = 1e-6
"""Initial content of every row: a small number, which trains steadily (Collier 2018,
1807.08518). The paper does not define it."""


@dataclass(frozen=True, eq=False)
class Tape:
    """The writable memory of a neural Turing machine (Graves 2014, 1410.5401).

    It is a value like `Memory`: writing returns a new tape.

    Attributes:
        rows: Both keys and values, `(batch, row, width)`.
    """

    rows: Float[Tensor, "batch row width"]

    @classmethod
    def blank(cls, batch: int, rows: int, width: int, like: Tensor) -> "Tape":
        """Return a blank tape with the dtype and device of `like`."""
        return cls(like.new_full((batch, rows, width), BLANK_CONTENT))

    def memory(self, heads: int) -> Memory:
        """Return the rows as a memory for each head, `(batch, head, row, width)`."""
        rows = self.rows[:, None].expand(-1, heads, -1, -1)
        return Memory(rows, rows)

    def write(
        self,
        weights: Float[Tensor, "batch head row"],
        erase: Float[Tensor, "batch head width"],
        add: Float[Tensor, "batch head width"],
    ) -> "Tape":
        """Let every head erase, then every head add, so that their order is irrelevant.

            M'(i) = M(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h     (equations 3, 4)

        Args:
            weights: How much each head writes to each row.
            erase: From 0, which leaves the row's numbers, to 1.
            add: Vectors to add.
        """
        rows = self.rows
        for weight, share in zip(weights.unbind(1), erase.unbind(1), strict=True):
            rows = rows.addcmul(rows * share[:, None], weight[..., None], value=-1)
        return Tape(torch.baddbmm(rows, rearrange(weights, "b h n -> b n h"), add))

    def select(self, rows: Rows) -> "Tape":
        """Return the tape of some batch rows in this order; rows may repeat."""
        return Tape(self.rows.index_select(0, rows))


def check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | Tensor | None = None,
    widths: Widths = (None, None, None),
) -> None:
    """Refuse inputs that would broadcast silently or fail late.

    Args:
        query: `(*batch, query, query_width)`.
        key: `(*batch, key, key_width)`.
        value: `(*batch, key, value_width)`.
        mask: Broadcastable to `(*batch, query, key)`.
        widths: Expected widths of query, key and value. None accepts any width; for
            queries it means the keys' width.

    Raises:
        ValueError: Shapes, dtypes or devices do not fit together.
        TypeError: The mask is not boolean.
    """
    sides = {"query": query, "key": key, "value": value}
    fitting = [
        width in (None, side.shape[-1])
        for width, side in zip(widths, sides.values(), strict=True)
        if side.ndim
    ]
    problem = ""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        problem = "each input needs a position and a width axis"
    elif not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        problem = "the inputs need the same leading axes"
    elif key.shape[-2] != value.shape[-2]:
        problem = "every key needs one value"
    elif not query.dtype == key.dtype == value.dtype:
        problem = "the inputs need one dtype"
    elif not query.device == key.device == value.device:
        problem = "the inputs need one device"
    elif widths[0] is None and query.shape[-1] != key.shape[-1]:
        problem = "query and key need one width"
    elif not all(fitting):
        names = ", ".join(str(width or "any") for width in widths)
        problem = f"query, key and value need widths {names}"
    if problem:
        listed = [
            f"{name} {tuple(side.shape)} {side.dtype} {side.device}"
            for name, side in sides.items()
        ]
        raise ValueError(f"{problem}; got {', '.join(listed)}")
    if mask is not None:
        check_mask(as_mask(mask), query, key)


def check_mask(mask: Mask, query: Tensor, key: Tensor) -> None:
    """Raise ValueError for a mask of another shape or on another device."""
    expected = (*query.shape[:-1], key.shape[-2])
    sizes = zip(mask.shape[::-1], expected[::-1], strict=False)
    fits = all(size in (1, full) for size, full in sizes)
    if len(mask.shape) > len(expected) or not fits:
        raise ValueError(
            f"the mask has shape {tuple(mask.shape)}; it must broadcast to "
            f"(*batch, query, key) = {expected}"
        )
    if mask.device != query.device:
        raise ValueError(
            f"the mask is on {mask.device}, the query on {query.device}; they need one "
            "device"
        )


def expect_size(
    part: str,
    size: int | None,
    container: str,
    actual: int | None,
    name: str = "width",
) -> None:
    """Raise InputError if a part was made for another size than that of the whole.

    Args:
        part: What was made for `size`, for the message.
        size: The expected size; None accepts any.
        whole: What has the `actual` size, for the message.
        actual: The size; None if it is unknown.
        name: The name of the size.
    """
    if size is not None and actual is not None and size != actual:
        raise InputError(
            f"the {name} of {container} is {actual}, but {part} expects {size}; make both "
            "the same"
        )
