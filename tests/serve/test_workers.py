"""Several threads that answer, and their queue."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import pytest

from regard.serve.requests import Limits
from regard.serve.worker import Operation, PendingRequest, Worker, copy_modules, respond_at_once
from tests.serve import toys
from tests.serve.serving import Echo, run, serving, until
from tests.serve.test_runs import of

SOURCE = "das Haus ist alt"


class Pending(PendingRequest):
    """What the queue knows of a request."""

    def __init__(self, name: str, group: int = 0) -> None:
        self.name, self.group, self.gone = name, group, False


def test_a_batch_has_the_oldest_request_and_others_of_its_group():
    worker = Worker(batch=2)
    requests = [Pending("gone"), Pending("a"), Pending("b", group=1), Pending("c"), Pending("d")]
    requests[0].gone = True
    for request in requests:
        worker.put(request)
    names = [[pending.name for pending in cast(list[Pending], worker.take_batch())] for _ in range(3)]
    assert names == [["a", "c"], ["b"], ["d"]]


def test_other_requests_are_answered_beside_a_long_one():
    gate, started = threading.Event(), []

    def respond(requests: Sequence[Any]) -> list[dict[str, Any]]:
        started.append(requests[0].text)
        assert requests[0].text != "long" or gate.wait(60)
        return [{"text": request.text} for request in requests]

    operation = Operation(Echo, respond_at_once(respond))
    with serving(run(predict=operation), limits=Limits(workers=2)) as address, ThreadPoolExecutor() as pool:
        url = f"{address}/api/runs/echo/predict"
        long = pool.submit(httpx.post, url, json={"text": "long"}, timeout=60)
        until(lambda: bool(started))
        try:
            for _ in range(3):
                assert httpx.post(url, json={"text": "short"}).json() == {"text": "short"}
        finally:
            gate.set()
        assert long.result().status_code == 200


class PanicException(BaseException):
    """What a panic of a native library becomes in Python."""


def test_a_panic_of_a_native_library_leaves_the_worker_alive(caplog: pytest.LogCaptureFixture):
    def respond(requests: Sequence[Any]) -> list[dict[str, Any]]:
        if requests[0].text == "panic":
            raise PanicException("a slice out of range")
        return [{"text": request.text} for request in requests]

    operation = Operation(Echo, respond_at_once(respond), lambda request: None)
    with serving(run(predict=operation)) as address:
        url = f"{address}/api/runs/echo/predict"
        for _ in range(3):
            answer = httpx.post(url, json={"text": "panic"}, timeout=60)
            assert (answer.status_code, "PanicException" in answer.json()["error"]) == (500, True)
        assert httpx.post(url, json={"text": "a"}, timeout=60).json() == {"text": "a"}
        assert httpx.get(address + "/ready").status_code == 200


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_threads_do_not_meet_in_a_model(kind: str):
    """Recorded weights, gradients by hooks and searches at the same time give what each gives alone."""
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("attention", {"text": SOURCE, "kinds": ["gradient", "weights"], "target": "the house"}),
        ("predict", {"text": SOURCE, "beam": 3}),
        ("stream", {"text": SOURCE, "view": True}),
    ]
    with serving(of(toys.translator(kind), "m"), limits=Limits(workers=3, batch=1)) as address:

        def ask(number: int) -> list[str]:
            with httpx.Client(base_url=f"{address}/api/runs/", timeout=60) as one:
                turned = bodies[number % 3 :] + bodies[: number % 3]
                answers = [(operation, one.post(f"m/{operation}", json=body)) for operation, body in turned]
            assert [each.status_code for _, each in answers] == [200] * 3
            return [json.dumps(each.text) for _, each in sorted(answers, key=lambda pair: pair[0])]

        alone = ask(0)
        with ThreadPoolExecutor(3) as pool:
            assert [*pool.map(ask, range(6))] == [alone] * 6


def test_replicas_share_all_weights():
    first = toys.translator("transformer")
    second = copy_modules(first)
    mine, theirs = ([*each.model.parameters(), *each.model.buffers()] for each in (first, second))
    assert len(mine) > 10
    assert all(one is other for one, other in zip(mine, theirs, strict=True))
    assert not {*map(id, first.model.modules())} & {*map(id, second.model.modules())}
    found, expected = (each.predict([SOURCE])[0].to_json() for each in (first, second))
    assert found == expected
