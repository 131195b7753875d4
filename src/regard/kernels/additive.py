"""Additive scores: the plain form, and the operators around `additive.cpp`.

The operators store no query x key x width tensor.
"""

import ctypes
import math
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels.libraries import find, threads

DTYPES = (torch.float32, torch.bfloat16)
ROUND = 16
"""Rows of exponentials are padded to a multiple of this."""


class _Problem(ctypes.Structure):
    _pointers = ("query", "key", "exponentials", "energy")
    _sizes = ("batches", "queries", "keys", "width")
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _pointers),
        *((name, ctypes.c_int64) for name in _sizes),
        *((f"{name}_step", ctypes.c_int64) for name in _pointers),
    ]


def additive(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    """Return e_ti = energy . tanh(query_t + key_i), in its plain form.

    It stores query x key x width numbers.

    Args:
        query: `(*batch, query, width)`.
        key: `(*batch, key, width)`.
        energy: Broadcastable to `(*batch, width)`.
    """
    hidden = (query[..., :, None, :] + key[..., None, :, :]).tanh()
    column = energy[:, None] if energy.ndim == 1 else energy[..., None, :, None]
    return (hidden @ column).squeeze(-1)


@cache
def library() -> ctypes.CDLL | None:
    """Return the kernel for this machine, if there is one."""
    built = find("additive").library
    if built is not None:
        size = ctypes.c_int64
        pointers = [ctypes.c_void_p] * 5
        problem = [ctypes.POINTER(_Problem), ctypes.c_int]
        sizes = size, size, ctypes.c_int
        built.additive_exponentials.argtypes = [*pointers[:1], *sizes, *pointers[:2]]
        built.additive_scores.argtypes = [*problem, *pointers[:2]]
        built.additive_gradients.argtypes = [*problem, *pointers]
    return built


def can_fuse(key: Tensor) -> bool:
    """Return whether `score_additive` serves these keys.

    It does on a CPU, in float32 or bfloat16, if the kernel is available. On a GPU the
    plain form is used; the Triton kernel there has not been measured.
    """
    if torch.compiler.is_exporting():
        return False  # runtimes of exported graphs lack the kernel
    supported = key.device.type == "cpu" and key.dtype in DTYPES
    return supported and (torch.compiler.is_compiling() or library() is not None)


def prepare_keys(key: Tensor) -> Tensor:
    """Return the kernel's input for keys, `(*batch, key, any width)`, without gradient."""
    return _EXPONENTIALS(key.detach())


def score_additive(
    query: Tensor,
    key: Tensor,
    energy: Tensor,
    prepared: Tensor | None = None,
) -> Tensor:
    """Compute `additive` by the kernel; batch axes may also broadcast to each other.

    Sums are in float32; the result and gradients have the dtype that query and key
    promote to. They do not depend on the number of threads. Second derivatives use the
    plain form.

    Args:
        query: `(*batch, query, width)`.
        key: `(*batch, key, width)`.
        energy: Broadcastable to `(*batch, width)`.
        prepared: `prepare_keys(key)`, for keys that are read more than once.
    """
    batch = query.shape[:-2]
    dtype = query.dtype
    if batch != key.shape[:-2]:
        batch = torch.broadcast_shapes(batch, key.shape[:-2])
    if dtype != key.dtype:
        dtype = torch.promote_types(dtype, key.dtype)
    if prepared is None:
        prepared = prepare_keys(key)
    width = energy.shape[-1]
    energy = energy.float().expand(*batch, width)
    scores = _SCORES(
        _flatten_batch(query.to(dtype), batch),
        _flatten_batch(key.to(dtype), batch),
        _flatten_batch(prepared, batch),
        energy.reshape(math.prod(batch), width),
    )
    return scores.view(*batch, query.shape[-2], key.shape[-2])


def _flatten_batch(states: Tensor, batch: torch.Size) -> Tensor:
    if states.ndim == 3 and states.shape[:1] == batch:
        return states
    rows = states.expand(*batch, *states.shape[-2:])
    return rows.reshape(math.prod(batch), *states.shape[-2:])


SIDES = "Tensor query, Tensor key, Tensor exponentials, Tensor energy"
torch.library.define("regard::additive_exponentials", "(Tensor key) -> Tensor")
torch.library.define("regard::additive_scores", f"({SIDES}) -> Tensor")
torch.library.define(
    "regard::additive_gradients",
    f"(Tensor scores, {SIDES}) -> (Tensor, Tensor, Tensor)",
)
_EXPONENTIALS = torch.ops.regard.additive_exponentials.default
_SCORES = torch.ops.regard.additive_scores.default
_GRADIENTS = torch.ops.regard.additive_gradients.default


@torch.library.impl("regard::additive_exponentials", "cpu")
def _compute_exponentials(key: Tensor) -> Tensor:
    kernel = library()
    result = _allocate_exponentials(key)
    if kernel is None:
        return result.zero_()  # the plain form reads the keys
    key = key.contiguous()
    rows = math.prod(key.shape[:-1])
    width = key.shape[-1]
    half = key.dtype == torch.bfloat16
    address = key.data_ptr(), rows, width, half, result.data_ptr(), threads()
    _check(kernel.additive_exponentials(*address))
    return result


@torch.library.impl("regard::additive_scores", "cpu")
def _compute_scores(query, key, exponentials, energy) -> Tensor:
    kernel = library()
    if kernel is None:
        return _score_plainly(query, key, energy)
    sides = [_pack_rows(side) for side in (query, key, exponentials, energy)]
    scores = _allocate_scores(query, key)
    problem = _describe(*sides), query.dtype == torch.bfloat16
    _check(kernel.additive_scores(*problem, scores.data_ptr(), threads()))
    return scores


@torch.library.impl("regard::additive_gradients", "cpu")
def _compute_gradients(scores, query, key, exponentials, energy):
    kernel = library()
    if kernel is None:
        return _differentiate_plainly(
            scores,
            query,
            key,
            energy,
        )
    scores = scores.contiguous()
    sides = [_pack_rows(side) for side in (query, key, exponentials, energy)]
    gradients = _allocate_gradients(query, key, energy)
    pointers = [tensor.data_ptr() for tensor in (scores, *gradients)]
    problem = _describe(*sides), query.dtype == torch.bfloat16
    _check(kernel.additive_gradients(*problem, *pointers, threads()))
    return gradients


def _triton():
    """Return the Triton kernels; Triton is only in PyTorch's builds for GPUs."""
    from regard.kernels import triton_additive

    return triton_additive


@torch.library.impl("regard::additive_exponentials", "cuda")
def _compute_exponentials_cuda(key: Tensor) -> Tensor:
    return _allocate_exponentials(key).zero_()  # the kernel reads the keys


@torch.library.impl("regard::additive_scores", "cuda")
def _compute_scores_cuda(query, key, exponentials, energy) -> Tensor:
    return _triton().scores(query, key, energy).to(query.dtype)


@torch.library.impl("regard::additive_gradients", "cuda")
def _compute_gradients_cuda(scores, query, key, exponentials, energy):
    of_query, of_key, of_energy = _triton().gradients(
        scores,
        query,
        key,
        energy,
    )
    return of_query.to(query.dtype), of_key.to(key.dtype), of_energy


def _describe(*sides: Tensor) -> _Problem:
    query, key = sides[:2]
    pointers = [side.data_ptr() for side in sides]
    strides = [side.stride(0) for side in sides]
    sizes = *query.shape[:2], key.shape[1], query.shape[2]
    return _Problem(*pointers, *sizes, *strides)


def _pack_rows(rows: Tensor) -> Tensor:
    """Make the rows within each batch row contiguous.

    Batch rows may lie anywhere in memory and may overlap.
    """
    strides = (rows.shape[-1], 1)[-rows.ndim + 1 :]
    if rows.is_contiguous() or rows.stride()[1:] == strides:
        return rows
    return rows.contiguous()


def _check(failed: int) -> None:
    if failed:
        raise RuntimeError(
            "the kernel of additive scores failed; PyTorch has printed why"
        )


def _score_plainly(query: Tensor, key: Tensor, energy: Tensor) -> Tensor:
    return additive(query, key, energy.to(query.dtype))


def _differentiate_plainly(
    scores: Tensor,
    query: Tensor,
    key: Tensor,
    energy: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.func.vjp(
        _score_plainly,
        query,
        key,
        energy,
    )[1](scores)


def _allocate_exponentials(key: Tensor) -> Tensor:
    width = -(-key.shape[-1] // ROUND) * ROUND
    return key.new_empty(*key.shape[:-1], width, dtype=torch.float32)


def _allocate_scores(query: Tensor, key: Tensor) -> Tensor:
    return query.new_empty(*query.shape[:2], key.shape[1])


def _allocate_gradients(*sides: Tensor) -> tuple[Tensor, ...]:
    return tuple(side.new_empty(side.shape) for side in sides)


torch.library.register_fake("regard::additive_exponentials", _allocate_exponentials)
torch.library.register_fake(
    "regard::additive_scores", lambda query, key, *_: _allocate_scores(query, key)
)
torch.library.register_fake(
    "regard::additive_gradients",
    lambda scores, query, key, exponentials, energy: _allocate_gradients(
        query, key, energy
    ),
)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, scores):
    query, key, energy = _GRADIENTS(scores, *ctx.saved_tensors)
    return query, key, None, energy


def _backward_twice(ctx, query, key, energy):
    scores, *sides, _, gradient = ctx.saved_tensors
    pull = torch.func.vjp(
        _differentiate_plainly,
        scores,
        *sides,
        gradient,
    )[1]
    of_scores, of_query, of_key, of_energy = pull((query, key, energy))
    return of_scores, of_query, of_key, None, of_energy


torch.library.register_autograd(
    "regard::additive_scores", _backward, setup_context=_save
)
torch.library.register_autograd(
    "regard::additive_gradients", _backward_twice, setup_context=_save
)


LEVELS = 256  # values of one random byte


def dropout(states: Tensor, rate: float) -> Tensor:
    """Set each number to zero with probability `rate` and scale up the others.

    On a CPU, PyTorch's generator draws one number at a time, which takes a tenth of a
    training step. Here it only seeds a generator that fills bytes, so the result is
    still a function of torch's random state. The rate is rounded to 256ths, 255 at
    most, and the scale is that of the rounded rate.
    """
    if states.device.type != "cpu":
        return functional.dropout(states, rate)
    closed = min(round(rate * LEVELS), LEVELS - 1)
    if torch.compiler.is_compiling():
        return states * _FACTORS(states.detach(), closed)
    return states * _factors(states, closed)  # faster than calling the operator


def _factors(states: Tensor, closed: int) -> Tensor:
    """Return the factor of each state: 0 in `closed` of 256 cases."""
    seed = int(torch.randint(2**62, ()))
    count = states.numel()
    words = np.random.SFC64(seed).random_raw(-(-count // 8))
    noise = torch.from_numpy(words.view(np.uint8)[:count])
    is_open = noise.view(states.shape) >= closed
    return is_open.to(states.dtype).mul_(LEVELS / (LEVELS - closed))


torch.library.define(
    "regard::dropout_factors",
    "(Tensor states, int closed) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)
torch.library.impl("regard::dropout_factors", "cpu", _factors)
torch.library.register_fake(
    "regard::dropout_factors", lambda states, closed: torch.empty_like(states)
)
_FACTORS = torch.ops.regard.dropout_factors.default
