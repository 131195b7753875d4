"""Growth of the time and memory of each mechanism with length.

The letters of formulas: B batch, N length, D width of all heads, H heads, K width of a
head, Q queries of another sequence, W keys in a window.
"""

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import Timer

from regard.attention import Attend, attend
from regard.attention.align import Hard, LocalMonotonic, LocalPredictive, Softmax
from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import causal
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Cosine, Dot, General, Location
from regard.experiments.sweep import Finding, Setting, collect_lines
from regard.pictures.chart import Chart

BATCH, WIDTH, HEADS, QUERIES = 2, 64, 4, 32
"""The sizes B, D, H and Q."""
HEAD_WIDTH = WIDTH // HEADS
REACH = 8
"""The reach of a window to either side."""
Step = Callable[[], object]
"""A forward and backward pass as a call without arguments."""


def make_step(forward: Callable[[], Tensor], module: Any, *inputs: Tensor) -> Step:
    """Return the training step of a forward pass with its module and its inputs."""
    with torch.no_grad():
        gradient = torch.ones_like(forward())
    leaves = [*inputs, *module.parameters()]
    return lambda: torch.autograd.grad(forward(), leaves, gradient, allow_unused=True)


def random_tensor(*shape: int) -> Tensor:
    """Return random numbers that require a gradient."""
    return torch.randn(shape).requires_grad_()


def look_up(
    length: int, score: Any, align: Any = None, *, weights: bool = False
) -> Step:
    """Look up as many queries as keys in each head."""
    module = Attend(score, align or Softmax())
    shape = BATCH, HEADS, length, HEAD_WIDTH
    query, key, value = (random_tensor(*shape) for _ in range(3))

    def forward() -> Tensor:
        memory = module.prepare(Memory(key, value, zero_masked=False))
        return module.read(query, memory, weights=weights).context

    return make_step(forward, module, query, key, value)


def additive() -> Additive:
    """Return the additive score of one head's keys and queries."""
    return Additive(*[HEAD_WIDTH] * 3, heads=HEADS)


def look_up_plainly(length: int) -> Step:
    """Look up with the additive score that stores a number per query, key and dimension.

    `Attend` uses this form without a C++ compiler.
    """
    shape = BATCH, HEADS, length, HEAD_WIDTH
    inputs = [random_tensor(*shape) for _ in range(3)]
    score = additive()
    return make_step(lambda: attend(*inputs, score=score)[0], score, *inputs)


def attend_itself(length: int, *, is_causal: bool = False) -> Step:
    """Attend a sequence to itself with heads and projections."""
    heads = MultiHead(WIDTH, HEADS)
    states = random_tensor(BATCH, length, WIDTH)
    mask = causal(length) if is_causal else None
    return make_step(lambda: self_attention(heads, states, mask), heads, states)


def attend_across(length: int) -> Step:
    """Attend `QUERIES` positions to another sequence."""
    heads = MultiHead(WIDTH, HEADS)
    states = random_tensor(BATCH, length, WIDTH)
    query = random_tensor(BATCH, QUERIES, WIDTH)
    return make_step(lambda: heads(query, Memory(states, states)), heads, query, states)


def recur(length: int) -> Step:
    """Apply a layer of gated recurrent units."""
    network = nn.GRU(WIDTH, WIDTH, batch_first=True)
    states = random_tensor(BATCH, length, WIDTH)
    return make_step(lambda: network(states)[0], network, states)


