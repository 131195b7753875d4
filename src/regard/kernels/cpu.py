"""The kernels compiled from the C++ sources here, for CPUs: additive scores, best tokens, products of a few rows."""

import ctypes
import hashlib
import logging
import math
import os
import platform
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels import compiler
from regard.kernels.compiler import (
    AVX2,
    AVX512,
    NEON,
    NO_COMPILER,
    VARIABLE,
    Instructions,
)

DIGEST = hashlib.sha256().digest_size

log = logging.getLogger("regard")


class Kernel(NamedTuple):
    """The library of a source, and in words its instructions and origin, or why there is none."""

    library: ctypes.CDLL | None
    description: str


def widest_instructions() -> Instructions | None:
    """Return the widest instructions that this processor and the libraries have.

    PyTorch finds them, and its variable ATEN_CPU_CAPABILITY limits them.
    """
    if platform.machine() in ("aarch64", "arm64"):
        return NEON
    match torch.backends.cpu.get_cpu_capability():
        case "AVX512":
            return AVX512
        case "AVX2":
            return AVX2
        case _:
            return None


def compiles() -> bool:
    """Return whether sources are compiled at their first use.

    `REGARD_COMPILE` decides, 0 or 1. Without it, sources are compiled only in a source
    tree, where they may have changed.
    """
    stated = os.environ.get(VARIABLE)
    if stated:
        return stated == "1"
    return (compiler.SOURCES.parents[2] / "pyproject.toml").is_file()


@cache
def find(name: str) -> Kernel:
    """Return the library of `name`.cpp for this processor.

    One that should be there and cannot be used is a warning in the log.
    """
    if platform.system() != "Linux":
        return Kernel(None, "compiled kernels are for Linux")
    instructions = widest_instructions()
    if instructions is None:
        return Kernel(None, "this processor has neither AVX2 nor NEON")
    try:
        threads()
        load = _load_compiled if compiles() else _load_shipped
        return load(name, instructions)
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        _warn(str(error))
        return Kernel(None, f"the kernel cannot be used: {error}")


@cache  # a reason is logged once, for all kernels
def _warn(reason: str) -> None:
    log.warning("kernels cannot be used, so this is slower: %s", reason)


def _load_shipped(name: str, instructions: Instructions) -> Kernel:
    """Load the library that this installation carries.

    It is as trustworthy as the Python files beside it.
    """
    path = compiler.SOURCES / f"{name}-{instructions.name}.so"
    kernel = f"kernel for {instructions.title}"
    if not path.exists():
        remedy = f"{VARIABLE}=1 has a C++ compiler make it at its first use"
        return Kernel(None, f"this installation carries no {kernel}; {remedy}")
    if not is_whole(path):
        raise OSError(f"{path} is damaged; install regard again")
    additive_library = ctypes.CDLL(str(path))
    return Kernel(additive_library, f"a {kernel} that this installation carries")


def _load_compiled(name: str, instructions: Instructions) -> Kernel:
    """Load the library from the cache folder; compile it if it is missing or damaged."""
    digest = _digest(name, instructions)
    path = cache_folder() / f"{name}-{instructions.name}-{digest}.so"
    if path.is_file() and path.lstat().st_uid != os.getuid():
        raise PermissionError(f"{path} is somebody else's; remove it")
    if not is_whole(path):
        program = compiler.compiler()
        if program is None and (os.environ.get("CXX") or os.environ.get(VARIABLE)):
            raise OSError(NO_COMPILER)
        if program is None:
            return Kernel(None, NO_COMPILER)
        compiler.compile_library(
            program,
            name,
            instructions,
            path,
        )
    description = f"a kernel for {instructions.title} that was compiled on this machine"
    return Kernel(ctypes.CDLL(str(path)), description)


