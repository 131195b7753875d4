"""A server on a free port of this machine, in a thread of the test's process."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

from regard.serve.app import application
from regard.serve.operation import Active, Operation, ResponsePart, ServedRun, at_once
from regard.serve.request import Limits, RequestBody
from regard.serve.server import address, listen, server


class Echo(RequestBody):
    """A request for the runs of these tests."""

    text: str
    number: int = 0


def run(name: str = "echo", **operations: Operation) -> ServedRun:
    """A run that returns the texts of its requests, with other operations."""
    echo = Operation(
        Echo, at_once(lambda requests: [{"text": request.text} for request in requests]), lambda request: None
    )
    return ServedRun(name, {"kind": "text"}, {"predict": echo, **operations})


def streaming(answer: Callable[[Sequence[Any], Active], Iterator[ResponsePart]]) -> Operation:
    return Operation(Echo, answer, lambda request: None, streams=True)


@contextmanager
def serving(
    *runs: ServedRun, limits: Limits | None = None, tls: SSLContext | None = None, **options: Any
) -> Iterator[str]:
    """The address of a server of these runs."""
    limits = Limits() if limits is None else limits
    with listen("127.0.0.1", 0) as listening:
        where = address(listening, "127.0.0.1", "http" if tls is None else "https").rstrip("/")
        one = server(application(runs or (run(),), limits, **options), limits, tls=tls)
        thread = threading.Thread(target=one.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: one.started)
            yield where
        finally:
            one.should_exit = True
            thread.join(60)
    assert not thread.is_alive()


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.005)
