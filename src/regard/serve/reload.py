"""Reloading the runs at SIGHUP, while requests are answered."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from regard.errors import InputError
from regard.serve.hangup import Hangup
from regard.serve.operation import ServedRun
from regard.system import HANGUP

logger = logging.getLogger(__name__)
Reload = Callable[[], Sequence[ServedRun]]
"""Loads the runs anew. Raises InputError."""


@contextmanager
def reloading(
    reload: Reload | None, replace: Callable[[Sequence[ServedRun]], None]
) -> Iterator[None]:
    """Within a running event loop, let SIGHUP replace the runs; without `reload`, or in another thread than the main
    one, where there are no signals, or on Windows, which has no SIGHUP, do nothing."""
    if (
        HANGUP is None
        or reload is None
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    loop, reloader, before = (
        asyncio.get_running_loop(),
        Reloader(reload, replace),
        signal.getsignal(HANGUP),
    )
    hangup = before if isinstance(before, Hangup) else Hangup()

    def hang_up() -> None:
        if hangup.closed:
            signal.raise_signal(signal.SIGTERM)
        else:
            reloader.start()

    loop.add_signal_handler(HANGUP, hang_up)
    if hangup.came:  # while the runs were loaded, so that they may be older than it
        reloader.start()
    try:
        yield
    finally:
        loop.remove_signal_handler(HANGUP)
        signal.signal(HANGUP, before)


class Reloader:
    """Loads runs in a thread, one reload after the other; requests inside end with the run that they began with."""

    def __init__(
        self, reload: Reload, replace: Callable[[Sequence[ServedRun]], None]
    ) -> None:
        self.reload, self.replace = reload, replace
        self._lock, self._tasks = asyncio.Lock(), set[asyncio.Task[None]]()

    def start(self) -> None:
        """Reload soon; from the event loop."""
        task = asyncio.create_task(self.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Replace the runs, or log why those before stay."""
        async with self._lock:
            try:
                runs = await asyncio.to_thread(self.reload)
                self.replace(runs)
            except (InputError, OSError) as error:
                logger.error("not reloaded: %s; the runs from before stay", error)
            except Exception as error:
                logger.error("not reloaded; the runs from before stay", exc_info=error)
            else:
                logger.info("reloaded: %s", ", ".join(run.name for run in runs))
