"""Computing by several processes, each forked for one part, so that nothing is pickled but results."""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from regard.errors import RunError

MOST = 8
"""The processes at once at most: each holds a part of the examples as Python objects."""
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


def workers() -> int:
    """The processes that compute at once: one for each core that this process may use, 1 where forking is not safe."""
    return min(MOST, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1


def in_parallel(compute: Callable[[I], R], inputs: Sequence[I]) -> Iterator[R]:
    """The result of each input, in their order, the next ones being computed meanwhile.

    Raises whatever `compute` raises for the first input that fails, and RunError where its process was ended.
    """
    count = workers()
    if count < 2 or len(inputs) < 2:
        yield from map(compute, inputs)
        return
    rest = iter(inputs)
    running = deque(_begin(compute, each) for each in islice(rest, count))
    try:
        while running:
            succeeded, found = _received(*running.popleft())
            if not succeeded:
                raise found
            running.extend(_begin(compute, each) for each in islice(rest, 1))
            yield found
    finally:
        for process, _ in running:
            process.kill()
            process.join()


def _begin(compute: Callable[[I], R], item: I) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(compute, item, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _received(process: Any, receiver: Connection) -> tuple[bool, Any]:
    with receiver:
        try:
            found = receiver.recv()
        except EOFError as error:
            process.join()
            what = f"a process that encodes a part of the data was ended (exit code {process.exitcode})"
            raise RunError(f"{what}; was the memory too small?") from error
    process.join()
    return found


def _send(compute: Callable[[I], R], item: I, sender: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # else the library warns of the fork
    try:
        sender.send((True, compute(item)))
    except Exception as error:
        sender.send((False, error))
