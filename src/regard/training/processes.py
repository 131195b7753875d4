"""The processes of a run (torchrun or accelerate start them), their device, and what they agree on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from regard.errors import InputError
from regard.training.devices import choose_device
from regard.training.settings import Training


class Processes:
    """This process among those of the run.

    Raises:
        InputError: the device is not there, or weights are to be sharded over a single process.
    """

    def __init__(self, settings: Training) -> None:
        kind = choose_device(settings.device)
        self.accelerator = Accelerator(cpu=kind == "cpu", mixed_precision="no")
        self.device = self.accelerator.device
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.main = self.rank == 0
        if settings.sharded and self.count == 1:
            raise InputError("sharded: true needs several processes and there is one; start it under torchrun")
        if settings.threads:
            torch.set_num_threads(settings.threads)

    def wrap(self, model: nn.Module, sharded: bool) -> nn.Module:
        """The model on its device; with several processes it is sharded in place, or wrapped in DDP.

        Sharding has one group for the whole model: parts that are tied, or called other than by the model's own
        `forward`, stay right.
        """
        model.to(self.device)
        if self.count == 1:
            return model
        if not sharded:
            return self.accelerator.prepare_model(model)
        for tensor in model.state_dict().values():
            torch.distributed.broadcast(tensor, 0)
        mesh = torch.distributed.init_device_mesh(self.device.type, (self.count,))
        fully_shard(model, mesh=mesh)
        return model

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
        """Until all processes are here."""
        self.accelerator.wait_for_everyone()


@contextmanager
def exchanging(model: nn.Module, now: bool) -> Iterator[None]:
    """Whether a backward pass inside exchanges gradients between processes or only adds them up here."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(now)
        yield
    elif isinstance(model, DistributedDataParallel) and not now:
        with model.no_sync():
            yield
    else:
        yield


@contextmanager
def whole(model: nn.Module) -> Iterator[None]:
    """Inside, a sharded model holds its whole weights, so that any part of it can be called by itself."""
    if not isinstance(model, FSDPModule):
        yield
        return
    model.set_reshard_after_forward(False)
    model.unshard()
    try:
        yield
    finally:
        model.reshard()
