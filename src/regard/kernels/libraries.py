"""The libraries compiled from the C++ sources in this folder.

A wheel carries them, or they are compiled on the user's machine at their first use: in
a source tree, or if `REGARD_COMPILE` is 1.
"""

import ctypes
import hashlib
import logging
import os
import platform
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

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
    library = ctypes.CDLL(str(path))
    return Kernel(library, f"a {kernel} that this installation carries")


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
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return ctypes.cast(ctypes.CDLL(str(library)).torch_parallel_for, ctypes.c_void_p)


def dispatcher_is_idle(tensor: Tensor) -> bool:
    """Return whether a kernel may read this tensor without PyTorch's dispatcher.

    It may if the tensor is an ordinary one in a CPU's memory, and neither a graph, a
    transform such as vmap nor a dispatch mode records what is computed.
    """
    ordinary = tensor.is_cpu and type(tensor) in (Tensor, nn.Parameter)
    recorded = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
    transformed = (
        torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    )
    return ordinary and not (recorded or transformed)
