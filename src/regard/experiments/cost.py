"""Growth of the time and memory of each mechanism with length.

Costs are sums of terms. A term counts operations or stored numbers per combination of
the sizes in its name: `{"BNND": 12}` is 12 B N N D. The letters: B batch, N length, D
width of all heads, H heads, K width of a head, Q queries of another sequence, W keys in
a window. An addition, a product, an exponential and a tanh are one operation each; the
backward pass of a matrix product is two such products.
"""

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import Timer

from regard.attention import Attend, attend
from regard.attention.align import Align, LocalMonotonic, LocalPredictive, Softmax
from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import causal
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Cosine, Dot, General, Location, Score
from regard.experiments.sweep import Finding, Lines, Setting
from regard.pictures.chart import Chart

QUERIES = 32
"""The length of the querying sequence in cross-attention."""
REACH = 8
"""The reach of a window to either side."""
Terms = Mapping[str, int]
Numbers = Sequence[float | int]


@dataclass(frozen=True)
class Sizes:
    """The sizes of one measurement. The width is that of all heads together."""

    batch: int = 2
    length: int = 256
    width: int = 64
    heads: int = 4

    @property
    def head_width(self) -> int:
        """The width of one head."""
        return self.width // self.heads

    def count(self, terms: Terms) -> int:
        """Return the sum of the terms for these sizes."""
        window = min(2 * REACH + 1, self.length)
        values = {"B": self.batch, "N": self.length, "D": self.width, "H": self.heads}
        values |= {"K": self.head_width, "Q": QUERIES, "W": window}
        return sum(
            factor * math.prod(values[letter] for letter in letters)
            for letters, factor in terms.items()
        )


class Work(NamedTuple):
    """A forward pass as a call without arguments, its module and its inputs."""

    forward: Callable[[], Tensor]
    module: nn.Module
    inputs: Sequence[Tensor]


class Mechanism(NamedTuple):
    """A mechanism: how it is built, and its operations and stored numbers in training."""

    make: Callable[[Sizes], Work]
    operations: Terms
    stored: Terms


def random_states(sizes: Sizes, length: int) -> Tensor:
    """Return random states of a sequence that require a gradient."""
    return torch.randn(sizes.batch, length, sizes.width).requires_grad_()


def random_heads(sizes: Sizes) -> list[Tensor]:
    """Return queries, keys and values of all heads."""
    shape = sizes.batch, sizes.heads, sizes.length, sizes.head_width
    return [torch.randn(shape).requires_grad_() for _ in range(3)]


def look_up(
    sizes: Sizes, score: Score, align: Align | None = None, *, weights: bool = False
) -> Work:
    """Look up as many queries as keys in each head."""
    module = Attend(score, align or Softmax())
    query, key, value = random_heads(sizes)

    def forward() -> Tensor:
        memory = module.prepare(Memory(key, value, zero_masked=False))
        return module.read(query, memory, weights=weights).context

    return Work(forward, module, [query, key, value])


def additive(sizes: Sizes) -> Additive:
    """Return the additive score of one head's keys and queries."""
    return Additive(*[sizes.head_width] * 3, heads=sizes.heads)


def look_up_plainly(sizes: Sizes) -> Work:
    """Look up with the additive score that stores a number per query, key and dimension.

    `Attend` uses this form without a C++ compiler.
    """
    score, inputs = additive(sizes), random_heads(sizes)
    return Work(lambda: attend(*inputs, score=score)[0], score, inputs)


def attend_itself(sizes: Sizes, *, is_causal: bool = False) -> Work:
    """Attend a sequence to itself with heads and projections."""
    heads = MultiHead(sizes.width, sizes.heads)
    states = random_states(sizes, sizes.length)
    mask = causal(sizes.length) if is_causal else None
    return Work(lambda: self_attention(heads, states, mask), heads, [states])


def attend_across(sizes: Sizes) -> Work:
    """Attend `QUERIES` positions to another sequence."""
    heads = MultiHead(sizes.width, sizes.heads)
    states = random_states(sizes, sizes.length)
    query = random_states(sizes, QUERIES)
    return Work(lambda: heads(query, Memory(states, states)), heads, [query, states])


