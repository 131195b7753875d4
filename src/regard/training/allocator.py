"""Keep the memory of freed tensors in the process."""

import ctypes
import platform

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # mallopt's names for them, from malloc.h
KEEP = 1 << 30


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors for the next ones: glibc keeps blocks below 1 GiB instead of returning them to
    the kernel, whose zeroing of fresh pages costs up to a fifth of an update on a CPU. For processes that train.

    Returns: whether the process keeps freed memory; other systems are left as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    glibc = ctypes.CDLL(None)
    return all(
        glibc.mallopt(name, KEEP) == 1 for name in (MMAP_THRESHOLD, TRIM_THRESHOLD)
    )
