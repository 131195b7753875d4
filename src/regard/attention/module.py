"""The lookup as a module."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.attention.align import Align, Softmax
from regard.attention.checks import HEADS, Widths, check, expect_size
from regard.attention.fast import FAST, Path, first_that_serves
from regard.attention.lookup import Bias, Lookup, Read
from regard.attention.lookup_record import record_of
from regard.attention.memory import Memory
from regard.attention.observer import observer_of
from regard.attention.scores.protocol import Score, TanhSum, unmodified
from regard.kernels.additive import can_fuse, exponentials
from regard.kernels.product import shared_part
from regard.shapes import Context, Float


class Attend(nn.Module):
    """One score and one alignment: `attend(query, memory) -> context`.

    Prepare a memory once if many calls read it: `read(query, prepare(memory))`. `dropout` is the share of weights that
    training sets to 0 (as in the published Transformer, BERT, GPT-2 and ViT); recorded weights are those before it.
    `fast` lists the kernels that are tried before the definition; they give the same context and no weights.
    """

    fast: Sequence[Path] = FAST
    constant_keys = True
    """Whether all queries read the same prepared keys."""

    def __init__(
        self, score: Score, align: Align | None = None, *, dropout: float = 0.0
    ):
        super().__init__()
        self.score, self.align, self.dropout = (
            score,
            Softmax() if align is None else align,
            dropout,
        )
        self.check_sizes()

    @property
    def widths(self) -> Widths:
        """Expected widths of queries, keys and values; None for any (queries: the width of the keys)."""
        query, key, value = self.score.widths
        return self.align.query_width if query is None else query, key, value

    def check_sizes(
        self, query: int | None = None, key: int | None = None, heads: int | None = None
    ) -> None:
        """Check that the parts fit each other, and queries and keys of these widths in so many heads; None is any.
        Raises InputError, which names the part."""
        score, align = self.score, self.align
        name = f"the score {type(score).__name__}"
        query = score.query_width if query is None else query
        expect_size(name, score.query_width, "the query", query)
        expect_size(name, score.key_width, "the memory's key", key)
        expect_size(name, score.heads, "the attention", heads, HEADS)
        if score.query_width is score.key_width is None and not score.by_place:
            expect_size(f"{name} of the memory's keys", key, "the query", query)
        expect_size(
            f"the alignment {type(align).__name__}",
            align.query_width,
            "the query",
            query,
        )
        expect_size(
            f"the alignment {type(align).__name__}",
            align.heads,
            "the attention",
            heads,
            HEADS,
        )

    def prepare(self, memory: Memory) -> Memory:
        """Compute the score's key side, once per memory. Raises ValueError for keys of another width."""
        if self.score.key_width not in (None, memory.key.shape[-1]):
            self.check_sizes(key=memory.key.shape[-1])
        key = self.score.prepare(memory.key)
        kernel = unmodified(self.score, TanhSum) and can_fuse(key)
        return replace(
            memory,
            key=key,
            exponentials=exponentials(key) if kernel else None,
            clean=False,
        )

    def read(
        self,
        query: Tensor,
        memory: Memory,
        state: Any = None,
        *,
        weights: bool = False,
        bias: Bias | None = None,
    ) -> Read:
        """Read a prepared memory with queries `(*batch, query, query_width)`. `state` is the alignment's, None at the
        first step; `bias` is added to the scores beside the memory's own. The result holds the weights only if
        `weights` is True."""
        rate = self.dropout if self.training else 0.0
        lookup = Lookup(
            self.score, self.align, query, memory, state, biased(memory, bias), rate
        )
        observer = observer_of(self)
        read = self.compute(
            lookup, weights=weights or (observer is not None and observer.needs_weights)
        )
        if observer is not None:
            observer.receive(
                self,
                record_of(lookup, read, self.compute, constant_keys=self.constant_keys),
            )
        return read if weights else Read(read.context, read.state)

    def compute(self, lookup: Lookup, *, weights: bool) -> Read:
        """Do a lookup: by the first kernel that serves it unless all `weights` are needed, else by definition."""
        path = None if weights else first_that_serves(self.fast, lookup)
        return lookup.read() if path is None else path.read(lookup)

    def forward(self, query: Float[Tensor, "..."], memory: Memory) -> Context:
        """Queries `(*batch, query, query_width)` -> context `(*batch, query, value_width)`. Raises the errors of
        `attend`."""
        check(query, memory.key, memory.value, memory.mask, self.widths)
        return self.read(query, self.prepare(memory)).context


def biased(memory: Memory, bias: Bias | None) -> Bias | None:
    """A bias together with that of the memory."""
    own = memory.bias
    if own is None:
        return bias
    return lambda heads, rows: (
        shared_part(own, heads, rows) + (0.0 if bias is None else bias(heads, rows))
    )
