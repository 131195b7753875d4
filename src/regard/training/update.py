"""Updates of weights by one process or several, and the signals that stop them."""

import atexit
import math
import os
import re
import shlex
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, repeat
from pathlib import Path
from types import FrameType
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
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, Dataset, get_worker_info

from regard.data.batches import Order, OrderPosition
from regard.errors import InputError, RunError
from regard.extras import HANGUP, WINDOWS
from regard.storage.verified_files import list_first
from regard.training.objectives import Carried, Objective, origin
from regard.training.settings import Training, choose_device, choose_precision

HANGUPS = () if HANGUP is None else (signal.Signals(HANGUP),)
SIGNALS = (signal.SIGTERM, signal.SIGINT, *HANGUPS)
"""The signals that stop training; SIGHUP comes when a terminal or a connection closes, and
Windows has none."""


class Stopped(RunError):
    """A signal stopped training after it saved in the folder `out`.

    `exit_code` is 143 after SIGTERM, 130 after Ctrl-C, 129 after SIGHUP.
    """

    def __init__(self, number: int, update: int, out: Path) -> None:
        super().__init__(
            f"stopped by {signal.Signals(number).name} after update {update}, which is saved; "
            f"continue with `regard train --resume --out {shlex.quote(str(out))}`"
        )
        self.exit_code = 128 + number


class Stop:
    """A context in which `requested` is the number of the first signal received, 0 for none.

    Outside the main thread, where Python allows no handlers, signals keep theirs; so does a SIGHUP that
    `nohup` ignores.
    """

    def __init__(self) -> None:
        self.requested = 0
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if number != HANGUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # a launcher passes the first Ctrl-C on to its processes, which have it twice
        echo = 2.0 if "TORCHELASTIC_RUN_ID" in os.environ else 0.0
        if self.requested:
            if number == signal.SIGINT and time.monotonic() - self._since >= echo:
                # files are replaced whole, so leaving at any point does no damage
                os._exit(128 + number)
            return
        self.requested = number
        self._since = time.monotonic()
        if number == signal.SIGINT:  # print may be what it interrupts
            os.write(2, b"\nsaving after this update; Ctrl-C again quits at once\n")


def leave_group() -> None:
    """Leave the process group of training.

    Signals for the training process must not end its workers first.
    """
    if not WINDOWS:
        os.setpgid(0, 0)
    for number in (signal.SIGINT, *HANGUPS):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


LOST = re.compile(r"timed? ?out|connection|peer|gloo|nccl|store", re.I)
"""Words of PyTorch's untyped errors of an exchange in which another process no longer takes part."""


def join_processes(**options: Any) -> PartialState:
    """Return the processes that torchrun or accelerate started; this one leaves them when it ends.

    The interpreter may end while threads of the group run, which abort the process then.
    """
    state = PartialState(**options)
    if torch.distributed.is_initialized():
        atexit.register(leave_processes)
    return state


def leave_processes() -> None:
    """Leave the group of processes, unless that is done."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class ProcessGroup:
    """All processes that torchrun or accelerate started, as those that divide work."""

    def __init__(self) -> None:
        # without `cpu` accelerate finds no others where there are no accelerators
        state = join_processes(cpu=choose_device("auto") == "cpu")
        self.count: int = state.num_processes
        self.rank: int = state.process_index

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value, in the order of ranks, on every process."""
        return gather_object([value]) if self.count > 1 else [value]


class Processes(ProcessGroup):
    """This process and the others of the run.

    Raises:
        InputError: The device is missing.
    """

    def __init__(self, settings: Training) -> None:
        is_cpu = choose_device(settings.device) == "cpu"
        timeout = timedelta(seconds=settings.process_timeout)
        limit = InitProcessGroupKwargs(timeout=timeout)
        self.accelerator = Accelerator(
            cpu=is_cpu, mixed_precision="no", kwargs_handlers=[limit]
        )
        self.device = self.accelerator.device
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.main = self.rank == 0

    def wrap(self, losses: nn.Module) -> nn.Module:
        """Return a `LossModule` on its device, wrapped in DDP with several processes."""
        losses.to(self.device)
        return losses if self.count == 1 else self.accelerator.prepare_model(losses)

    def sum(self, vector: Tensor) -> Tensor:
        """Return the sum of the processes' vectors, in place."""
        if self.count > 1:
            torch.distributed.all_reduce(vector)
        return vector

    def from_main(self, value: Any) -> Any:
        """Return the first process's value, on every process."""
        return broadcast_object_list([value])[0] if self.count > 1 else value

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.accelerator.wait_for_everyone()


@contextmanager
def explain_lost_processes(seconds: int) -> Iterator[None]:
    """Turn the failure of an exchange between processes into one line.

    Raises:
        RunError: A process ended or gave no answer.
    """
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


@dataclass(frozen=True)
class BatchPosition:
    """The position of a batch.

    Its epoch, its index in this process's share of the epoch, its examples, and the
    mark from which the epoch's order finds it.
    """

    epoch: int
    index: int
    examples: list[int]
    mark: OrderPosition


