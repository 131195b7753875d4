"""Rotation of pairs of dimensions: the plain form and the kernel in `rotary.cpp`."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from regard.kernels.libraries import dispatcher_is_idle, find, threads

DTYPES = (torch.float32, torch.bfloat16)


class _Problem(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("states", "result", "cos_sin")),
        *((name, ctypes.c_int64) for name in ("rows", "heads", "positions", "width")),
        ("from_strides", ctypes.c_int64 * 3),
        ("to_strides", ctypes.c_int64 * 3),
        *((name, ctypes.c_int64) for name in ("sines", "row_stride")),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """Return the kernel for this machine, if there is one."""
    built = find("rotary").library
    if built is not None:
        problem = ctypes.POINTER(_Problem)
        arguments = problem, ctypes.c_float, ctypes.c_int, ctypes.c_void_p
        built.rotary_turn.argtypes = arguments
    return built


def rotate_pairs(states: Tensor, cos_sin: Tensor, first: int = 0) -> Tensor:
    """Rotate each pair of dimensions (i, i + width / 2).

    (x cos - y sin, y cos + x sin).

    Args:
        states: `(*batch, position, width)`; the result has their dtype.
        cos_sin: Cosines and sines of positions, `(2, [row, 1,] position, width)`, a
            column for each dimension; sines are negative in the first half.
        first: The position in `cos_sin` of the first state.
    """
    if not can_use_kernel(states, cos_sin):
        return rotate_plainly(states, cos_sin, first)
    if torch.is_grad_enabled() and states.requires_grad:
        return _Rotate.apply(
            states,
            cos_sin,
            first,
            1.0,
        )
    return _rotate(
        states,
        cos_sin,
        first,
        1.0,
    )


def rotate_plainly(states: Tensor, cos_sin: Tensor, first: int = 0) -> Tensor:
    """Compute `rotate_pairs` by PyTorch's operators.

    Swapped halves and two products take half the time of four products.
    """
    positions, width = states.shape[-2:]
    cos, sin = cos_sin[..., first : first + positions, :].to(states.dtype)
    return (states * cos).addcmul_(states.roll(width // 2, -1), sin)


def can_use_kernel(states: Tensor, cos_sin: Tensor) -> bool:
    """Return whether the kernel is there and supports these states."""
    is_known = states.dtype == cos_sin.dtype and states.dtype in DTYPES
    if not is_known or states.ndim > 4 or not dispatcher_is_idle(states):
        return False
    by_row = cos_sin.ndim == 5 and cos_sin.shape[2] == 1 and states.ndim == 4
    return (cos_sin.ndim == 3 or by_row) and library() is not None


def _rotate(states: Tensor, cos_sin: Tensor, first: int, sign: float) -> Tensor:
    kernel = library()
    assert kernel is not None
    if states.ndim < 4:
        return _rotate(
            states[None],
            cos_sin,
            first,
            sign,
        )[0]
    if states.stride(-1) != 1:
        states = states.contiguous()
    result = torch.empty_like(states)
    cos_sin = cos_sin.contiguous()
    start = cos_sin.data_ptr() + first * cos_sin.stride(-2) * cos_sin.element_size()
    by_row = cos_sin.ndim == 5 and cos_sin.shape[1] > 1
    strides = ctypes.c_int64 * 3
    problem = _Problem(
        states.data_ptr(),
        result.data_ptr(),
        start,
        *states.shape,
        strides(*states.stride()[:3]),
        strides(*result.stride()[:3]),
        cos_sin.stride(0),
        cos_sin.stride(1) if by_row else 0,
    )
    half = states.dtype == torch.bfloat16
    if kernel.rotary_turn(
        problem,
        sign,
        half,
        threads(),
    ):
        raise RuntimeError("the kernel of rotations failed; report it")
    return result


class _Rotate(torch.autograd.Function):
    """The kernel with its gradient: a rotation by the opposite angles."""

    @staticmethod
    def forward(ctx, states: Tensor, cos_sin: Tensor, first: int, sign: float):
        ctx.save_for_backward(cos_sin)
        ctx.first = first
        ctx.sign = sign
        return _rotate(
            states,
            cos_sin,
            first,
            sign,
        )

    @staticmethod
    def backward(ctx, *gradients: Tensor):
        (cos_sin,) = ctx.saved_tensors
        gradient = _Rotate.apply(
            *gradients,
            cos_sin,
            ctx.first,
            -ctx.sign,
        )
        return gradient, None, None, None
