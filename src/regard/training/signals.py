"""Stopping by signals: SIGTERM, SIGHUP and Ctrl-C finish the update and save; a second Ctrl-C quits at once."""

import os
import shlex
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from regard.errors import RunError
from regard.system import HANGUP, WINDOWS

SIGNALS = (signal.SIGTERM, signal.SIGINT) + (
    () if HANGUP is None else (signal.Signals(HANGUP),)
)
"""The signals that stop training; SIGHUP comes when a terminal or a connection closes, and
Windows has none."""


class Stopped(RunError):
    """A signal stopped training after it saved in the folder `out`; `exit_code` is 143 after SIGTERM, 130
    after Ctrl-C, 129 after SIGHUP."""

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
        self._before: dict[
            int, Callable[[int, FrameType | None], Any] | int | None
        ] = {}

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
        if self.requested:
            if number == signal.SIGINT and time.monotonic() - self._since >= _echo():
                os._exit(
                    128 + number
                )  # files are replaced whole, so leaving at any point does no damage
            return
        self.requested, self._since = number, time.monotonic()
        if number == signal.SIGINT:
            os.write(
                2, b"\nsaving after this update; Ctrl-C again quits at once\n"
            )  # print may be what it interrupts


def _echo() -> float:
    """Seconds in which a second Ctrl-C counts as the first one, which a launcher passes on to its processes."""
    return 2.0 if "TORCHELASTIC_RUN_ID" in os.environ else 0.0


def leave_group() -> None:
    """Leave the process group of training: signals for the training process must not end its workers first."""
    if not WINDOWS:
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if HANGUP is not None:
        signal.signal(HANGUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
