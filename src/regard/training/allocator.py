"""Keep the memory of freed tensors in the process."""

import ctypes
import platform

from regard.kernels.compiled import compiled

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # mallopt's names for them, from malloc.h
KEEP = 1 << 30


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors for the next ones instead of handing it back to the kernel, whose zeroing of
    fresh pages costs a fifth of a training step on a CPU. For processes that train.

    Where there is a C++ compiler, tensors get an allocator of their own for it (`kernels/allocator.cpp`); else glibc
    keeps blocks below 1 GiB, whose search takes ever longer; other systems are left as they are.

    Returns: whether the process keeps freed memory.
    """
    library = compiled("allocator")
    if library is not None:
        library.keep_freed_memory()
        return True
    if platform.libc_ver()[0] != "glibc":
        return False
    glibc = ctypes.CDLL(None)
    return all(glibc.mallopt(name, KEEP) == 1 for name in (MMAP_THRESHOLD, TRIM_THRESHOLD))
