"""Greedy and beam search in one call of C++ for many steps, for inference on a CPU.

`TransformerSteps` and `RecurrentSteps` are the decoders that the kernel can search with. Weights are read in place from
their modules, as in `fused_layer`.
"""

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.kernels import fused_layer
from regard.kernels.libraries import threads

DONE, OPEN, FAILED, NO_TOKEN = range(4)
"""The kernel's constants."""
STEPS = 8
"""Steps of one call, between which a search can be cancelled."""
_pointer, _size, _half = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class SearchPlan(NamedTuple):
    """How to search.

    beam: hypotheses of a source; 0 takes the best token at every step.
    limits: the most tokens of each source's texts, `(source,)`.
    start, ends: the token before a text, and those that end one.
    closed: tokens that no text contains, and likewise the last `unused` ones.
    least: the fewest tokens of a text, the end included.
    alpha, offset: the length penalty's.
    early: whether a source is done as soon as it has `beam` ended hypotheses.
    """

    beam: int
    limits: Tensor
    start: int
    ends: tuple[int, ...]
    closed: tuple[int, ...]
    unused: int
    least: int = 0
    alpha: float = 0.0
    offset: float = 5.0
    early: bool = False

    @property
    def texts(self) -> int:
        """The most hypotheses at one time."""
        return len(self.limits) * max(1, self.beam)

    @property
    def longest(self) -> int:
        """The greatest limit."""
        return int(self.limits.max())


@runtime_checkable
class Steps(Protocol):
    """A decoder in the kernel's form."""

    def start(self, kernel: ctypes.CDLL, plan: SearchPlan) -> int:
        """The address of the kernel's object for one search, which ends with it."""
        ...


class SearchResult(NamedTuple):
    """A hypothesis: its source, its tokens without the end, its score with the length penalty, and whether it ended."""

    source: int
    tokens: tuple[int, ...]
    score: float
    finished: bool


class _Plan(ctypes.Structure):
    _fields_ = [
        *((name, _size) for name in ("sources", "beam", "longest")),
        ("limits", _pointer),
        ("start", _size),
        *((name, _pointer) for name in ("ends", "closed")),
        *((name, _size) for name in ("end_count", "closed_count", "unused", "least")),
        *((name, ctypes.c_double) for name in ("alpha", "offset")),
        *((name, _half) for name in ("greedy", "early")),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The kernel for this machine; None if there is none."""
    built = fused_layer.library()
    if built is not None:
        built.search_start.argtypes, built.search_start.restype = (
            [_pointer, ctypes.POINTER(_Plan), _pointer],
            _pointer,
        )
        built.search_advance.argtypes = [_pointer, _size]
        built.search_count.argtypes = [
            _pointer,
            ctypes.POINTER(_size),
            ctypes.POINTER(_size),
        ]
        built.search_found.argtypes = [_pointer, _pointer, _pointer, _pointer]
        built.search_end.argtypes = [_pointer]
    return built


class FusedSearch:
    """A search that has begun; `steps` goes on with it, and `results` are the hypotheses found so far."""

    def __init__(self, decoder: Steps, plan: SearchPlan):
        limits, closed = (
            plan.limits.contiguous(),
            torch.tensor(plan.closed, dtype=torch.long),
        )
        ends = torch.tensor(plan.ends, dtype=torch.long)
        self._kept = limits, ends, closed
        self._decoder, self._settings = decoder, plan
        self._plan = _Plan(
            *(
                len(limits),
                max(1, plan.beam),
                plan.longest,
                limits.data_ptr(),
                plan.start,
            ),
            *(
                ends.data_ptr(),
                closed.data_ptr(),
                len(ends),
                len(closed),
                plan.unused,
                plan.least,
            ),
            *(plan.alpha, plan.offset, plan.beam == 0, plan.early),
        )

    def steps(self) -> Iterator[int]:
        """Search to the end, and yield a `Progress` after every few steps: OPEN, and at last DONE or NO_TOKEN."""
        kernel = library()
        assert kernel is not None
        search = kernel.search_start(
            self._decoder.start(kernel, self._settings), self._plan, threads()
        )
        try:
            progress = OPEN
            while progress == OPEN:
                progress = kernel.search_advance(search, STEPS)
                if progress == FAILED:
                    raise RuntimeError("the kernel for searches failed; report it")
                yield progress
            self.results = _results(kernel, search)
        finally:
            kernel.search_end(search)


def _results(kernel: ctypes.CDLL, search: int) -> list[SearchResult]:
    hypotheses, tokens = _size(), _size()
    kernel.search_count(search, hypotheses, tokens)
    about = torch.empty(hypotheses.value, 3, dtype=torch.long)
    scores, texts = (
        torch.empty(hypotheses.value, dtype=torch.double),
        torch.empty(tokens.value, dtype=torch.long),
    )
    kernel.search_found(search, about.data_ptr(), scores.data_ptr(), texts.data_ptr())
    ids, found, first = texts.tolist(), [], 0
    for (source, count, finished), score in zip(
        about.tolist(), scores.tolist(), strict=True
    ):
        found.append(
            SearchResult(
                source, tuple(ids[first : first + count]), score, bool(finished)
            )
        )
        first += count
    return found
