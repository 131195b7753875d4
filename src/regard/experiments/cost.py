"""Growth of time and memory of each mechanism with length, batch, width and heads.

Costs are sums of terms. A term counts operations or stored numbers per combination of
the sizes in its name: `{"BNND": 12}` is 12 B N N D, and `{"BNDD/H": 18}` is 18 B N D D
/ H. The letters: B batch, N length, D width, H heads, Q queries of another sequence, W
keys in a window. An addition, a product, an exponential and a tanh are one operation
each; the backward pass of a matrix product is two such products.
"""

import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention import Attend, attend
from regard.attention.align import Align, LocalMonotonic, LocalPredictive, Softmax
from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import causal
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Cosine, Dot, General, Location, Score
from regard.experiments.sweep import Finding, Setting
from regard.pictures.chart import Pairs

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
        """Return the sum of the terms for these sizes."""
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
                * math.prod(values[letter] for letter in above)
                / math.prod(values[letter] for letter in below)
            )
        return total


class Work(NamedTuple):
    """A forward pass as a call without arguments, and the tensors to differentiate by."""

    forward: Callable[[], Tensor]
    leaves: Sequence[Tensor]


class Mechanism(NamedTuple):
    """A mechanism: how it is built, and its operations and stored numbers in training."""

    make: Callable[[Sizes], Work]
    operations: Terms
    stored: Terms


def random_states(*shape: int) -> Tensor:
    """Random inputs that require a gradient."""
    return torch.randn(shape).requires_grad_()


def make_lookup(
    score: Callable[[Sizes], Score],
    align: Callable[[Sizes], Align] = lambda sizes: Softmax(),
    *,
    weights: bool = False,
) -> Callable[[Sizes], Work]:
    """Heads with as many keys as queries. Their width is that of one head."""

    def make(sizes: Sizes) -> Work:
        attend = Attend(score(sizes), align(sizes))
        query, key, value = (
            random_states(sizes.batch, sizes.heads, sizes.length, sizes.head_width)
            for _ in range(3)
        )

        def forward() -> Tensor:
            memory = Memory(key, value, zero_masked=False)
            return attend.read(query, attend.prepare(memory), weights=weights).context

        return Work(forward, [query, key, value, *attend.parameters()])

    return make


def additive_score(sizes: Sizes) -> Score:
    """Return the additive score of one head's keys and queries."""
    return Additive(
        sizes.head_width, sizes.head_width, sizes.head_width, heads=sizes.heads
    )


def make_plain_additive(sizes: Sizes) -> Work:
    """Make the additive score that stores a number per query, key and dimension.

    `Attend` uses this form without a C++ compiler.
    """
    score = additive_score(sizes)
    query, key, value = (
        random_states(sizes.batch, sizes.heads, sizes.length, sizes.head_width)
        for _ in range(3)
    )
    return Work(
        lambda: attend(query, key, value, score=score)[0],
        [query, key, value, *score.parameters()],
    )


def make_encoder(sizes: Sizes) -> Work:
    """Self-attention with heads and projections."""
    heads, inputs = (
        MultiHead(sizes.width, sizes.heads),
        random_states(sizes.batch, sizes.length, sizes.width),
    )
    return Work(lambda: self_attention(heads, inputs), [inputs, *heads.parameters()])


def make_decoder(sizes: Sizes) -> Work:
    """Self-attention with a causal mask."""
    heads, inputs = (
        MultiHead(sizes.width, sizes.heads),
        random_states(sizes.batch, sizes.length, sizes.width),
    )
    mask = causal(sizes.length)
    return Work(
        lambda: self_attention(heads, inputs, mask), [inputs, *heads.parameters()]
    )


def make_cross_attention(sizes: Sizes) -> Work:
    """Cross-attention of `QUERIES` positions to another sequence."""
    heads, read = (
        MultiHead(sizes.width, sizes.heads),
        random_states(sizes.batch, sizes.length, sizes.width),
    )
    query = random_states(sizes.batch, QUERIES, sizes.width)
    return Work(
        lambda: heads(query, Memory(read, read)), [query, read, *heads.parameters()]
    )


