"""SIGHUP before a server can reload its runs, and whether it means the end of its terminal."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.system import HANGUP

TERMINAL = "/dev/tty"


class Hangup:
    """The handler of SIGHUP while runs are loaded: notes that the signal `came`, or ends the process if the terminal
    that controlled it was closed. Where the signal was ignored, as by nohup, no terminal matters."""

    def __init__(self) -> None:
        self.came = False
        self._terminal = (
            HANGUP is not None
            and signal.getsignal(HANGUP) != signal.SIG_IGN
            and has_terminal()
        )

    @property
    def closed(self) -> bool:
        """Whether the terminal was closed, which is no wish to reload."""
        return self._terminal and not has_terminal()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.closed:
            signal.raise_signal(signal.SIGTERM)
        self.came = True


@contextmanager
def noting_hangups() -> Iterator[Hangup]:
    """A context in which SIGHUP does not end the process; in its main thread. Windows has no such signal."""
    hangup = Hangup()
    if HANGUP is None:
        yield hangup
        return
    before = signal.signal(HANGUP, hangup)
    try:
        yield hangup
    finally:
        signal.signal(HANGUP, signal.SIG_DFL if before is None else before)


def has_terminal() -> bool:
    """Whether the process has a terminal that controls it."""
    try:
        os.close(os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
