"""Rotations of pairs of dimensions: the plain form, and `rotary.cpp`, which reads and writes each state once."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from regard.kernels.libraries import dispatcher_is_idle, find, threads

DTYPES = (torch.float32, torch.bfloat16)


class _Problem(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("states", "result", "turns")),
        *((name, ctypes.c_int64) for name in ("rows", "heads", "positions", "width")),
        *(
            (name, ctypes.c_int64)
            for name in ("from_row", "from_head", "from_position")
        ),
        *(
            (name, ctypes.c_int64)
            for name in ("to_row", "to_head", "to_position", "sines", "turn_step")
        ),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The kernel for this machine; None if there is none."""
    built = find("rotary").library
    if built is not None:
        arguments = (
            ctypes.POINTER(_Problem),
            ctypes.c_float,
            ctypes.c_int,
            ctypes.c_void_p,
        )
        built.rotary_turn.argtypes = arguments
        pointers, sizes = [ctypes.c_void_p] * 3, [ctypes.c_int64] * 6
        built.rotary_turn_both.argtypes = (
            *pointers,
            *sizes,
            ctypes.c_int,
            ctypes.c_void_p,
        )
    return built


def turned(states: Tensor, turns: Tensor, first: int = 0) -> Tensor:
    """Turn each pair of dimensions (i, i + width / 2) of states `(*batch, position, width)`: (x cos - y sin, y cos + x
    sin). The result has the dtype of the states.

    Args:
        turns: the cosines and sines of positions, `(2, [row, 1,] position, width)`, a column for each dimension; sines
            are negative in the first half.
        first: the position in `turns` of the first state.
    """
    if not serves(states, turns):
        return plain(states, turns, first)
    if torch.is_grad_enabled() and states.requires_grad:
        return _Turn.apply(states, turns, first, 1.0)
    return _turn(states, turns, first, 1.0)


def turn_in_place(query: Tensor, key: Tensor, turns: Tensor, first: int) -> bool:
    """Turn queries and keys `(row, position, head * width)` as `turned` does, but in place and without a gradient,
    where the kernel serves them; return whether it does. `turns` are `(2, position, width)`. Both sides begin at
    `first`."""
    if not (serves(query, turns) and query.is_contiguous() and key.is_contiguous()):
        return False
    kernel = library()
    assert kernel is not None
    (rows, positions, all_query), all_key, (_, known, width) = (
        query.shape,
        key.shape[-1],
        turns.shape,
    )
    start = turns.data_ptr() + first * width * turns.element_size()
    sizes = rows, positions, all_query // width, all_key // width, width, known * width
    half = query.dtype == torch.bfloat16
    if kernel.rotary_turn_both(
        query.data_ptr(), key.data_ptr(), start, *sizes, half, threads()
    ):
        raise RuntimeError("the kernel of rotations failed; report it")
    return True


def plain(states: Tensor, turns: Tensor, first: int = 0) -> Tensor:
    """`turned` by PyTorch's operators. Halves that trade places and two products take half the time of four
    products."""
    cos, sin = turns[..., first : first + states.shape[-2], :].to(states.dtype)
    return (states * cos).addcmul_(states.roll(states.shape[-1] // 2, -1), sin)


def serves(states: Tensor, turns: Tensor) -> bool:
    """Whether the kernel is available and supports these states and turns, which have no gradient."""
    if (
        states.dtype not in DTYPES
        or states.dtype != turns.dtype
        or not dispatcher_is_idle(states)
    ):
        return False
    by_position = turns.ndim == 3 or (
        turns.ndim == 5 and turns.shape[2] == 1 and states.ndim == 4
    )
    return by_position and states.ndim <= 4 and library() is not None


def _turn(states: Tensor, turns: Tensor, first: int, sign: float) -> Tensor:
    kernel = library()
    assert kernel is not None
    if states.ndim < 4:
        return _turn(states[None], turns, first, sign)[0]
    if states.stride(-1) != 1:
        states = states.contiguous()
    result, turns = torch.empty_like(states), turns.contiguous()
    start = turns.data_ptr() + first * turns.stride(-2) * turns.element_size()
    steps = *states.stride()[:3], *result.stride()[:3], turns.stride(0)
    step = turns.stride(1) if turns.ndim == 5 and turns.shape[1] > 1 else 0
    problem = _Problem(
        states.data_ptr(), result.data_ptr(), start, *states.shape, *steps, step
    )
    if kernel.rotary_turn(problem, sign, states.dtype == torch.bfloat16, threads()):
        raise RuntimeError("the kernel of rotations failed; report it")
    return result


class _Turn(torch.autograd.Function):
    """The kernel with its gradient: a rotation by the opposite angles."""

    @staticmethod
    def forward(ctx, states: Tensor, turns: Tensor, first: int, sign: float) -> Tensor:
        ctx.save_for_backward(turns)
        ctx.first, ctx.sign = first, sign
        return _turn(states, turns, first, sign)

    @staticmethod
    def backward(ctx, *gradients: Tensor):
        return (
            _Turn.apply(*gradients, *ctx.saved_tensors, ctx.first, -ctx.sign),
            None,
            None,
            None,
        )