def make_recurrent(sizes: Sizes) -> Work:
    """Make a layer of gated recurrent units."""
    network, inputs = (
        nn.GRU(sizes.width, sizes.width, batch_first=True),
        random_states(sizes.batch, sizes.length, sizes.width),
    )
    return Work(lambda: network(inputs)[0], [inputs, *network.parameters()])


PRODUCTS: Terms = {"BNND": 12, "BHNN": 8}
"""Scores, their softmax and the mixture, forward and backward."""
STORED: Terms = {"BHNN": 3, "BND": 2}
"""Weights, their gradient and that of the scores; the context and the gradient of the
values."""
WINDOWED: Terms = {"BNWD": 12, "BHNW": 8}
MECHANISMS: dict[str, Mechanism] = {
    "dot": Mechanism(make_lookup(lambda sizes: Dot()), PRODUCTS, {"BND": 4}),
    "dot, weights kept": Mechanism(
        make_lookup(lambda sizes: Dot(), weights=True), PRODUCTS, STORED
    ),
    "general": Mechanism(
        make_lookup(
            lambda sizes: General(sizes.head_width, sizes.head_width, heads=sizes.heads)
        ),
        {**PRODUCTS, "BNDD/H": 6},
        {"BND": 6},
    ),
    "cosine": Mechanism(make_lookup(lambda sizes: Cosine()), PRODUCTS, {"BND": 6}),
    "additive": Mechanism(
        make_lookup(additive_score),
        {"BNND": 18, "BHNN": 8, "BNDD/H": 12},
        {"BHNN": 3, "BND": 8},
    ),
    "additive, plain": Mechanism(
        make_plain_additive, {"BNND": 18, "BHNN": 8, "BNDD/H": 12}, {"BNND": 3}
    ),
    "location": Mechanism(
        make_lookup(
            lambda sizes: Location(sizes.head_width, sizes.length, heads=sizes.heads)
        ),
        PRODUCTS,
        STORED,
    ),
    "local-m": Mechanism(
        make_lookup(lambda sizes: Dot(), lambda sizes: LocalMonotonic(REACH)),
        WINDOWED,
        {"BHNW": 3, "BND": 2},
    ),
    "local-p": Mechanism(
        make_lookup(
            lambda sizes: Dot(),
            lambda sizes: LocalPredictive(sizes.head_width, sizes.head_width, REACH),
        ),
        {**WINDOWED, "BNDD/H": 6},
        {"BHNW": 4, "BND": 4},
    ),
    "self-attention": Mechanism(
        make_encoder, {**PRODUCTS, "BNDD": 24}, {"BND": 9, "DD": 4}
    ),
    "causal self-attention": Mechanism(
        make_decoder, {"BNND": 6, "BHNN": 4, "BNDD": 24}, {"BND": 9, "DD": 4}
    ),
    "cross-attention": Mechanism(
        make_cross_attention,
        {"BQND": 12, "BHQN": 8, "BNDD": 12, "BQDD": 12},
        {"BND": 5, "BQD": 4, "BHQN": 2, "DD": 4},
    ),
    "GRU": Mechanism(make_recurrent, {"BNDD": 36}, {"BND": 9, "DD": 6}),
}


class MemoryCounter(TorchDispatchMode):
    """Counts the bytes of new tensors, those of the backward pass included: `now` alive, and at `most`.

    It observes every result of every operation and the end of its storage, but not
    temporary memory inside an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for tensor in list_tensors((args, kwargs)):
            self._meet(tensor, 0)  # older, or already counted
        result = function(*args, **(kwargs or {}))
        for tensor in list_tensors(result):
            self._meet(tensor, tensor.untyped_storage().nbytes())
        return result

    def _meet(self, tensor: Tensor, size: int) -> None:
        storage = tensor.untyped_storage()
        if id(storage) in self._known:
            return
        self._known.add(id(storage))
        weakref.finalize(storage, self._leave, id(storage), size)
        self.now += size
        self.most = max(self.most, self.now)

    def _leave(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self.now -= size


def list_tensors(nested: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested arguments."""
    return (leaf for leaf in tree_leaves(nested) if isinstance(leaf, Tensor))


