"""Greedy and beam search by a Transformer's decoder in one call of C++ for many steps, for inference on a CPU.

Weights are read in place from their modules, as in `fused_layer`.
"""

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels import fused_layer
from regard.kernels.fused_layer import (
    Affine,
    FusedLayers,
    KernelAttention,
    LayerStruct,
    LinearStruct,
    MemoriesStruct,
    Normed,
    NormStruct,
    linear_struct,
    norm_struct,
    place,
    readable_struct,
)
from regard.kernels.libraries import threads

DONE, OPEN, FAILED, NO_TOKEN = range(4)
"""The kernel's constants."""
STEPS = 8
"""Steps of one call, between which a search can be cancelled."""
_pointer, _size, _half = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class DecoderWeights(NamedTuple):
    """A decoder: its layers, the embedding's table and factor, the last norm if there is one, and the output layer."""

    layers: FusedLayers
    embedding: Tensor
    scale: float
    norm: Normed | None
    output: Affine


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


class SearchResult(NamedTuple):
    """A hypothesis: its source, its tokens without the end, its score with the length penalty, and whether it ended."""

    source: int
    tokens: tuple[int, ...]
    score: float
    finished: bool


class _Decoder(ctypes.Structure):
    _fields_ = [
        ("layers", ctypes.POINTER(LayerStruct)),
        ("count", _size),
        ("embedding", _pointer),
        ("scale", ctypes.c_float),
        ("positions", _pointer),
        ("norm", NormStruct),
        ("output", LinearStruct),
    ]


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
        start = ctypes.POINTER(_Decoder), ctypes.POINTER(MemoriesStruct), _size, _pointer, ctypes.POINTER(_Plan)
        built.search_start.argtypes, built.search_start.restype = [*start, _pointer], _pointer
        built.search_advance.argtypes = [_pointer, _size]
        built.search_count.argtypes = [_pointer, ctypes.POINTER(_size), ctypes.POINTER(_size)]
        built.search_found.argtypes = [_pointer, _pointer, _pointer, _pointer]
        built.search_end.argtypes = [_pointer]
    return built


class FusedSearch:
    """A search that has begun; `steps` goes on with it, and `results` are the hypotheses found so far.

    Args:
        positions: encodings of the positions of a text, `(longest limit, width)`.
        sources: the prepared keys and values of each layer.
        lengths: the readable length of each source, `(source,)`; None for all of it.
    """

    def __init__(
        self,
        decoder: DecoderWeights,
        positions: Tensor,
        sources: Sequence[KernelAttention],
        lengths: Tensor | None,
        plan: SearchPlan,
    ):
        layers = decoder.layers
        texts, longest = len(plan.limits) * max(1, plan.beam), int(plan.limits.max())
        heads, width = layers.key_value_heads, layers.width // layers.heads
        store = torch.empty(len(sources), 2, texts, heads, longest, width)
        limits, closed = plan.limits.contiguous(), torch.tensor(plan.closed, dtype=torch.long)
        ends = torch.tensor(plan.ends, dtype=torch.long)
        own = [readable_struct(KernelAttention(key, value)) for key, value in store]
        read = map(readable_struct, sources)
        memories = [MemoriesStruct(*each) for each in zip(own, read, strict=True)]
        self._kept = store, positions, sources, lengths, limits, ends, closed, decoder
        self._decoder = _Decoder(
            *(layers.structs, len(sources), decoder.embedding.data_ptr(), decoder.scale, positions.data_ptr()),
            NormStruct() if decoder.norm is None else norm_struct(decoder.norm),
            linear_struct(decoder.output),
        )
        self._plan = _Plan(
            *(len(limits), max(1, plan.beam), longest, limits.data_ptr(), plan.start),
            *(ends.data_ptr(), closed.data_ptr(), len(ends), len(closed), plan.unused, plan.least),
            *(plan.alpha, plan.offset, plan.beam == 0, plan.early),
        )
        self._memories = (MemoriesStruct * len(memories))(*memories)
        self._lengths = lengths
        self._keys = sources[0].key.shape[-2]

    def steps(self) -> Iterator[int]:
        """Search to the end, and yield a `Progress` after every few steps: OPEN, and at last DONE or NO_TOKEN."""
        kernel = library()
        assert kernel is not None
        search = kernel.search_start(
            self._decoder, self._memories, self._keys, place(self._lengths), self._plan, threads()
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
    scores, texts = torch.empty(hypotheses.value, dtype=torch.double), torch.empty(tokens.value, dtype=torch.long)
    kernel.search_found(search, about.data_ptr(), scores.data_ptr(), texts.data_ptr())
    ids, found, first = texts.tolist(), [], 0
    for (source, count, finished), score in zip(about.tolist(), scores.tolist(), strict=True):
        found.append(SearchResult(source, tuple(ids[first : first + count]), score, bool(finished)))
        first += count
    return found