@dataclass(frozen=True)
class Prepared:
    """A batch and its position; `fault` is one line on why there is no batch."""

    position: BatchPosition
    batch: Any
    fault: str = ""


Start = tuple[int, int, OrderPosition]
"""The epoch and the index of a position, and a mark at or before it."""
BEGINNING: Start = (0, 0, OrderPosition())


class BatchPositions:
    """Positions of one process from a start on, without end; equally many an epoch."""

    def __init__(
        self,
        objective: Objective,
        processes: Processes,
        start: Start,
    ) -> None:
        self.objective = objective
        self.rank = processes.rank
        self.count = processes.count
        self.start = start

    def examples(self, epoch: int, index: int) -> list[int]:
        """Return the examples at a position."""
        return self.objective.batches(epoch)[index * self.count + self.rank]

    def __iter__(self) -> Iterator[BatchPosition]:
        epoch, index, mark = self.start
        while True:
            batches = self.objective.batches(epoch)
            first = index * self.count
            if isinstance(batches, Order):
                order = batches.walk(first, mark)
            else:
                order = zip(repeat(OrderPosition()), batches[first:], strict=False)
            while len(turn := list(islice(order, self.count))) == self.count:
                yield BatchPosition(epoch, index, turn[self.rank][1], turn[0][0])
                index += 1
            if index == 0:
                raise InputError(
                    f"epoch {epoch} has {len(turn)} batches for {self.count} processes; "
                    "add examples or lower batch_tokens"
                )
            epoch, index, mark = epoch + 1, 0, OrderPosition()


class _Batches(Dataset[Prepared]):
    """The batches of an objective, by position.

    A worker records the position before it builds the batch, so that an error can name
    it if the worker dies.
    """

    def __init__(self, objective: Objective, workers: int) -> None:
        self.objective = objective
        self.working = torch.zeros(max(1, workers), 3, dtype=torch.int64)
        self.working.share_memory_()

    def __getitem__(self, position: BatchPosition) -> Prepared:
        worker = get_worker_info()
        if worker is not None:
            current = os.getpid(), position.epoch, position.index
            self.working[worker.id] = torch.tensor(current)
        try:
            batch = self.objective.batch(position.epoch, position.examples)
            return Prepared(position, batch)
        except Exception as error:
            return Prepared(position, None, self._fault(position, error))

    def _fault(self, position: BatchPosition, error: Exception) -> str:
        """Return a line that names the first example that fails alone, else the batch."""
        examples = position.examples
        for index in examples:
            try:
                self.objective.batch(position.epoch, [index])
            except Exception as cause:
                examples = [index]
                error = cause
                break
        last = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"{_describe(self.objective, examples)} cannot be made into a batch: "
            f"{type(error).__name__}: {' '.join(str(error).split())} (raised at "
            f"{last.filename}:{last.lineno})"
        )


def _describe(objective: Objective, examples: list[int]) -> str:
    """Name the examples of a batch, and where the first comes from."""
    subject = "the batch of examples" if len(examples) > 1 else "example"
    listed = list_first([str(example) for example in examples])
    return f"{subject} {listed}{origin(objective, examples[:1])}"


def _start_worker(_: int) -> None:
    leave_group()


class BatchStream:
    """Iterate over this process's batches from a place on, without end.

    Leave the `with` block to end its workers.

    Never uses the global random states. The death of a worker is noticed by a signal,
    so it can surface anywhere inside the `with` block; leaving the block turns it into
    an error that names the examples.

    Raises:
        RunError: an example cannot be made into a batch, or a worker died.
        InputError: fewer batches than processes.
    """

    def __init__(
        self,
        objective: Objective,
        settings: Training,
        processes: Processes,
        start: Start = BEGINNING,
    ) -> None:
        self.objective = objective
        self._data = _Batches(objective, settings.workers)
        self._positions = BatchPositions(objective, processes, start)
        loader = DataLoader(
            self._data,
            batch_size=None,
            sampler=self._positions,  # pyright: ignore[reportArgumentType]
            num_workers=settings.workers,
            worker_init_fn=_start_worker,
            generator=torch.Generator().manual_seed(settings.seed),
        )
        self._iterator: Iterator[Prepared] | None = iter(loader)

    def __enter__(self) -> "BatchStream":
        return self

    def __exit__(
        self,
        kind: object,
        error: BaseException | None,
        trace: object,
    ) -> None:
        self._iterator = None
        if isinstance(error, RuntimeError) and "DataLoader worker (pid" in str(error):
            raise RunError(self._death(str(error))) from None

    def __iter__(self) -> "BatchStream":
        return self

    def __next__(self) -> Prepared:
        if self._iterator is None:
            raise ValueError("the stream of batches is closed")
        prepared = next(self._iterator)
        if prepared.fault:
            raise RunError(prepared.fault)
        return prepared

    def _death(self, message: str) -> str:
        dead = re.findall(r"\d+", message)
        work = "before its first batch"
        for process, epoch, index in self._data.working.tolist():
            if str(process) in dead:
                examples = self._positions.examples(epoch, index)
                work = f"while it prepared {_describe(self.objective, examples)}"
        return (
            f"a worker died {work}; memory may be short: lower workers or batch_tokens"
        )


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update over all processes."""

    loss: float
    """The mean loss of all tokens."""
    tokens: int
    """The tokens of the loss."""
    read: int
    """The tokens that the model read."""
    norm: float
    """The norm of the gradient of that mean, before clipping."""
    stop: int
    """The number of a signal that a process received, or 0."""
    late: bool = False
    """Whether the first process wants a checkpoint, since the last is long ago."""

    @property
    def good(self) -> bool:
        """Whether loss and gradient were finite, so that the update was applied."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