def make_step(work: Work) -> Callable[[], object]:
    """Return a forward and backward pass as a call without arguments."""
    with torch.no_grad():
        gradient = torch.ones_like(work.forward())

    def call() -> object:
        return torch.autograd.grad(
            work.forward(), work.leaves, gradient, allow_unused=True
        )

    return call


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the peak of bytes in a call's tensors.

    Its results are included, its inputs excluded.
    """
    with MemoryCounter() as alive:
        call()
    return alive.most


def time_calls(
    calls: Sequence[Callable[[], object]], rounds: int, least: float = 0.005
) -> list[float]:
    """Return the median processor time of each call over rounds.

    All calls alternate, each repeated for `least` seconds or more per round, so that
    other programs have little effect.
    """
    times, results = [1] * len(calls), [[] for _ in calls]
    for turn in range(
        rounds + 1
    ):  # the first call warms up and determines the number of repetitions
        for place, call in enumerate(calls):
            began = time.process_time()
            for _ in range(times[place]):
                call()
            duration = (time.process_time() - began) / times[place]
            if turn:
                results[place].append(duration)
            else:
                times[place] = 1 + int(least / max(duration, 1e-6))
    return [median(durations) for durations in results]


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, PyTorch uses one thread: a second one would speed up large sizes only."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


CLAIM = (
    "Self-attention costs N² D, cross-attention from Q positions Q N D, a recurrent layer N D². Additive attention "
    "stores N² D numbers in its plain form and N² (its weights) with its kernel; other attention stores N² if it "
    "keeps its weights, and a fused kernel keeps neither. Times are those of forward and backward pass in one thread; "
    "memory is the peak of tensors beyond the inputs. B is the batch, N the length, D the width of all heads, H their "
    "number, Q = 32, W = 17 keys in a window."
)
FITTED = 3
"""The number of largest sizes for the fit of an exponent; at small sizes the overhead
of a call dominates."""
NUMBER = 4
"""Bytes of a number."""


class Point(NamedTuple):
    """A size and its cost in milliseconds and megabytes."""

    size: int
    time: float
    memory: float


def cost(setting: Setting) -> Finding:
    """Measure each mechanism while one size varies.

    A row has the exponents of its operation count and of its measured time over the
    largest sizes, and the same for memory.
    """
    sweeps = SWEEPS_FULL if setting.full else SWEEPS
    limit, rounds = (2**32, 9) if setting.full else (2**28, 5)
    rows = []
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for name, mechanism in MECHANISMS.items():
            for by, values in sweeps.items():
                if by == "heads" and "H" not in "".join(mechanism.operations):
                    continue
                sizes = [replace(Sizes(), **{by: value}) for value in values]
                sizes = [
                    size
                    for size in sizes
                    if NUMBER * size.count(mechanism.stored) <= limit
                ]
                rows.append(
                    build_row(
                        name,
                        mechanism,
                        by,
                        sizes,
                        measure_mechanism(mechanism, by, sizes, rounds),
                    )
                )
    return Finding(CLAIM, COLUMNS, rows, list_charts(rows))


SWEEPS = {
    "heads": (1, 2, 4, 8, 16),
    "batch": (1, 2, 4, 8),
    "width": (16, 32, 64, 128, 256),
    "length": (64, 128, 256, 512, 1024),
}
SWEEPS_FULL = {
    "heads": (1, 2, 4, 8, 16, 32),
    "batch": (1, 2, 4, 8, 16, 32),
    "width": (16, 32, 64, 128, 256, 512, 1024),
    "length": (64, 128, 256, 512, 1024, 2048, 4096),
}
"""Sizes to vary one at a time, with the others at their defaults. Sizes that would
store more than the limit are skipped."""
SIZES = {
    "length": "length N",
    "batch": "batch B",
    "width": "width D",
    "heads": "number of heads H",
}
"""The displayed names of the varied sizes, in the order of the charts."""
FIGURES = ("time", "ms"), ("memory", "MB")
COLUMNS = (
    *(
        "mechanism",
        "operations",
        "by",
        "time, theory",
        "time, measured",
        "memory, theory",
        "memory, measured",
    ),
    *("at", "ms", "MB"),
)


def measure_mechanism(
    mechanism: Mechanism, by: str, sizes: Sequence[Sizes], rounds: int
) -> list[Point]:
    """Measure the cost of a mechanism at each of the sizes."""
    calls = [make_step(mechanism.make(size)) for size in sizes]
    memory = [peak_bytes(call) / 1e6 for call in calls]
    times = [1e3 * duration for duration in time_calls(calls, rounds)]
    return [
        Point(getattr(size, by), *costs)
        for size, *costs in zip(sizes, times, memory, strict=True)
    ]


def build_row(
    name: str,
    mechanism: Mechanism,
    by: str,
    sizes: Sequence[Sizes],
    points: Sequence[Point],
) -> tuple:
    """Return the exponents, and the cost at the largest size."""
    places = [point.size for point in points]
    counted = (
        fit_exponent(places, [size.count(terms) for size in sizes])
        for terms in mechanism[1:]
    )
    fitted = (
        fit_exponent(places, [getattr(point, name) for point in points])
        for name in ("time", "memory")
    )
    (time_theory, memory_theory), (time, memory) = counted, fitted
    exponents = (
        round(value, 2) + 0.0 for value in (time_theory, time, memory_theory, memory)
    )
    last = points[-1]
    return (
        name,
        format_terms(mechanism.operations),
        by,
        *exponents,
        last.size,
        last.time,
        last.memory,
    )


def fit_exponent(sizes: Sequence[int], values: Sequence[float | int]) -> float:
    """Fit the exponent of the growth of `values` with size.

    It is the least-squares slope of the logarithms over the largest sizes.
    """
    pairs = [
        (math.log(size), math.log(value))
        for size, value in zip(sizes, values, strict=True)
    ][-FITTED:]
    middle = [sum(values) / len(pairs) for values in zip(*pairs, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in pairs)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in pairs) / spread


def format_terms(terms: Terms) -> str:
    """Format terms without their factors: `BN²D + BHN²`."""
    powers = ("", "²", "³")
    named = []
    for letters in terms:
        above, slash, below = letters.partition("/")
        named.append(
            "".join(
                letter + powers[above.count(letter) - 1]
                for letter in dict.fromkeys(above)
            )
            + slash
            + below
        )
    return " + ".join(named)


def list_charts(rows: Sequence[tuple]) -> list[Pairs]:
    """Return the growth of time and memory with each varied size, side by side."""
    records = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    varied = {by: [record for record in records if record["by"] == by] for by in SIZES}
    return [
        chart_growth(by, varied[by], *figure)
        for by in SIZES
        if varied[by]
        for figure in FIGURES
    ]


def chart_growth(
    by: str, rows: Sequence[Mapping[str, Any]], quantity: str, unit: str
) -> Pairs:
    """Return the expected and measured exponents, the most expensive first.

    The remarks are the cost at the largest size.
    """
    ordered = sorted(rows, key=lambda row: -row["time, measured"])
    return Pairs(
        f"how {quantity} grows with the {SIZES[by]}",
        f"exponent of {SIZES[by][-1]}",
        {
            row["mechanism"]: (row[f"{quantity}, theory"], row[f"{quantity}, measured"])
            for row in ordered
        },
        {
            row["mechanism"]: f"{row[unit]:.3g} {unit} at {row['at']:,}"
            for row in ordered
        },
        ("as counted", "as measured"),
    )
