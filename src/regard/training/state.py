"""Random states, weights and optimizer state, for an exact resume."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

ADAM = {"step", "exp_avg", "exp_avg_sq"}
"""The tensors that Adam keeps for a parameter."""


def seed_everything(seed: int) -> None:
    """Seed the global random states of Python, NumPy and PyTorch (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the global random states as plain JSON values."""
    version, numbers, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()
    state = {
        "python": [version, list(numbers), gauss],
        "numpy": [
            kind,
            np.asarray(keys).tolist(),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        "torch": _hexadecimal(torch.get_rng_state()),
    }
    if device.type != "cpu":
        state["device"] = _hexadecimal(
            torch.get_device_module(device).get_rng_state(device)
        )
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore the random states that `random_state` returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(
        (kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached)
    )
    torch.set_rng_state(_bytes(state["torch"]))
    if "device" in state and device.type != "cpu":
        torch.get_device_module(device).set_rng_state(_bytes(state["device"]), device)


@contextmanager
def keep_random_state(device: torch.device) -> Iterator[None]:
    """Restore the caller's global random states at the end."""
    state = random_state(device)
    try:
        yield
    finally:
        restore_random_state(state, device)


def _hexadecimal(state: Tensor) -> str:
    return state.numpy().tobytes().hex()


def _bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's state on the CPU.

    Tied tensors are copied, so that every name has its own.
    """
    pointers: set[int] = set()
    result = {}
    for name, tensor in model.state_dict().items():
        value = tensor.detach().cpu().contiguous()
        if value.untyped_storage().data_ptr() in pointers:
            value = value.clone()
        pointers.add(value.untyped_storage().data_ptr())
        result[name] = value
    return result


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state on the CPU, as `parameter name:key`."""
    result = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            result[f"{name}:{key}"] = value.detach().cpu()
    return result


def restore_optimizer(
    model: nn.Module,
    optimizer: Optimizer,
    tensors: dict[str, Tensor],
) -> None:
    """Restore the optimizer's state from `optimizer_tensors`.

    Raises ValueError for a state that is not Adam's.
    """
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        parameter, key = name.rsplit(":", 1)
        target = parameters[parameter]
        if key != "step" and value.shape != target.shape:
            raise ValueError(f"{name} is {[*value.shape]}, not {[*target.shape]}")
        optimizer.state[target][key] = value.to(target.device, copy=True)
    for target, state in optimizer.state.items():
        if set(state) != ADAM or state["step"].dim():
            raise ValueError(
                f"Adam's state of a parameter {list(target.shape)} is incomplete"
            )