def recur(sizes: Sizes) -> Work:
    """Apply a layer of gated recurrent units."""
    network = nn.GRU(sizes.width, sizes.width, batch_first=True)
    states = random_states(sizes, sizes.length)
    return Work(lambda: network(states)[0], network, [states])


PRODUCTS: Terms = {"BNND": 12, "BHNN": 8}
"""Scores, their softmax and the mixture, forward and backward."""
STORED: Terms = {"BHNN": 3, "BND": 2}
"""Weights, their gradient and that of the scores; the context and the gradient of the
values."""
ADDITIVE: Terms = {"BNND": 18, "BHNN": 8, "BNDK": 12}
WINDOWED: Terms = {"BNWD": 12, "BHNW": 8}
PROJECTED: Terms = {"BND": 9, "DD": 4}
MECHANISMS: dict[str, Mechanism] = {
    "dot": Mechanism(lambda sizes: look_up(sizes, Dot()), PRODUCTS, {"BND": 4}),
    "dot, weights kept": Mechanism(
        lambda sizes: look_up(sizes, Dot(), weights=True), PRODUCTS, STORED
    ),
    "general": Mechanism(
        lambda sizes: look_up(
            sizes, General(*[sizes.head_width] * 2, heads=sizes.heads)
        ),
        {**PRODUCTS, "BNDK": 6},
        {"BND": 6},
    ),
    "cosine": Mechanism(lambda sizes: look_up(sizes, Cosine()), PRODUCTS, {"BND": 6}),
    "additive": Mechanism(
        lambda sizes: look_up(sizes, additive(sizes)), ADDITIVE, {"BHNN": 3, "BND": 8}
    ),
    "additive, plain": Mechanism(look_up_plainly, ADDITIVE, {"BNND": 3}),
    "location": Mechanism(
        lambda sizes: look_up(
            sizes, Location(sizes.head_width, sizes.length, heads=sizes.heads)
        ),
        PRODUCTS,
        STORED,
    ),
    "local-m": Mechanism(
        lambda sizes: look_up(sizes, Dot(), LocalMonotonic(REACH)),
        WINDOWED,
        {"BHNW": 3, "BND": 2},
    ),
    "local-p": Mechanism(
        lambda sizes: look_up(
            sizes, Dot(), LocalPredictive(sizes.head_width, sizes.head_width, REACH)
        ),
        {**WINDOWED, "BNDK": 6},
        {"BHNW": 4, "BND": 4},
    ),
    "self-attention": Mechanism(attend_itself, {**PRODUCTS, "BNDD": 24}, PROJECTED),
    "causal self-attention": Mechanism(
        lambda sizes: attend_itself(sizes, is_causal=True),
        {"BNND": 6, "BHNN": 4, "BNDD": 24},
        PROJECTED,
    ),
    "cross-attention": Mechanism(
        attend_across,
        {"BQND": 12, "BHQN": 8, "BNDD": 12, "BQDD": 12},
        {"BND": 5, "BQD": 4, "BHQN": 2, "DD": 4},
    ),
    "GRU": Mechanism(recur, {"BNDD": 36}, {"BND": 9, "DD": 6}),
}


class MemoryCounter(TorchDispatchMode):
    """Counts the bytes of new tensors, those of the backward pass included.

    It observes every result of every operation and the end of its storage, but not
    temporary memory inside an operation.

    Attributes:
        now: The bytes alive.
        peak: The greatest number of bytes alive.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self._add((args, kwargs), is_new=False)
        result = function(*args, **(kwargs or {}))
        self._add(result, is_new=True)
        return result

    def _add(self, nested: Any, *, is_new: bool) -> None:
        """Count the tensors that were not seen before, if they are new."""
        for tensor in tree_leaves(nested):
            if not isinstance(tensor, Tensor):
                continue
            storage = tensor.untyped_storage()
            if id(storage) not in self._seen:
                self._seen.add(id(storage))
                size = storage.nbytes() if is_new else 0
                weakref.finalize(storage, self._remove, id(storage), size)
                self.now += size
                self.peak = max(self.peak, self.now)

    def _remove(self, storage: int, size: int) -> None:
        self._seen.discard(storage)
        self.now -= size


def make_step(work: Work) -> Callable[[], object]:
    """Return a forward and backward pass as a call without arguments."""
    with torch.no_grad():
        gradient = torch.ones_like(work.forward())
    leaves = [*work.inputs, *work.module.parameters()]
    return lambda: torch.autograd.grad(
        work.forward(), leaves, gradient, allow_unused=True
    )


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the peak of bytes in a call's tensors.

    Its results are included, its inputs excluded.
    """
    with MemoryCounter() as counter:
        call()
    return counter.peak