def build_optimizer(model: nn.Module, settings: Training) -> AdamW:
    """AdamW over the trainable parameters, in one fused step; only matrices decay."""
    matrices = []
    vectors = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (matrices if parameter.ndim >= 2 else vectors).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True,
    )


class Updater:
    """Update the model in a `LossModule`, wrapped or not.

    The only place that handles gradients. `carried` is passed from batch to batch.
    """

    def __init__(
        self,
        losses: nn.Module,
        optimizer: Optimizer,
        settings: Training,
        processes: Processes,
        stop: Stop,
    ) -> None:
        self.losses = losses
        self.optimizer = optimizer
        self.settings = settings
        self.processes = processes
        self.stop = stop
        self.parameters = [
            parameter
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        self.carried: Carried | None = None
        self._exact = torch.float32 if processes.device.type == "mps" else torch.float64

    def __call__(
        self,
        prepared: Sequence[Prepared],
        update: int,
        rate: float,
        late: bool = False,
    ) -> UpdateResult:
        """Apply the gradients of an update's batches, unless they are not finite.

        Args:
            prepared: The batches.
            update: The update, counted from 1.
            rate: The learning rate.
            late: Whether this process's clock asks for a checkpoint.

        Raises:
            RunError: Memory is exhausted.
        """
        processes = self.processes
        total, tokens, read = self._gradients(prepared, update)
        # read as late as the other processes can still learn of it
        signal = self.stop.requested
        flags = late and processes.main, *(signal == number for number in SIGNALS)
        summary = torch.tensor(
            [0.0, tokens, read, *flags], dtype=self._exact, device=processes.device
        )
        gradients = [
            parameter.grad.detach()
            for parameter in self.parameters
            if parameter.grad is not None
        ]
        norm = nn.utils.get_total_norm(gradients)
        summary[0] = total
        processes.sum(summary)
        loss, count, read_count, overdue, *received = summary.tolist()
        # the exchange has divided by the number of processes
        scale = processes.count / max(1.0, count)
        outcome = UpdateResult(
            loss / max(1.0, count),
            int(count),
            int(read_count),
            norm.item() * scale,
            max(
                number * bool(flag)
                for number, flag in zip(SIGNALS, received, strict=True)
            ),
            bool(overdue),
        )
        if outcome.good:
            self._apply(gradients, scale, outcome.norm, rate)
        else:
            self.carried = None  # it may not be finite either
        self.optimizer.zero_grad(set_to_none=True)
        return outcome

    def _gradients(
        self,
        prepared: Sequence[Prepared],
        update: int,
    ) -> tuple[Tensor, int, int]:
        device = self.processes.device
        total = torch.zeros((), device=device)
        tokens = 0
        read = 0
        precision = choose_precision(self.settings.precision, device.type)
        for number, item in enumerate(prepared, start=1):
            is_last = number == len(prepared)  # then the processes exchange gradients
            with (
                explain_memory(item, self.settings),
                self.losses.no_sync()
                if isinstance(self.losses, DistributedDataParallel) and not is_last
                else nullcontext(),
            ):
                batch = item.batch.to(device)
                bf16 = precision == "bf16"
                with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                    loss, count, self.carried, read_count = self.losses(
                        batch, update, self.carried
                    )
                loss.backward()
            total += loss.detach()
            tokens = tokens + count
            read = read + read_count
        return total, tokens, read

    def _apply(
        self,
        gradients: list[Tensor],
        scale: float,
        norm: float,
        rate: float,
    ) -> None:
        if self.settings.clip and norm > self.settings.clip:
            scale *= self.settings.clip / norm
        torch._foreach_mul_(gradients, scale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()


@contextmanager
def explain_memory(item: Prepared, settings: Training) -> Iterator[None]:
    """Turn a failed allocation into advice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        exhausted = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not exhausted and "can't allocate memory" not in str(error):
            raise
        raise RunError(
            f"out of memory on a batch of {len(item.position.examples)} examples, the longest {longest(item.batch)}; "
            f"lower batch_tokens (now {settings.batch_tokens}) and raise accumulate (now {settings.accumulate}), "
            "or use bf16; checkpoints are untouched"
        ) from error


def longest(batch: Any) -> int:
    """Return the largest second axis among a batch's tensors: its padded length."""
    is_tensor = isinstance(batch, Tensor)
    parts = [batch] if is_tensor else getattr(batch, "__dict__", {}).values()
    tensors = [part for part in parts if isinstance(part, Tensor) and part.ndim > 1]
    return max((tensor.shape[1] for tensor in tensors), default=1)