def is_whole(path: Path) -> bool:
    """Return whether the library exists and matches its digest.

    A process that maps a truncated library would be killed by a signal.
    """
    if not path.is_file():
        return False
    content = path.read_bytes()
    return hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def cache_folder() -> Path:
    """Return the folder of libraries that were compiled here, made if missing.

    A process without a home has one of its user's in the system's temporary folder.
    Raises OSError if it cannot be made, or if others can write to it, since libraries
    are executed.
    """
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "regard" / "kernels"
    except RuntimeError:  # neither HOME nor an entry for the user
        folder = Path(tempfile.gettempdir()) / f"regard-{os.getuid()}"
    advice = "set XDG_CACHE_HOME to a folder of your own"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise OSError(f"{error.strerror}: {folder}; {advice}") from None
    status = folder.lstat()
    is_shared = status.st_uid != os.getuid() or status.st_mode & 0o022
    if is_shared or not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{folder}: others can write to it; {advice}")
    return folder


def _digest(name: str, instructions: Instructions) -> str:
    """Return a digest of what a library depends on.

    A home may be shared by machines with other processors and C libraries.
    """
    files = compiler.SOURCES / f"{name}.cpp", *sorted(compiler.SOURCES.glob("*.h"))
    sources = [file.read_bytes() for file in files]
    machine = platform.machine(), platform.libc_ver()
    identity = sources, compiler.FLAGS, instructions, machine
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


@cache
def threads() -> ctypes.c_void_p:
    """Return PyTorch's parallel_for from its stable interface.

    Kernels then run on PyTorch's threads, without a second pool.
    """
    additive_library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return ctypes.cast(
        ctypes.CDLL(str(additive_library)).torch_parallel_for, ctypes.c_void_p
    )


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
def additive_library() -> ctypes.CDLL | None:
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
    return supported and (
        torch.compiler.is_compiling() or additive_library() is not None
    )


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
    kernel = additive_library()
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
    kernel = additive_library()
    if kernel is None:
        return _score_plainly(query, key, energy)
    sides = [_pack_rows(side) for side in (query, key, exponentials, energy)]
    scores = _allocate_scores(query, key)
    problem = _describe(*sides), query.dtype == torch.bfloat16
    _check(kernel.additive_scores(*problem, scores.data_ptr(), threads()))
    return scores


@torch.library.impl("regard::additive_gradients", "cpu")
def _compute_gradients(scores, query, key, exponentials, energy):
    kernel = additive_library()
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


@cache
def best_tokens_library() -> ctypes.CDLL | None:
    """Return the kernel for this machine, if there is one."""
    built = find("best_tokens").library
    if built is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        ids = pointer, size
        results = size, pointer, pointer, pointer
        built.best_tokens.argtypes = [pointer, size, size, *ids, *results]
    return built


def supports_logits(logits: Tensor) -> bool:
    """Return whether the kernel serves logits: in float32 on a CPU, without a gradient."""
    if logits.dtype != torch.float32 or not logits.is_cpu or logits.requires_grad:
        return False
    return not torch.compiler.is_compiling() and best_tokens_library() is not None


def choose_best_tokens(
    logits: Tensor,
    count: int,
    forbidden: Sequence[int] = (),
) -> tuple[Tensor, Tensor] | None:
    """Return the log-probabilities of each row's best tokens, best first, and the tokens.

    The probabilities are those among all tokens, the forbidden ones too. Of equally
    good tokens the first comes first. Places without a token have minus infinity and
    token 0. The result is None if a row has no token, or a logit that is NaN or
    infinite.

    Args:
        logits: `(row, token)`.
        count: The number of tokens to choose of each row.
        forbidden: Tokens that are not chosen.
    """
    logits = logits.contiguous()
    rows, size = logits.shape
    scores = logits.new_empty(rows, count)
    tokens = torch.empty(rows, count, dtype=torch.int64)
    ids = (ctypes.c_int64 * len(forbidden))(*forbidden)
    kernel = best_tokens_library()
    assert kernel is not None
    failed = kernel.best_tokens(
        logits.data_ptr(),
        rows,
        size,
        ids,
        len(forbidden),
        count,
        scores.data_ptr(),
        tokens.data_ptr(),
        threads(),
    )
    if failed > 0:
        raise RuntimeError("the kernel of best tokens failed; PyTorch has printed why")
    return None if failed else (scores, tokens)