MECHANISMS: dict[str, tuple[str, str, Callable[[int], Step]]] = {
    "dot": ("BN²D", "BND", lambda size: look_up(size, Dot())),
    "dot, weights kept": (
        "BN²D",
        "BHN²",
        lambda size: look_up(size, Dot(), weights=True),
    ),
    "general": (
        "BN²D + BNDK",
        "BND",
        lambda size: look_up(size, General(HEAD_WIDTH, HEAD_WIDTH, heads=HEADS)),
    ),
    "cosine": ("BN²D", "BND", lambda size: look_up(size, Cosine())),
    "additive": (
        "BN²D + BNDK",
        "BHN² + BND",
        lambda size: look_up(size, additive()),
    ),
    "additive, plain": ("BN²D + BNDK", "BN²D", look_up_plainly),
    "location": (
        "BN²D",
        "BHN² + BND",
        lambda size: look_up(size, Location(HEAD_WIDTH, size, heads=HEADS)),
    ),
    "local-m": (
        "BNWD",
        "BHNW + BND",
        lambda size: look_up(size, Dot(), LocalMonotonic(REACH)),
    ),
    "local-p": (
        "BNWD + BNDK",
        "BHNW + BND",
        lambda size: look_up(
            size, Dot(), LocalPredictive(HEAD_WIDTH, HEAD_WIDTH, REACH)
        ),
    ),
    "self-attention": ("BN²D + BND²", "BND + D²", attend_itself),
    "causal self-attention": (
        "BN²D + BND²",
        "BND + D²",
        lambda size: attend_itself(size, is_causal=True),
    ),
    "cross-attention": ("BQND + BND²", "BND + BHQN", attend_across),
    "GRU": ("BND²", "BND + D²", recur),
}
"""The expected terms of operations and of stored numbers, and a training step."""


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


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the peak of bytes in a call's tensors.

    Its results are included, its inputs excluded.
    """
    with MemoryCounter() as counter:
        call()
    return counter.peak


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
LENGTHS = (64, 128, 256, 512, 1024)
"""The long setting has two more. The length grows as long as the peak of memory, which
grows at most with its square, stays below a limit."""
COLUMNS = (
    "mechanism",
    "operations",
    "stored numbers",
    "exponent of time",
    "exponent of memory",
    "at",
    "ms",
    "MB",
)


def cost(setting: Setting) -> Finding:
    """Measure a training step of each mechanism by length.

    A row has the expected terms, the exponents of time and memory over the largest
    lengths, and both at the largest length.
    """
    limit, seconds, lengths = 256.0, 0.1, LENGTHS
    if setting.full:
        limit, seconds, lengths = 4096.0, 0.5, (*LENGTHS, 2048, 4096)
    rows = []
    points = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for name, (operations, stored, make) in MECHANISMS.items():
            measured = []
            for length in lengths:
                step = make(length)
                timer = Timer("step()", globals={"step": step}, timer=time.process_time)
                time_ = timer.blocked_autorange(min_run_time=seconds).median
                megabytes = peak_bytes(step) / 1e6
                measured.append((length, 1e3 * time_, megabytes))
                if megabytes * 4 > limit:
                    break
            sizes, *values = zip(*measured, strict=True)
            exponents = [round(fit_exponent(sizes, line), 2) for line in values]
            rows.append((name, operations, stored, *exponents, *measured[-1]))
            points += [(name, *point) for point in measured]
    charts = [
        Chart(
            f"{quantity} of a training step",
            "length N",
            unit,
            collect_lines(points, 1, 1, column),
            ("log", "log"),
        )
        for column, quantity, unit in ((2, "time", "ms"), (3, "memory", "MB"))
    ]
    return Finding(CLAIM, COLUMNS, rows, charts)


def fit_exponent(sizes: Sequence[float | int], values: Sequence[float | int]) -> float:
    """Fit the exponent of the growth of `values` with size.

    It is the least-squares slope of the logarithms over the largest sizes.
    """
    log_sizes = np.log(sizes[-FITTED:])
    log_values = np.log(values[-FITTED:])
    slope, _ = np.polyfit(log_sizes, log_values, 1)
    return float(slope)


HARD_CLAIM = (
    "Soft attention sums the values of all keys, hard attention fetches the value of the best one. Both score every "
    "key, so that hard attention saves what the sum costs: little with few keys, where a call costs more than the sum. "
    "A step of inference in one thread: one query for each of 16 texts, with keys and other values of width 512."
)
TEXTS, VALUE_WIDTH = 16, 512


@torch.no_grad()
def hard(setting: Setting) -> Finding:
    """Measure a step of inference with soft and with hard attention by number of keys."""
    rounds, lengths = (
        (7, (50, 196, 1000, 4000)) if setting.full else (3, (50, 196, 1000))
    )
    rows, points = [], []
    for name, score in (
        ("dot", Dot()),
        ("additive", Additive(*[VALUE_WIDTH] * 3)),
    ):
        for length in lengths:
            keys, values = torch.randn(2, TEXTS, length, VALUE_WIDTH)
            timers = []
            for align in (Softmax(), Hard()):
                attend = Attend(score, align).eval()
                memory = attend.prepare(Memory(keys, values))
                names = {"look_up": attend.read, "memory": memory, "query": keys[:, :1]}
                call = "look_up(query, memory)"
                timers.append(Timer(call, globals=names, timer=time.process_time))
            times = [
                [timer.blocked_autorange(min_run_time=0.05).median for timer in timers]
                for _ in range(rounds)
            ]
            soft, chosen = 1e3 * np.median(times, 0)
            rows.append(
                (name, length, float(soft), float(chosen), float(soft / chosen))
            )
            points += [
                (f"{name}, soft", length, soft),
                (f"{name}, hard", length, chosen),
            ]
    lines = collect_lines(points, 1, 1, 2)
    charts = [Chart("time of a step", "keys", "ms", lines, ("log", "log"))]
    columns = "score", "keys", "soft, ms", "hard, ms", "soft / hard"
    return Finding(HARD_CLAIM, columns, rows, charts)