def time_call(call: Callable[[], object], seconds: float) -> float:
    """Return the median processor time of a call, repeated for so many seconds."""
    scope = {"call": call}
    timer = Timer("call()", globals=scope, timer=time.process_time, num_threads=1)
    return timer.blocked_autorange(min_run_time=seconds).median


CLAIM = (
    "Self-attention costs N² D, cross-attention from Q positions Q N D, a recurrent layer N D². Additive attention "
    "stores N² D numbers in its plain form and N² (its weights) with its kernel; other attention stores N² if it "
    "keeps its weights, and a fused kernel keeps neither. Times are those of forward and backward pass in one thread; "
    "memory is the peak of tensors beyond the inputs. B is the batch, N the length, D the width of all heads, H their "
    "number, K the width of one, Q = 32, W = 17 keys in a window."
)
FITTED = 3
"""The number of largest lengths for the fit of an exponent; at small ones the overhead
of a call dominates."""
BYTES = 4
"""The bytes of a number."""
LENGTHS = (64, 128, 256, 512, 1024)
"""The long setting has two more; lengths that would store more than a limit are
skipped."""
EXPONENTS = "time, theory", "time, measured", "memory, theory", "memory, measured"
COLUMNS = ("mechanism", "operations", *EXPONENTS, "at", "ms", "MB")


def cost(setting: Setting) -> Finding:
    """Measure a training step of each mechanism by length.

    A row has the exponents of its operation count and of its measured time over the
    largest lengths, and the same for memory, and both at the largest length.
    """
    limit, seconds, lengths = 2**28, 0.1, LENGTHS
    if setting.full:
        limit, seconds, lengths = 2**32, 0.5, (*LENGTHS, 2048, 4096)
    rows = []
    lines: dict[str, Lines] = {"ms": {}, "MB": {}}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for name, mechanism in MECHANISMS.items():
            points = []
            for length in lengths:
                sizes = Sizes(length=length)
                stored = sizes.count(mechanism.stored)
                if BYTES * stored > limit:
                    continue
                call = make_step(mechanism.make(sizes))
                milliseconds = 1e3 * time_call(call, seconds)
                operations = sizes.count(mechanism.operations)
                megabytes = peak_bytes(call) / 1e6
                points.append((length, operations, milliseconds, stored, megabytes))
            measured, *series = zip(*points, strict=True)
            exponents = [fit_exponent(measured, values) for values in series]
            _, _, milliseconds, _, megabytes = points[-1]
            rows.append(
                (
                    name,
                    format_terms(mechanism.operations),
                    *(round(exponent, 2) + 0.0 for exponent in exponents),
                    measured[-1],
                    milliseconds,
                    megabytes,
                )
            )
            lines["ms"][name] = [(float(point[0]), point[2]) for point in points]
            lines["MB"][name] = [(float(point[0]), point[4]) for point in points]
    charts = []
    for quantity, unit in (("time", "ms"), ("memory", "MB")):
        title = f"{quantity} of a training step"
        charts.append(
            Chart(
                title,
                "length N",
                unit,
                lines[unit],
                ("log", "log"),
            )
        )
    return Finding(CLAIM, COLUMNS, rows, charts)


def fit_exponent(sizes: Numbers, values: Numbers) -> float:
    """Fit the exponent of the growth of `values` with size.

    It is the least-squares slope of the logarithms over the largest sizes.
    """
    slope, _ = np.polyfit(np.log(sizes[-FITTED:]), np.log(values[-FITTED:]), 1)
    return float(slope)


def format_terms(terms: Terms) -> str:
    """Format terms without their factors: `BN²D + BHN²`."""
    names = [letters.replace("NN", "N²").replace("DD", "D²") for letters in terms]
    return " + ".join(names)
