"""The mechanisms of the cost experiment: their construction and their expected cost.

Costs are sums of terms. A term counts operations or stored numbers per combination of the sizes in its name: `{"BNND":
12}` is 12 B N N D, and `{"BNDD/H": 18}` is 18 B N D D / H. The letters: B batch, N length, D width, H heads, Q queries
of another sequence, W keys in a window. An addition, a product, an exponential and a tanh are one operation each; the
backward pass of a matrix product is two such products."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import Attend, attend
from regard.attention.align import Align, LocalMonotonic, LocalPredictive, Softmax
from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import causal
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Cosine, Dot, General, Location, Score

QUERIES = 32
"""The length of the querying sequence in cross-attention."""
REACH = 8
"""The reach of a window to either side."""
Terms = Mapping[str, int]


@dataclass(frozen=True)
class Sizes:
    """The sizes of one measurement. The width is that of all heads together."""

    batch: int = 2
    length: int = 256
    width: int = 64
    heads: int = 4

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    def count(self, terms: Terms) -> float:
        """The sum of the terms for these sizes."""
        values = {
            "B": self.batch,
            "N": self.length,
            "D": self.width,
            "H": self.heads,
            "Q": QUERIES,
            "W": min(2 * REACH + 1, self.length),
        }
        total = 0.0
        for letters, factor in terms.items():
            above, _, below = letters.partition("/")
            total += (
                factor
                * math.prod(values[each] for each in above)
                / math.prod(values[each] for each in below)
            )
        return total


class Work(NamedTuple):
    """A forward pass as a call without arguments, and the tensors to differentiate by."""

    forward: Callable[[], Tensor]
    leaves: Sequence[Tensor]


class Mechanism(NamedTuple):
    """A mechanism: its construction for given sizes, and its highest-order operations and stored numbers in
    training."""

    make: Callable[[Sizes], Work]
    operations: Terms
    stored: Terms


def states(*shape: int) -> Tensor:
    """Random inputs that require a gradient."""
    return torch.randn(shape).requires_grad_()


def lookup(
    score: Callable[[Sizes], Score],
    align: Callable[[Sizes], Align] = lambda sizes: Softmax(),
    *,
    weights: bool = False,
) -> Callable[[Sizes], Work]:
    """Heads with as many keys as queries. Their width is that of one head."""

    def make(sizes: Sizes) -> Work:
        attend = Attend(score(sizes), align(sizes))
        query, key, value = (
            states(sizes.batch, sizes.heads, sizes.length, sizes.head_width)
            for _ in range(3)
        )

        def forward() -> Tensor:
            memory = Memory(key, value, clean=False)
            return attend.read(query, attend.prepare(memory), weights=weights).context

        return Work(forward, [query, key, value, *attend.parameters()])

    return make


def additive(sizes: Sizes) -> Score:
    """The additive score of one head's keys and queries."""
    return Additive(
        sizes.head_width, sizes.head_width, sizes.head_width, heads=sizes.heads
    )


def by_formula(sizes: Sizes) -> Work:
    """The additive score in the form that stores a number for each query, key and dimension. Without a C++ compiler,
    `Attend` uses this form."""
    score = additive(sizes)
    query, key, value = (
        states(sizes.batch, sizes.heads, sizes.length, sizes.head_width)
        for _ in range(3)
    )
    return Work(
        lambda: attend(query, key, value, score=score)[0],
        [query, key, value, *score.parameters()],
    )


def encoder(sizes: Sizes) -> Work:
    """Self-attention with heads and projections."""
    heads, inputs = (
        MultiHead(sizes.width, sizes.heads),
        states(sizes.batch, sizes.length, sizes.width),
    )
    return Work(lambda: self_attention(heads, inputs), [inputs, *heads.parameters()])


def decoder(sizes: Sizes) -> Work:
    """Self-attention with a causal mask."""
    heads, inputs = (
        MultiHead(sizes.width, sizes.heads),
        states(sizes.batch, sizes.length, sizes.width),
    )
    mask = causal(sizes.length)
    return Work(
        lambda: self_attention(heads, inputs, mask), [inputs, *heads.parameters()]
    )


def cross(sizes: Sizes) -> Work:
    """Cross-attention of `QUERIES` positions to another sequence."""
    heads, read = (
        MultiHead(sizes.width, sizes.heads),
        states(sizes.batch, sizes.length, sizes.width),
    )
    query = states(sizes.batch, QUERIES, sizes.width)
    return Work(
        lambda: heads(query, Memory(read, read)), [query, read, *heads.parameters()]
    )


def recurrent(sizes: Sizes) -> Work:
    """A layer of gated recurrent units."""
    network, inputs = (
        nn.GRU(sizes.width, sizes.width, batch_first=True),
        states(sizes.batch, sizes.length, sizes.width),
    )
    return Work(lambda: network(inputs)[0], [inputs, *network.parameters()])


PRODUCTS: Terms = {"BNND": 12, "BHNN": 8}
"""Scores, their softmax and the mixture, forward and backward."""
STORED: Terms = {"BHNN": 3, "BND": 2}
"""Weights, their gradient and that of the scores; the context and the gradient of the values."""
WINDOWED: Terms = {"BNWD": 12, "BHNW": 8}
MECHANISMS: dict[str, Mechanism] = {
    "dot": Mechanism(lookup(lambda sizes: Dot()), PRODUCTS, {"BND": 4}),
    "dot, weights kept": Mechanism(
        lookup(lambda sizes: Dot(), weights=True), PRODUCTS, STORED
    ),
    "general": Mechanism(
        lookup(
            lambda sizes: General(sizes.head_width, sizes.head_width, heads=sizes.heads)
        ),
        {**PRODUCTS, "BNDD/H": 6},
        {"BND": 6},
    ),
    "cosine": Mechanism(lookup(lambda sizes: Cosine()), PRODUCTS, {"BND": 6}),
    "additive": Mechanism(
        lookup(additive), {"BNND": 18, "BHNN": 8, "BNDD/H": 12}, {"BHNN": 3, "BND": 8}
    ),
    "additive, plain": Mechanism(
        by_formula, {"BNND": 18, "BHNN": 8, "BNDD/H": 12}, {"BNND": 3}
    ),
    "location": Mechanism(
        lookup(
            lambda sizes: Location(sizes.head_width, sizes.length, heads=sizes.heads)
        ),
        PRODUCTS,
        STORED,
    ),
    "local-m": Mechanism(
        lookup(lambda sizes: Dot(), lambda sizes: LocalMonotonic(REACH)),
        WINDOWED,
        {"BHNW": 3, "BND": 2},
    ),
    "local-p": Mechanism(
        lookup(
            lambda sizes: Dot(),
            lambda sizes: LocalPredictive(sizes.head_width, sizes.head_width, REACH),
        ),
        {**WINDOWED, "BNDD/H": 6},
        {"BHNW": 4, "BND": 4},
    ),
    "self-attention": Mechanism(encoder, {**PRODUCTS, "BNDD": 24}, {"BND": 9, "DD": 4}),
    "causal self-attention": Mechanism(
        decoder, {"BNND": 6, "BHNN": 4, "BNDD": 24}, {"BND": 9, "DD": 4}
    ),
    "cross-attention": Mechanism(
        cross,
        {"BQND": 12, "BHQN": 8, "BNDD": 12, "BQDD": 12},
        {"BND": 5, "BQD": 4, "BHQN": 2, "DD": 4},
    ),
    "GRU": Mechanism(recurrent, {"BNDD": 36}, {"BND": 9, "DD": 6}),
}
