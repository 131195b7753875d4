"""Additive scores: the plain form, and PyTorch operators around `additive.cpp`, which store no query x key x width
tensor."""

import ctypes
import math
from functools import cache

import torch
from torch import Tensor

from regard.kernels.libraries import find, threads

DTYPES = (torch.float32, torch.bfloat16)
ROUND = 16
"""Rows of exponentials are padded to a multiple of this."""


class _Problem(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("query", "key", "exponentials", "energy")
        ),
        *((name, ctypes.c_int64) for name in ("batches", "queries", "keys", "width")),
        *(
            (name, ctypes.c_int64)
            for name in ("query_step", "key_step", "exponentials_step", "energy_step")
        ),
    ]


def additive(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """e_ti = energy . tanh(query_t + key_i), in its plain form, which stores query x key x width numbers.

    `(*batch, query, width)`, `(*batch, key, width)` and `energy`, broadcastable to `(*batch, 1, width)` -> `(*batch,
    query, key)`.
    """
    hidden = (query[..., :, None, :] + key[..., None, :, :]).tanh()
    return (
        hidden @ energy[..., None, :, None]
        if energy.ndim > 1
        else hidden @ energy[:, None]
    ).squeeze(-1)


@cache
def library() -> ctypes.CDLL | None:
    """The kernel for this machine; None if there is none."""
    built = find("additive").library
    if built is not None:
        problem, size, half, pointer = (
            ctypes.POINTER(_Problem),
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_void_p,
        )
        built.additive_exponentials.argtypes = [
            pointer,
            size,
            size,
            half,
            pointer,
            pointer,
        ]
        built.additive_scores.argtypes = [problem, half, pointer, pointer]
        built.additive_gradients.argtypes = [problem, half, *(5 * [pointer])]
    return built


def can_fuse(key: Tensor) -> bool:
    """Whether `fused_additive` serves these keys: on a CPU, in float32 or bfloat16, if the kernel is available. On a
    GPU the plain form is used; the Triton kernel there has not been measured."""
    if torch.compiler.is_exporting():
        return False  # other runtimes lack the kernel
    supported = key.device.type == "cpu" and key.dtype in DTYPES
    return supported and (torch.compiler.is_compiling() or library() is not None)


def exponentials(key: Tensor) -> Tensor:
    """The input of `fused_additive` for keys `(*batch, key, width)`, without a gradient: `(*batch, key, any width)`."""
    return _EXPONENTIALS(key.detach())


def fused_additive(
    query: Tensor, key: Tensor, energy: Tensor, prepared: Tensor | None = None
) -> Tensor:
    """`additive` of the same arguments, whose batch axes may also broadcast to each other.

    Sums are in float32; the result and gradients have the dtype that query and key promote to. They do not depend on
    the number of threads. Second derivatives use the plain form.

    Args:
        prepared: `exponentials(key)`, for keys that are read more than once. Default: computed here.
    """
    batch, dtype = query.shape[:-2], query.dtype
    if batch != key.shape[:-2]:
        batch = torch.broadcast_shapes(batch, key.shape[:-2])
    if dtype != key.dtype:
        dtype = torch.promote_types(dtype, key.dtype)
    prepared = exponentials(key) if prepared is None else prepared
    energy = (
        energy.to(torch.float32)
        .expand(*batch, energy.shape[-1])
        .reshape(math.prod(batch), energy.shape[-1])
    )
    sides = (_rows(side, batch) for side in (query.to(dtype), key.to(dtype), prepared))
    return _SCORES(*sides, energy).view(*batch, query.shape[-2], key.shape[-2])


def _rows(states: Tensor, batch: torch.Size) -> Tensor:
    """Flatten the batch axes to one."""
    if states.ndim == 3 and states.shape[:1] == batch:
        return states
    return states.expand(*batch, *states.shape[-2:]).reshape(
        math.prod(batch), *states.shape[-2:]
    )


torch.library.define("regard::additive_exponentials", "(Tensor key) -> Tensor")
torch.library.define(
    "regard::additive_scores",
    "(Tensor query, Tensor key, Tensor exponentials, Tensor energy) -> Tensor",
)
torch.library.define(
    "regard::additive_gradients",
    "(Tensor scores, Tensor query, Tensor key, Tensor exponentials, Tensor energy) -> (Tensor, Tensor, Tensor)",
)
_EXPONENTIALS = torch.ops.regard.additive_exponentials.default
_SCORES = torch.ops.regard.additive_scores.default
_GRADIENTS = torch.ops.regard.additive_gradients.default


@torch.library.impl("regard::additive_exponentials", "cpu")
def _exponentials(key: Tensor) -> Tensor:
    kernel, new = library(), _empty_exponentials(key)
    if kernel is None:
        return new.zero_()  # the plain form reads the keys
    key = key.contiguous()
    rows, half = math.prod(key.shape[:-1]), key.dtype == torch.bfloat16
    _check(
        kernel.additive_exponentials(
            key.data_ptr(), rows, key.shape[-1], half, new.data_ptr(), threads()
        )
    )
    return new


@torch.library.impl("regard::additive_scores", "cpu")
def _scores(query: Tensor, key: Tensor, exponentials: Tensor, energy: Tensor) -> Tensor:
    kernel = library()
    if kernel is None:
        return _plain(query, key, energy)
    sides = [_dense(each) for each in (query, key, exponentials, energy)]
    scores = query.new_empty(*query.shape[:2], key.shape[1])
    _check(
        kernel.additive_scores(
            _problem(*sides),
            query.dtype == torch.bfloat16,
            scores.data_ptr(),
            threads(),
        )
    )
    return scores


@torch.library.impl("regard::additive_gradients", "cpu")
def _gradients(
    scores: Tensor, query: Tensor, key: Tensor, exponentials: Tensor, energy: Tensor
):
    kernel = library()
    if kernel is None:
        return _plain_gradients(scores, query, key, energy)
    scores, sides = (
        scores.contiguous(),
        [_dense(each) for each in (query, key, exponentials, energy)],
    )
    new = tuple(each.new_empty(each.shape) for each in (query, key, energy))
    pointers = (each.data_ptr() for each in (scores, *new))
    _check(
        kernel.additive_gradients(
            _problem(*sides), query.dtype == torch.bfloat16, *pointers, threads()
        )
    )
    return new


def _triton():
    """The Triton kernels; Triton is only in PyTorch's builds for GPUs."""
    from regard.kernels import triton_additive

    return triton_additive


@torch.library.impl("regard::additive_exponentials", "cuda")
def _exponentials_cuda(key: Tensor) -> Tensor:
    new = _empty_exponentials(key).zero_()
    new[..., : key.shape[-1]] = _triton().exponentials(key)
    return new


@torch.library.impl("regard::additive_scores", "cuda")
def _scores_cuda(
    query: Tensor, key: Tensor, exponentials: Tensor, energy: Tensor
) -> Tensor:
    return (
        _triton()
        .scores(query, key, exponentials[..., : key.shape[-1]], energy)
        .to(query.dtype)
    )


@torch.library.impl("regard::additive_gradients", "cuda")
def _gradients_cuda(
    scores: Tensor, query: Tensor, key: Tensor, exponentials: Tensor, energy: Tensor
):
    exponentials = exponentials[..., : key.shape[-1]]
    of_query, of_key, of_energy = _triton().gradients(
        scores, query, key, exponentials, energy
    )
    return of_query.to(query.dtype), of_key.to(key.dtype), of_energy


def _problem(*sides: Tensor) -> _Problem:
    query, key = sides[:2]
    sizes = (*query.shape[:2], key.shape[1], query.shape[2])
    return _Problem(
        *(each.data_ptr() for each in sides),
        *sizes,
        *(each.stride(0) for each in sides),
    )


def _dense(rows: Tensor) -> Tensor:
    """Make the rows within each batch row contiguous. Batch rows may lie anywhere in memory and may overlap."""
    if (
        rows.is_contiguous()
        or rows.stride()[1:] == (rows.shape[-1], 1)[-rows.ndim + 1 :]
    ):
        return rows
    return rows.contiguous()


def _check(failed: int) -> None:
    if failed:
        raise RuntimeError(
            "the kernel of additive scores failed; PyTorch has printed why"
        )


def _plain(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    return additive(query, key, energy.to(query.dtype))


def _plain_gradients(
    scores: Tensor, query: Tensor, key: Tensor, energy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.func.vjp(_plain, query, key, energy)[1](scores)


def _empty_exponentials(key: Tensor) -> Tensor:
    return key.new_empty(
        *key.shape[:-1], -(-key.shape[-1] // ROUND) * ROUND, dtype=torch.float32
    )


torch.library.register_fake("regard::additive_exponentials", _empty_exponentials)


@torch.library.register_fake("regard::additive_scores")
def _(query: Tensor, key: Tensor, exponentials: Tensor, energy: Tensor) -> Tensor:
    return query.new_empty(*query.shape[:2], key.shape[1])


@torch.library.register_fake("regard::additive_gradients")
def _(scores: Tensor, query: Tensor, key: Tensor, exponentials: Tensor, energy: Tensor):
    return tuple(each.new_empty(each.shape) for each in (query, key, energy))


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, scores):
    query, key, energy = _GRADIENTS(scores, *ctx.saved_tensors)
    return query, key, None, energy


def _backward_twice(ctx, query, key, energy):
    scores, *sides, _, gradient = ctx.saved_tensors
    *of_sides, of_energy = torch.func.vjp(_plain_gradients, scores, *sides, gradient)[
        1
    ]((query, key, energy))
    return *of_sides, None, of_energy


torch.library.register_autograd(
    "regard::additive_scores", _backward, setup_context=_save
)
torch.library.register_autograd(
    "regard::additive_gradients", _backward_twice, setup_context=_save
)
