"""Linear maps and Transformer layers in one call of C++, for inference on a CPU.

Weights are read in place from their modules: nothing is packed, and no copy can become stale.
"""

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.int8 import Codes
from regard.kernels.libraries import dispatcher_is_idle, find, threads

ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "swish")
"""In the order of the kernel's constants."""
LINEARS = (
    "own_query",
    "own_key",
    "own_value",
    "own_output",
    "query",
    "output",
    "wide",
    "narrow",
)
NORMS = ("own_norm", "norm", "network_norm")
_pointer, _size, _half = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class Affine(NamedTuple):
    """A linear map: its weight `(outputs, inputs)` in float32 or int8, and its bias."""

    weight: Tensor | Codes
    bias: Tensor | None


class Normed(NamedTuple):
    """The parameters of a layer normalisation."""

    weight: Tensor
    bias: Tensor
    epsilon: float


class LinearStruct(ctypes.Structure):
    """`Linear` of the kernel."""

    _fields_ = [
        *((name, _pointer) for name in ("weight", "bias", "scale", "shift")),
        ("inputs", _size),
        ("outputs", _size),
        ("panels", _pointer),
    ]


class NormStruct(ctypes.Structure):
    """`Norm` of the kernel; without a weight there is none."""

    _fields_ = [("weight", _pointer), ("bias", _pointer), ("epsilon", ctypes.c_float)]


class LayerStruct(ctypes.Structure):
    """`Layer` of the kernel."""

    _fields_ = [
        *((name, LinearStruct) for name in LINEARS),
        *((name, NormStruct) for name in NORMS),
        *((name, _size) for name in ("width", "heads", "key_value_heads")),
        *((name, _half) for name in ("crossed", "before", "activation")),
    ]


class ReadableStruct(ctypes.Structure):
    """`Readable` of the kernel."""

    _fields_ = [
        *((name, _pointer) for name in ("key", "value")),
        *((name, _size) for name in ("row_step", "head_step", "key_step")),
        ("rows", _pointer),
        *((name, _size) for name in ("text_step", "place_step", "known")),
    ]


class MemoriesStruct(ctypes.Structure):
    """`Memories` of the kernel."""

    _fields_ = [("own", ReadableStruct), ("source", ReadableStruct)]


