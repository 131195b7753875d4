"""Random states, weights and optimizer state, for an exact resume."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

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


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Return whether a tensor is divided among processes.

    A tensor can be sharded only if something has imported the class already, which
    takes half a second.
    """
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local_part(tensor: Tensor) -> Tensor:
    """Return the tensor, or this process's part of a sharded one (same storage)."""
    tensor = tensor.detach()
    return tensor.to_local() if is_sharded(tensor) else tensor


def gather_full(tensor: Tensor) -> Tensor:
    """Return the whole tensor on the CPU.

    Every process must call it for a sharded one.
    """
    tensor = tensor.detach()
    if not is_sharded(tensor):
        return tensor.cpu()
    exchanged: Any = tensor.to(
        tensor.device_mesh.device_type
    )  # offloaded weights are exchanged where the others are
    return exchanged.full_tensor().cpu()


def assign(target: Tensor, value: Tensor) -> None:
    """Copy a whole tensor into one that may be sharded.

    Raises ValueError if their shapes differ.
    """
    if target.shape != value.shape:
        raise ValueError(
            f"a tensor is {list(value.shape)}; expected {list(target.shape)}"
        )
    if is_sharded(target) and not is_sharded(value):
        from torch.distributed.tensor import distribute_tensor

        # every process has it, so none sends any
        value = distribute_tensor(
            value, target.device_mesh, target.placements, src_data_rank=None
        )
    local_part(target).copy_(local_part(value))


def weights(
    model: nn.Module, form: Callable[[Tensor], Tensor] = gather_full
) -> dict[str, Tensor]:
    """Return the model's state in a form, by default whole on the CPU.

    Tied tensors are copied, so that every name has its own.
    """
    pointers: set[int] = set()
    result = {}
    for name, tensor in model.state_dict().items():
        value = form(tensor).contiguous()
        if local_part(value).untyped_storage().data_ptr() in pointers:
            value = value.clone()
        pointers.add(local_part(value).untyped_storage().data_ptr())
        result[name] = value
    return result


def optimizer_tensors(
    model: nn.Module,
    optimizer: Optimizer,
    form: Callable[[Tensor], Tensor] = gather_full,
) -> dict[str, Tensor]:
    """Return the optimizer's state as `parameter name:key`, by default on the CPU."""
    return {
        f"{name}:{key}": form(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def optimizer_templates(model: nn.Module) -> dict[str, Tensor]:
    """Tensors of the shapes of `optimizer_tensors`, sharded as the parameters are."""
    moments = ADAM - {"step"}
    return {
        f"{name}:{key}": parameter
        for name, parameter in model.named_parameters()
        for key in moments
    }


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Restore the optimizer's state from `optimizer_tensors`.

    Parameters that had none have none. Raises ValueError for a state that is not
    Adam's.
    """
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        parameter, key = name.rsplit(":", 1)
        target = parameters[parameter]
        if key == "step":
            restored = value.to(target.device, copy=True)
        else:
            restored = torch.zeros_like(target.detach())
            assign(restored, value)
        optimizer.state[target][key] = restored
    for target, state in optimizer.state.items():
        if set(state) != ADAM or state["step"].dim():
            raise ValueError(
                f"Adam's state of a parameter {list(target.shape)} is incomplete"
            )
