"""Devices of this machine, and the faster precision on each."""

import os

import torch

from regard.errors import InputError
from regard.training.settings import Precision


def devices() -> list[str]:
    """The kinds of device this machine has, the processor last."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if found is None else [found.type, "cpu"]


def choose_device(name: str) -> str:
    """The kind of device that `name` stands for; `auto` is an accelerator if there is one.

    Raises:
        InputError: this machine has no such device.
    """
    here = devices()
    if name == "auto":
        return here[0]
    if name not in here:
        raise InputError(
            f"device {name!r} is not available here; choose from: auto, {', '.join(here)}"
        )
    return name


def choose_own_accelerator() -> None:
    """Under torchrun, make the accelerator of this process's number on its machine the current one, for processes that
    do not communicate."""
    rank, count = (
        int(os.environ.get("LOCAL_RANK", "0")),
        torch.accelerator.device_count(),
    )
    if rank and count:
        torch.accelerator.set_device_index(rank % count)


def choose_precision(name: Precision, device: str) -> Precision:
    """The precision that `name` stands for; `auto` is bf16 on devices with bf16 matrix products in hardware."""
    if name != "auto":
        return name
    return "bf16" if multiplies_bf16(device) else "fp32"


def multiplies_bf16(device: str) -> bool:
    """Whether the kind of device multiplies matrices of bf16 in hardware; others emulate it, slower than fp32."""
    if device == "cpu":
        return torch.cpu._is_avx512_bf16_supported()  # processors with AMX have it too
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device == "xpu" and torch.xpu.is_bf16_supported()
