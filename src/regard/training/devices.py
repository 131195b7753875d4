"""Devices, threads, precision and memory of the process that trains."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.errors import InputError
from regard.training.settings import Precision, Training


def devices() -> list[str]:
    """Return the kinds of device this machine has, the processor last."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if accelerator is None else [accelerator.type, "cpu"]


def choose_device(name: str) -> str:
    """Return the kind of device that `name` stands for.

    `auto` is an accelerator if there is one.

    Raises:
        InputError: this machine has no such device.
    """
    kinds = devices()
    if name == "auto":
        return kinds[0]
    if name not in kinds:
        raise InputError(
            f"device {name!r} is not available here; choose from: auto, {', '.join(kinds)}"
        )
    return name


def choose_own_accelerator() -> None:
    """Make the accelerator of this process's number the current one under torchrun.

    For processes that do not communicate.
    """
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    count = torch.accelerator.device_count()
    if rank and count:
        torch.accelerator.set_device_index(rank % count)


def choose_precision(name: Precision, device: str) -> Precision:
    """Return the precision that `name` stands for.

    `auto` is bf16 on devices with bf16 matrix products in hardware.
    """
    chosen: Precision = "bf16" if supports_bf16_products(device) else "fp32"
    return chosen if name == "auto" else name


def supports_bf16_products(device: str) -> bool:
    """Return whether the kind of device multiplies matrices of bf16 in hardware.

    Others emulate it, slower than fp32.
    """
    if device == "cpu":
        return torch.cpu._is_avx512_bf16_supported()  # processors with AMX have it too
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device == "xpu" and torch.xpu.is_bf16_supported()


VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the environment that give PyTorch its number of threads."""
SMALL = 20_000_000
"""Parameters of a model below which one thread is chosen: the parts of its operations are too short to wait for each
other (docs/guide/training.md has the measurements)."""


def choose_threads(
    settings: Training,
    parameters: int,
    saved: int | None = None,
) -> int:
    """Return the number of threads of each process.

    The first of these decides: `settings.threads`; a variable of the environment;
    `saved`, the number that a resumed run began with; one for a small model; PyTorch's
    own choice.
    """
    if settings.threads:
        return settings.threads
    if any(os.environ.get(name) for name in VARIABLES):
        return torch.get_num_threads()
    if saved is not None:
        return saved
    return 1 if parameters < SMALL else torch.get_num_threads()


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use this number of threads inside, and the former number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # mallopt's names for them, from malloc.h
KEEP = 1 << 30


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors for the next ones.

    Glibc keeps blocks below 1 GiB instead of returning them to the kernel, whose
    zeroing of fresh pages costs up to a fifth of an update on a CPU. For processes that
    train.

    Returns: whether the process keeps freed memory; other systems are left as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    glibc = ctypes.CDLL(None)
    return all(
        glibc.mallopt(name, KEEP) == 1 for name in (MMAP_THRESHOLD, TRIM_THRESHOLD)
    )


def count_parameters(model: torch.nn.Module) -> int:
    """Return how many numbers its parameters are.

    Those that modules share count once.
    """
    return sum(parameter.numel() for parameter in model.parameters())
