"""The steps of a Transformer's decoder in a search by the kernel."""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

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
from regard.kernels.fused_search import SearchPlan
from regard.kernels.libraries import threads

_pointer, _size = ctypes.c_void_p, ctypes.c_int64


class DecoderWeights(NamedTuple):
    """A decoder: its layers, the embedding's table and factor, the last norm if there is one, and the output layer."""

    layers: FusedLayers
    embedding: Tensor
    scale: float
    norm: Normed | None
    output: Affine


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


class TransformerSteps:
    """A Transformer's decoder and the sources of a search.

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
    ):
        self.decoder, self.positions, self.sources, self.lengths = (
            decoder,
            positions,
            sources,
            lengths,
        )

    def start(self, kernel: ctypes.CDLL, plan: SearchPlan) -> int:
        """As `Steps`."""
        decoder, layers, sources = self.decoder, self.decoder.layers, self.sources
        heads, width = layers.key_value_heads, layers.width // layers.heads
        store = torch.empty(len(sources), 2, plan.texts, heads, plan.longest, width)
        own = [readable_struct(KernelAttention(key, value)) for key, value in store]
        read = map(readable_struct, sources)
        memories = [MemoriesStruct(*each) for each in zip(own, read, strict=True)]
        described = _Decoder(
            *(
                layers.structs,
                len(sources),
                decoder.embedding.data_ptr(),
                decoder.scale,
                self.positions.data_ptr(),
            ),
            NormStruct() if decoder.norm is None else norm_struct(decoder.norm),
            linear_struct(decoder.output),
        )
        self._store = store
        arguments = (
            described,
            (MemoriesStruct * len(memories))(*memories),
            sources[0].key.shape[-2],
        )
        start = kernel.transformer_steps
        start.argtypes = [
            *(
                ctypes.POINTER(_Decoder),
                ctypes.POINTER(MemoriesStruct),
                _size,
                _pointer,
            ),
            *(_size, _size, _pointer),
        ]
        start.restype = _pointer
        return start(
            *arguments, place(self.lengths), plan.texts, plan.longest, threads()
        )