MOST_ROWS = 6
"""The most rows for which the kernel loads each weight once."""
FEWEST_WEIGHTS = 1 << 17
"""The weights from which the time to read them exceeds the time of the call."""


@cache
def few_rows_library() -> ctypes.CDLL | None:
    """Return the kernel for this machine, if there is one."""
    built = find("few_rows").library
    if built is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        weights = pointer, pointer, size
        built.linear.argtypes = [pointer, size, size, *weights, pointer, pointer]
        sizes = size, size, size
        built.cell.argtypes = [pointer, pointer, *sizes, pointer, pointer]
    return built


_searching: ContextVar[bool] = ContextVar("regard_searching", default=False)


@contextmanager
def use_search_kernels() -> Iterator[None]:
    """Compute steps of a search by kernels.

    Their last digit differs from PyTorch's, so that losses are not computed by them.
    """
    token = _searching.set(True)
    try:
        with torch.no_grad():
            yield
    finally:
        _searching.reset(token)


def supports_tensors(*tensors: Tensor) -> bool:
    """Return whether the kernel serves these: in a search, in float32 on a CPU."""
    if not _searching.get() or torch.is_grad_enabled() or is_recorded():
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    for tensor in tensors:
        if not tensor.is_cpu or tensor.dtype != torch.float32:
            return False
    return few_rows_library() is not None


def is_recorded() -> bool:
    """Return whether a graph, a transform or a mode of PyTorch sees what is computed, but not a kernel."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
    )


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the linear map of inputs `(*batch, width)`, by the kernel for a few rows."""
    *batch, width = inputs.shape
    rows = math.prod(batch)
    has_few_rows = 0 < rows <= MOST_ROWS
    is_served = weight.numel() >= FEWEST_WEIGHTS and weight.is_contiguous()
    if not (has_few_rows and is_served and supports_tensors(inputs, weight)):
        return functional.linear(inputs, weight, bias)
    kernel = few_rows_library()
    assert kernel is not None
    inputs = inputs.contiguous()
    outputs = inputs.new_empty(*batch, len(weight))
    failed = kernel.linear(
        inputs.data_ptr(),
        rows,
        width,
        weight.data_ptr(),
        None if bias is None else bias.data_ptr(),
        len(weight),
        outputs.data_ptr(),
        threads(),
    )
    if failed:
        raise RuntimeError("the kernel of a few rows failed; PyTorch has printed why")
    return outputs


def supports_cell(inputs: Tensor, weights: Sequence[Tensor]) -> bool:
    """Return whether the kernel serves the inputs and weights of a GRU or LSTM."""
    of_state = weights[1]
    is_gated = len(of_state) > of_state.shape[1]
    return is_gated and supports_tensors(inputs, *weights)


def step_cell(inputs: Tensor, state: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Return the new state `(row, state_width)` of PyTorch's GRU, or LSTM with [h; c].

    Args:
        inputs: `(row, input_width)`.
        state: The old state.
        weights: The cell's weights of inputs and state and their biases.
    """
    of_inputs, of_state, input_bias, state_bias = weights
    kernel = few_rows_library()
    assert kernel is not None
    state = state.contiguous()
    width = of_state.shape[1]
    hidden = linear(state[:, :width], of_state, state_bias)
    projected = linear(inputs, of_inputs, input_bias)
    after = torch.empty_like(state)
    gates = len(of_state) // width
    sizes = gates, len(state), width
    pointers = state.data_ptr(), after.data_ptr()
    kernel.cell(projected.data_ptr(), hidden.data_ptr(), *sizes, *pointers)
    return after
