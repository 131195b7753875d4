"""The processes of a run, started by torchrun or accelerate: their device and their communication."""

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from accelerate import Accelerator, PartialState
from accelerate.utils import (
    InitProcessGroupKwargs,
    broadcast_object_list,
    gather_object,
)
from torch import Tensor, nn
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.nn.parallel import DistributedDataParallel

from regard.errors import InputError, RunError
from regard.nn.kv_cache import CausalBlock
from regard.training.devices import choose_device
from regard.training.layers import sharded_parts
from regard.training.settings import Training
from regard.training.state import weights

LOST = re.compile(r"timed? ?out|connection|peer|gloo|nccl|store", re.I)
"""Words of PyTorch's untyped errors of an exchange in which another process no longer takes part."""


class Processes:
    """This process and the others of the run.

    Raises:
        InputError: the device is missing, or `sharded` with a single process.
    """

    def __init__(self, settings: Training) -> None:
        kind = choose_device(settings.device)
        limit = InitProcessGroupKwargs(
            timeout=timedelta(seconds=settings.process_timeout)
        )
        self.accelerator = Accelerator(
            cpu=kind == "cpu", mixed_precision="no", kwargs_handlers=[limit]
        )
        self.device = self.accelerator.device
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.main = self.rank == 0
        if settings.sharded and self.count == 1:
            raise InputError(
                "sharded: true needs several processes and there is one; start it under torchrun"
            )

    def wrap(self, losses: nn.Module, settings: Training) -> nn.Module:
        """A `LossModule` on its device; with several processes its model is sharded in place, or it is wrapped in DDP.

        Sharding has a group for each of the `sharded_parts`, and one for the rest, so that tied parts and calls of
        other parts outside the model's own `forward` stay correct.
        """
        losses.to(self.device)
        if self.count == 1:
            return losses
        if not settings.sharded:
            return self.accelerator.prepare_model(losses)
        for tensor in losses.state_dict().values():
            torch.distributed.broadcast(tensor, 0)
        self._shard(losses, settings)
        return losses

    def _shard(self, losses: nn.Module, settings: Training) -> None:
        mesh = torch.distributed.init_device_mesh(self.device.type, (self.count,))
        gathered = torch.bfloat16 if settings.gathered_precision == "bf16" else None
        precision = MixedPrecisionPolicy(
            param_dtype=gathered, reduce_dtype=gathered and torch.float32
        )
        pinned = self.device.type == "cuda"
        offload = (
            CPUOffloadPolicy(pin_memory=pinned) if settings.offload else OffloadPolicy()
        )
        for part in (*sharded_parts(losses), losses):
            fully_shard(part, mesh=mesh, mp_policy=precision, offload_policy=offload)
            if isinstance(part, CausalBlock):
                register_fsdp_forward_method(part, "empty_past")

    def sum(self, vector: Tensor) -> Tensor:
        """The sum of the processes' vectors, in place."""
        if self.count > 1:
            torch.distributed.all_reduce(vector)
        return vector

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in the order of their ranks, on every process."""
        return gather_object([value]) if self.count > 1 else [value]

    def from_main(self, value: Any) -> Any:
        """The first process's value, on every process."""
        return broadcast_object_list([value])[0] if self.count > 1 else value

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.accelerator.wait_for_everyone()


class Everyone:
    """All processes that torchrun or accelerate started, as those that divide work."""

    def __init__(self) -> None:
        state = PartialState(
            cpu=choose_device("auto") == "cpu"
        )  # else accelerate finds no others without accelerators
        self.count: int = state.num_processes
        self.rank: int = state.process_index

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in the order of their ranks, on every process."""
        return gather_object([value]) if self.count > 1 else [value]


@contextmanager
def answering(seconds: int) -> Iterator[None]:
    """Turn the failure of an exchange between processes, in which one ended or gave no answer, into one line. Raises
    RunError."""
    try:
        yield
    except RunError:
        raise
    except RuntimeError as error:
        if not (torch.distributed.is_initialized() and LOST.search(str(error))):
            raise
        raise RunError(
            f"another process of the run ended, or gave no answer for {seconds} seconds (training.process_timeout), so "
            "this one ends too; `regard train --resume --out DIR` continues after the last checkpoint"
        ) from error


@contextmanager
def exchanging(losses: nn.Module, now: bool) -> Iterator[None]:
    """Synchronise gradients between processes in a backward pass inside if `now`, else accumulate them here."""
    if isinstance(losses, FSDPModule):
        losses.set_requires_gradient_sync(now)
        yield
    elif isinstance(losses, DistributedDataParallel) and not now:
        with losses.no_sync():
            yield
    else:
        yield


class WholeModel:
    """A model that validation may call in any way, in full precision: of a sharded model, which is to come, a copy that
    has weights while it is in use. Made before the model is sharded."""

    def __init__(self, model: nn.Module, sharded: bool) -> None:
        self.model, self.sharded = model, sharded
        self.copy = model
        if sharded:
            empty = {
                id(each): nn.Parameter(each.to("meta"), each.requires_grad)
                for each in model.parameters()
            }
            self.copy = copy.deepcopy(model, dict(empty))

    @contextmanager
    def gathered(self, device: torch.device) -> Iterator[nn.Module]:
        """The model with whole weights, which every process gathers."""
        if not self.sharded:
            yield self.model
            return
        whole = weights(self.model)
        self.copy.load_state_dict(
            {name: each.to(device) for name, each in whole.items()}, assign=True
        )
        self.copy.train(self.model.training)
        try:
            yield self.copy
        finally:
            self.copy.load_state_dict(
                {name: each.to("meta") for name, each in whole.items()}, assign=True
            )