class CallStruct(ctypes.Structure):
    """`Call` of the kernel."""

    _fields_ = [
        ("states", _pointer),
        *((name, _size) for name in ("texts", "positions", "length", "source_keys")),
        *((name, _pointer) for name in ("lengths", "source_lengths")),
        ("causal", _half),
        ("scratch", _pointer),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The kernel for this machine; None if there is none."""
    built = find("layer").library
    if built is not None:
        built.layer_linear.argtypes = [
            ctypes.POINTER(LinearStruct),
            _pointer,
            _size,
            _pointer,
            _pointer,
        ]
        layers = ctypes.POINTER(LayerStruct), ctypes.POINTER(MemoriesStruct)
        built.layer_pass.argtypes = [
            *layers,
            _size,
            ctypes.POINTER(CallStruct),
            _pointer,
        ]
    return built


def serves(tensor: Tensor) -> bool:
    """Whether the kernel is available and supports this tensor. It supports neither gradients nor autocast."""
    mode = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")
    return (
        not mode
        and tensor.dtype == torch.float32
        and dispatcher_is_idle(tensor)
        and library() is not None
    )


def linear(states: Tensor, affine: Affine) -> Tensor:
    """W x + b of states `(*batch, inputs)` that it `serves` -> `(*batch, outputs)`."""
    kernel, described = library(), linear_struct(affine)
    assert kernel is not None
    states = states.contiguous()
    new = states.new_empty(*states.shape[:-1], described.outputs)
    rows = states.numel() // max(1, described.inputs)
    _check(
        kernel.layer_linear(
            described, states.data_ptr(), rows, new.data_ptr(), threads()
        )
    )
    return new


class KernelAttention(NamedTuple):
    """Keys and values `(row, head, key, width)` with equal strides. Text t reads position i from row `rows[t, i]`, or
    from `rows[t]` if `rows` has one axis; positions beyond `rows`, and all positions without it, are in row t."""

    key: Tensor
    value: Tensor
    rows: Tensor | None = None


class Weights(NamedTuple):
    """The weights of one layer.

    linears: by the names in `LINEARS`; `query` and `output` belong to the cross-attention, if there is one.
    norms: by the names in `NORMS`, likewise.
    heads, key_value_heads: number of heads, and of those of keys and values that they share in turn.
    before: whether norms stand before sublayers.
    activation: one of `ACTIVATIONS`.
    """

    linears: Mapping[str, Affine]
    norms: Mapping[str, Normed]
    heads: int
    key_value_heads: int
    before: bool
    activation: str


class FusedLayers:
    """Layers of one width on top of each other, in the kernel's form. The kernel reads the weights in place; they must
    not move in memory while it is used."""

    def __init__(self, layers: Sequence[Weights]):
        self.layers, first = tuple(layers), layers[0].linears
        self.heads, self.key_value_heads = layers[0].heads, layers[0].key_value_heads
        self.width, self.hidden = (
            first["own_query"].weight.shape[1],
            first["wide"].weight.shape[0],
        )
        self.structs = (LayerStruct * len(layers))(
            *(layer_struct(each) for each in layers)
        )

    def select(self, rows: Tensor) -> "FusedLayers":
        """The same layers: weights do not depend on rows."""
        return self

    def __call__(
        self,
        states: Tensor,
        own: Sequence[KernelAttention],
        length: int,
        sources: Sequence[KernelAttention] = (),
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Run the layers on states `(text, position, width)` behind `length` earlier positions. Their keys and values
        are written behind those in each layer's `own`. `lengths (row,)` are the readable lengths of the sources."""
        states = states.clone(memory_format=torch.contiguous_format)
        keys = sources[0].key.shape[-2] if sources else 0
        call = self._call(states, length, keys)
        call.causal, call.source_lengths = True, place(lengths)
        read = (
            map(readable_struct, sources)
            if sources
            else (ReadableStruct() for _ in own)
        )
        self._run(
            call,
            [
                MemoriesStruct(readable_struct(each), source)
                for each, source in zip(own, read, strict=True)
            ],
        )
        return states

    def whole(self, states: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Run the layers on complete sequences: each state reads the first `lengths (text,)` positions of its text
        (None: all)."""
        texts, positions, width = states.shape
        states = states.clone(memory_format=torch.contiguous_format)
        call = self._call(states, 0, 0)
        call.lengths = place(lengths)
        pair = states.new_empty(
            2, texts, self.key_value_heads, positions, width // self.heads
        )
        memories = MemoriesStruct(
            readable_struct(KernelAttention(pair[0], pair[1])), ReadableStruct()
        )
        self._run(call, [memories for _ in self.layers])
        return states

    def _call(self, states: Tensor, length: int, source_keys: int) -> CallStruct:
        return CallStruct(states.data_ptr(), *states.shape[:2], length, source_keys)

    def _run(self, call: CallStruct, memories: Sequence[MemoriesStruct]) -> None:
        kernel = library()
        assert kernel is not None
        scratch = torch.empty(
            call.texts * call.positions * (2 * self.width + self.hidden)
        )
        call.scratch = scratch.data_ptr()
        count = len(self.layers)
        _check(
            kernel.layer_pass(
                self.structs,
                (MemoriesStruct * count)(*memories),
                count,
                call,
                threads(),
            )
        )


def layer_struct(weights: Weights) -> LayerStruct:
    """A layer in the kernel's form."""
    linears, norms, heads, shared, before, activation = weights
    return LayerStruct(
        *(
            linear_struct(linears[name]) if name in linears else LinearStruct()
            for name in LINEARS
        ),
        *(
            norm_struct(norms[name]) if name in norms else NormStruct()
            for name in NORMS
        ),
        *(linears["own_query"].weight.shape[1], heads, shared),
        *("query" in linears, before, ACTIVATIONS.index(activation)),
    )


def linear_struct(affine: Affine) -> LinearStruct:
    """A linear map in the kernel's form."""
    weight, bias = affine
    outputs, inputs = weight.shape
    if isinstance(weight, Codes):
        places = (
            weight.codes.data_ptr(),
            place(bias),
            weight.scale.data_ptr(),
            weight.shift.data_ptr(),
        )
        return LinearStruct(*places, inputs, outputs)
    return LinearStruct(weight.data_ptr(), place(bias), None, None, inputs, outputs)


def norm_struct(norm: Normed) -> NormStruct:
    """A normalisation in the kernel's form."""
    return NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.epsilon)


def readable_struct(reading: KernelAttention) -> ReadableStruct:
    """Keys and values in the kernel's form."""
    key, value, rows = reading
    known = (
        ()
        if rows is None
        else (rows.data_ptr(), rows.stride(0), *_along(rows, key.shape[-2]))
    )
    return ReadableStruct(key.data_ptr(), value.data_ptr(), *key.stride()[:3], *known)


def _along(rows: Tensor, keys: int) -> tuple[int, int]:
    """Step from one position to the next in `rows`, and the number of positions it covers."""
    return (0, keys) if rows.ndim == 1 else (1, rows.shape[1])


def place(tensor: Tensor | None) -> int | None:
    """The address of a tensor's numbers."""
    return None if tensor is None else tensor.data_ptr()


def _check(failed: int) -> None:
    if failed:
        raise RuntimeError("the kernel for layers failed; report it")
