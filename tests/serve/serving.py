"""A server on a free port of this machine, in a thread of the test's process."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.serve.app import build_app
from regard.serve.requests import RequestBody, ServerLimits
from regard.serve.server import build_server, listen, server_url
from regard.serve.worker import IsActive, Operation, ResponsePart, ServedRun, respond_at_once


class Echo(RequestBody):
    """A request for the runs of these tests."""

    text: str
    number: int = 0


def run(name: str = "echo", **operations: Operation) -> ServedRun:
    """A run that returns the texts of its requests, with other operations."""
    echo = Operation(
        Echo, respond_at_once(lambda requests: [{"text": request.text} for request in requests]), lambda request: None
    )
    return ServedRun(name, {"kind": "text"}, {"predict": echo, **operations})


def streaming(answer: Callable[[Sequence[Any], IsActive], Iterator[ResponsePart]]) -> Operation:
    return Operation(Echo, answer, lambda request: None, streams=True)


@contextmanager
def serving(*runs: ServedRun, limits: ServerLimits | None = None, **options: Any) -> Iterator[str]:
    """The address of a server of these runs."""
    limits = ServerLimits() if limits is None else limits
    with listen("127.0.0.1", 0) as listener:
        server = build_server(build_app(runs or (run(),), limits, **options), limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started)
            yield server_url(listener, "127.0.0.1").rstrip("/")
        finally:
            server.should_exit = True
            thread.join(60)
    assert not thread.is_alive()


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.005)
