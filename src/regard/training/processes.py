"""Processes of a run.

Their device, their communication, and the signals that stop them.
"""

import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
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

from regard.errors import RunError
from regard.extras import HANGUP, WINDOWS
from regard.training.devices import choose_device
from regard.training.settings import Training

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


class ProcessGroup:
    """All processes that torchrun or accelerate started, as those that divide work."""

    def __init__(self) -> None:
        # without `cpu` accelerate finds no others where there are no accelerators
        state = PartialState(cpu=choose_device("auto") == "cpu")
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
