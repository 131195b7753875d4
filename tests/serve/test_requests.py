"""Many requests at a time: batches, a full queue, slow responses, clients that disconnect."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from regard.errors import InputError
from regard.serve.requests import Limits
from regard.serve.worker import IsActive, Operation, ResponsePart, respond_at_once
from tests.serve.serving import Echo, run, serving, streaming, until

PREDICT = "/api/runs/echo/predict"


class Gate:
    """An operation that waits to be let through, and remembers its batches."""

    def __init__(self) -> None:
        self.open, self.batches = threading.Event(), []

    def __call__(self, requests: Sequence[Echo]) -> list[dict[str, Any]]:
        self.batches.append([request.text for request in requests])
        assert self.open.wait(60)
        return [{"text": request.text} for request in requests]

    @property
    def operation(self) -> Operation:
        return Operation(Echo, respond_at_once(self), lambda request: request.number)


async def together(address: str, bodies: Sequence[dict[str, Any]], path: str = PREDICT) -> list[httpx.Response]:
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
        return await asyncio.gather(*(client.post(address + path, json=body) for body in bodies))


def test_waiting_requests_are_one_batch():
    """The first is alone; those that come meanwhile are answered together, as far as they are of a kind and fit."""
    gate = Gate()
    with serving(run(predict=gate.operation), limits=Limits(batch=3)) as address:

        def post(text: str, number: int = 0) -> threading.Thread:
            thread = threading.Thread(
                target=httpx.post,
                args=(address + PREDICT,),
                kwargs={"json": {"text": text, "number": number}, "timeout": 60},
            )
            thread.start()
            return thread

        threads = [post("first")]
        until(lambda: bool(gate.batches))
        threads += [post("other", 1)]
        threads += [post(f"{number}") for number in range(5)]
        until(lambda: httpx.get(address + "/api/runs").json()["active"] == 7)
        gate.open.set()
        for thread in threads:
            thread.join(60)
    sizes = [len(batch) for batch in gate.batches]
    assert gate.batches[0] == ["first"]
    assert ["other"] in gate.batches
    assert sorted(sizes) == [1, 1, 2, 3]
    assert sorted(text for batch in gate.batches for text in batch) == ["0", "1", "2", "3", "4", "first", "other"]


def test_a_hundred_at_once_are_answered_or_refused_with_a_time_to_retry():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=Limits(requests=11, batch=5)) as address:
        texts = [f"text {number}" for number in range(100)]
        threading.Timer(1.0, gate.open.set).start()
        answers = asyncio.run(together(address, [{"text": text} for text in texts]))
        assert {answer.status_code for answer in answers} == {200, 503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers if answer.status_code == 503)
        assert all(a.json() == {"text": t} for a, t in zip(answers, texts, strict=True) if a.status_code == 200)
        assert sum(answer.status_code == 200 for answer in answers) >= 11
        assert all(len(batch) <= 5 for batch in gate.batches)
        assert httpx.get(address + "/api/runs").json()["active"] == 0

        async def patient(text: str, client: httpx.AsyncClient) -> str:
            while (answer := await client.post(address + PREDICT, json={"text": text})).status_code == 503:
                await asyncio.sleep(0.01)
            return answer.json()["text"]

        async def all_of_them() -> list[str]:
            async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
                return await asyncio.gather(*(patient(text, client) for text in texts))

        assert asyncio.run(all_of_them()) == texts


def test_one_error_leaves_its_batch_unharmed():
    started, go = threading.Event(), threading.Event()

    def answer(requests: Sequence[Echo]) -> list[dict[str, Any]]:
        started.set()
        assert go.wait(60)
        if any(request.text == "bad" for request in requests):
            raise InputError("bad\nis bad")
        if any(request.text == "worse" for request in requests):
            raise RuntimeError("secret")
        return [{"text": request.text} for request in requests]

    operation = Operation(Echo, respond_at_once(answer), lambda request: None)
    with serving(run(predict=operation)) as address:
        threading.Timer(0.5, go.set).start()
        answers = asyncio.run(together(address, [{"text": text} for text in ("a", "bad", "b", "worse", "c")]))
    assert [answer.status_code for answer in answers] == [200, 422, 200, 500, 200]
    assert answers[1].json() == {"error": "bad is bad"}
    assert answers[3].json() == {"error": "unexpected RuntimeError; see the log of the server"}


def test_an_answer_over_its_time_limit_is_stopped():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=Limits(answer_seconds=0.5)) as address:
        answer = httpx.post(address + PREDICT, json={"text": "a"}, timeout=60)
        gate.open.set()
    assert answer.status_code == 504
    assert answer.json() == {"error": "no answer within 0.5 s"}


class Endless:
    """An operation that says something until nobody listens, and how often."""

    def __init__(self) -> None:
        self.count, self.ended = 0, threading.Event()

    def __call__(self, requests: Sequence[Echo], active: IsActive) -> Iterator[ResponsePart]:
        while active(0):
            self.count += 1
            yield ResponsePart(0, {"event": "token", "number": self.count}, last=False)
            threading.Event().wait(0.01)
        self.ended.set()


def test_generation_stops_within_a_step_of_a_disconnect():
    endless = Endless()
    with serving(run(stream=streaming(endless))) as address:
        with httpx.stream("POST", address + "/api/runs/echo/stream", json={"text": "a"}, timeout=60) as response:
            lines = response.iter_lines()
            assert [next(lines), next(lines)] == ['{"event":"token","number":1}', '{"event":"token","number":2}']
        assert endless.ended.wait(60)
        assert httpx.post(address + PREDICT, json={"text": "still there"}).json() == {"text": "still there"}


def test_a_stream_over_its_time_limit_ends_with_an_error_line():
    endless = Endless()
    with serving(run(stream=streaming(endless)), limits=Limits(answer_seconds=0.5)) as address:
        answer = httpx.post(address + "/api/runs/echo/stream", json={"text": "a"}, timeout=60)
        assert endless.ended.wait(60)
    assert answer.status_code == 200
    assert answer.text.splitlines()[-1] == '{"event":"error","status":504,"error":"no answer within 0.5 s"}'


def test_a_request_that_disconnects_in_the_queue_costs_nothing():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=Limits(batch=1)) as address:
        first = threading.Thread(
            target=httpx.post, args=(address + PREDICT,), kwargs={"json": {"text": "first"}, "timeout": 60}
        )
        first.start()
        until(lambda: bool(gate.batches))
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(address + PREDICT, json={"text": "impatient"}, timeout=0.3)
        until(lambda: httpx.get(address + "/api/runs").json()["active"] == 1)
        gate.open.set()
        first.join(60)
        assert httpx.post(address + PREDICT, json={"text": "last"}).status_code == 200
    assert gate.batches == [["first"], ["last"]]


def test_accepted_requests_are_answered_before_shutdown():
    gate, found = Gate(), []
    with serving(run(predict=gate.operation)) as address:

        def post() -> None:
            found.append(httpx.post(address + PREDICT, json={"text": "a"}, timeout=60).json())

        thread = threading.Thread(target=post)
        thread.start()
        until(lambda: bool(gate.batches))
        threading.Timer(0.5, gate.open.set).start()
    thread.join(60)
    assert found == [{"text": "a"}]


def test_a_slow_reader_is_disconnected():
    """Whatever a model has to say, so much of it waits in memory and no more."""
    count, ended = [0], threading.Event()

    def answer(requests: Sequence[Echo], active: IsActive) -> Iterator[ResponsePart]:
        while active(0):
            count[0] += 1
            yield ResponsePart(0, {"event": "token", "text": "x" * (1 << 20)}, last=False)
        ended.set()

    with (
        serving(run(stream=streaming(answer))) as address,
        httpx.stream("POST", address + "/api/runs/echo/stream", json={"text": "a"}, timeout=60) as response,
    ):
        assert ended.wait(60)
        lines = list(response.iter_lines())
    assert count[0] < 64
    assert lines[-1] == '{"event":"error","status":408,"error":"the answer was not read in time"}'
