"""The operation: a soft dictionary lookup.

`attend` defines it. `Attend` is the same as a module; it reads by the first of `regard.attention.paths` that can.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.attention.align import Align, Softmax, softmax
from regard.attention.biases import Bias, SumOfBiases, TensorBias
from regard.attention.history import History
from regard.attention.lookup_record import record_of
from regard.attention.masks import Mask, as_mask
from regard.attention.memory import Memory
from regard.attention.observer import observer_of
from regard.attention.paths import PATHS, Lookup, Path, Read, first_that_serves, mixture, runs, weigh
from regard.attention.positions import RelativePositions, counted
from regard.attention.scores.protocol import Score, TanhSum
from regard.errors import InputError
from regard.kernels.additive import can_fuse, exponentials
from regard.shapes import Context, Float, Weights


def attend(
    query: Float[Tensor, "..."],
    key: Float[Tensor, "..."],
    value: Float[Tensor, "..."],
    *,
    score: Score,
    mask: Mask | Tensor | None = None,
    align: Callable[[Tensor, Mask | None], Tensor] = softmax,
) -> tuple[Context, Weights]:
    """Read a memory: score every key, turn the scores into weights, mix the values.

        e_ti = score(q_t, k_i)      a_t = align(e_t)      c_t = sum_i a_ti v_i

    Args:
        query: `(*batch, query, query_width)`.
        key, value: `(*batch, key, key_width)` and `(*batch, key, value_width)`.
        score: the score e; `regard.attention.scores` has the common ones.
        mask: True where a query may read a key, broadcastable to `(*batch, query, key)`. A query with no allowed key
            gets context 0 and weights 0. A key that no query may read has no influence, NaN included.
        align: from scores and mask to weights. Default softmax.

    Returns:
        context `(*batch, query, value_width)` and weights `(*batch, query, key)`, which have the dtype of the scores:
        float32 for products in float16 and for distances in half precision.

    Raises:
        ValueError: shapes, dtypes or devices do not fit together.
        TypeError: the mask is not boolean.
    """
    check(query, key, value, mask, score.widths)
    memory = Memory(key, value, None if mask is None else as_mask(mask))
    _, weights = weigh(query, score.prepare(memory.key), memory.mask, score, align)
    return mixture(weights, memory.value), weights


HEADS = "number of heads"
"""The name of this size in messages."""
Widths = tuple[int | None, int | None, int | None]


def check(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None = None, widths: Widths = (None, None, None)
) -> None:
    """Refuse inputs that would broadcast silently or fail late. `widths` are the expected widths of query, key and
    value. None accepts any width; for queries it means the keys' width. Raises ValueError, or TypeError for a mask that
    is not boolean."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            f"query, key and value need a position and a width axis; got shapes {shapes(query, key, value)}"
        )
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(f"query, key and value need the same leading axes; got shapes {shapes(query, key, value)}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"every key needs one value; got key {tuple(key.shape)} and value {tuple(value.shape)}")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(f"query, key and value need one dtype; got {query.dtype}, {key.dtype}, {value.dtype}")
    if not query.device == key.device == value.device:
        raise ValueError(f"query, key and value need one device; got {query.device}, {key.device}, {value.device}")
    found = query.shape[-1], key.shape[-1], value.shape[-1]
    if widths[0] is None and found[0] != found[1]:
        raise ValueError(f"query and key need one width; got shapes {shapes(query, key, value)}")
    if any(want is not None and want != width for want, width in zip(widths, found, strict=True)):
        expected = ", ".join("any" if want is None else str(want) for want in widths)
        raise ValueError(f"query, key and value need widths {expected}; got shapes {shapes(query, key, value)}")
    if mask is not None:
        check_mask(as_mask(mask), query, key)


def check_mask(mask: Mask, query: Tensor, key: Tensor) -> None:
    """Raise ValueError for a mask of another shape or on another device."""
    full = (*query.shape[:-1], key.shape[-2])
    aligned = zip(mask.shape[::-1], full[::-1], strict=False)
    if len(mask.shape) > len(full) or any(size not in (1, other) for size, other in aligned):
        raise ValueError(f"the mask has shape {tuple(mask.shape)}; it must broadcast to (*batch, query, key) = {full}")
    if mask.lies_on != query.device:
        raise ValueError(f"the mask lies on {mask.lies_on}, the query on {query.device}; they need one device")


def shapes(query: Tensor, key: Tensor, value: Tensor) -> str:
    """Describe the three shapes in a message."""
    return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"


def expect_size(part: str, size: int | None, of: str, found: int | None, name: str = "width") -> None:
    """Raise InputError, which names both parts, if `part` was made for another `size` than the one `found` in `of`.
    None fits any size."""
    if size is not None and found is not None and size != found:
        raise InputError(f"the {name} of {of} is {found}, but {part} expects {size}; make both the same")


class Attend(nn.Module):
    """One score and one alignment as a module: `attend(query, memory) -> context`.

    With a `history` an additive score also sees how each key was read before (see `regard.attention.history`); queries
    are then read one after another. With `positions` the score also depends on where queries and keys stand (see
    `regard.attention.positions`). Prepare a memory once if many calls read it: `read(query, prepare(memory))`.

    `dropout` is the share of weights that training sets to 0 (as in the published Transformer, BERT, GPT-2 and ViT);
    recorded weights are those before it. `paths` lists the ways to compute a read; the first that serves a lookup is
    used. Set it on a module or on the class to use others.

    Raises:
        ValueError: there is a history and the score is not additive, so there is no sum to add it to, or parts were
            made for queries or sums of different widths.
    """

    paths: Sequence[Path] = PATHS

    def __init__(
        self,
        score: Score,
        align: Align | None = None,
        history: History | None = None,
        positions: RelativePositions | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        if history is not None and not isinstance(score, TanhSum):
            raise ValueError(f"a history adds to the sum in an additive score; {type(score).__name__} has none")
        self.score, self.history, self.positions, self.dropout = score, history, positions, dropout
        self.align = Softmax() if align is None else align
        self.check_sizes()

    @property
    def widths(self) -> Widths:
        """Expected widths of queries, keys and values; None for any (queries: the width of the keys)."""
        query, key, value = self.score.widths
        return self.align.query_width if query is None else query, key, value

    def check_sizes(self, query: int | None = None, key: int | None = None, heads: int | None = None) -> None:
        """Check that the parts fit each other, and queries and keys of these widths in so many heads; None is any.
        Raises InputError, which names the part."""
        score, align, positions, history = self.score, self.align, self.positions, self.history
        name = f"the score {type(score).__name__}"
        query = score.query_width if query is None else query
        expect_size(name, score.query_width, "the query", query)
        expect_size(name, score.key_width, "the memory's key", key)
        expect_size(name, score.heads, "the attention", heads, HEADS)
        if score.query_width is score.key_width is None and not score.by_place:
            expect_size(f"{name} of the memory's keys", key, "the query", query)
        expect_size(f"the alignment {type(align).__name__}", align.query_width, "the query", query)
        expect_size(f"the alignment {type(align).__name__}", align.heads, "the attention", heads, HEADS)
        if positions is not None:
            expect_size(f"the positions {type(positions).__name__}", positions.width, "the query", query)
            expect_size(f"the positions {type(positions).__name__}", positions.heads, "the attention", heads, HEADS)
        if history is not None and isinstance(score, TanhSum):
            expect_size(f"the history {type(history).__name__}", history.width, name, score.hidden_width)

    def prepare(self, memory: Memory, *, turned: bool = False) -> Memory:
        """Compute the score's key side, once per memory, of keys that are `turned` by their positions or not yet.
        Raises ValueError for keys of another width."""
        if self.score.key_width not in (None, memory.key.shape[-1]):
            self.check_sizes(key=memory.key.shape[-1])
        key = memory.key if turned else self._turned(memory.key, 0 if memory.places is None else memory.places)
        key = self.score.prepare(key)
        steady = self.history is None and runs(self.score, TanhSum) and can_fuse(key)
        return replace(memory, key=key, exponentials=exponentials(key) if steady else None, clean=False)

    def read(
        self,
        query: Tensor,
        memory: Memory,
        state: Any = None,
        *,
        weights: bool = False,
        places: Tensor | int | None = None,
        turned: bool = False,
    ) -> Read:
        """Read a prepared memory with queries `(*batch, query, query_width)`. `state` is the alignment's, None at the
        first step. The result holds the weights only if `weights` is True. `places ([batch,] query)` are the positions
        of the queries, for relative positions, or the first of them; by default those of the first keys. Queries are
        `turned` by them or not yet."""
        observer = observer_of(self)
        needs_weights = weights or (observer is not None and observer.needs_weights)
        query, bias = self._placed(query, memory, places, turned)
        parts = self.score, self.align, self.history
        if memory.bias is not None:
            bias = TensorBias(memory.bias) if bias is None else SumOfBiases(bias, TensorBias(memory.bias))
        rate = self.dropout if self.training else 0.0
        lookup = Lookup(*parts, query, memory, state, observer is not None, needs_weights, bias, rate)
        read = first_that_serves(self.paths, lookup).read(lookup)
        if observer is not None:
            observer.receive(self, record_of(lookup, read))
        return Read(read.context, read.state, read.weights if weights else None)

    def _turned(self, states: Tensor, places: Tensor | int) -> Tensor:
        """Queries or keys turned by their positions."""
        if self.positions is None:
            return states
        if isinstance(places, Tensor):
            return self.positions.rotate(states, places)
        return self.positions.rotate_from(states, places)

    def _placed(
        self, query: Tensor, memory: Memory, places: Tensor | int | None, turned: bool
    ) -> tuple[Tensor, Bias | None]:
        """The queries turned by their positions, and the bias that positions add to scores."""
        positions, count = self.positions, query.shape[-2]
        if positions is None or (turned and not positions.adds_bias):
            return query, None
        if places is None and isinstance(memory.places, Tensor):
            if count > memory.places.shape[-1]:
                known = memory.places.shape[-1]
                raise ValueError(f"{count} queries read {known} keys with places; give the queries' places too")
            places = memory.places[..., :count]
        elif places is None:
            places = memory.places or 0
        query = query if turned else self._turned(query, places)
        if not positions.adds_bias:
            return query, None
        return query, Bias(positions, query, counted(places, count, query.device), memory.positions())

    def forward(self, query: Float[Tensor, "..."], memory: Memory) -> Context:
        """Queries `(*batch, query, query_width)` -> context `(*batch, query, value_width)`. Raises the errors of
        `attend`."""
        check(query, memory.key, memory.value, memory.mask, self.widths)
        return self.read(query, self.prepare(memory)).context
