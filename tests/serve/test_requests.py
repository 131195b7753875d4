"""Many requests at a time: batches, a full queue, slow responses, clients that disconnect."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import pytest
from torch import nn

from regard.errors import InputError
from regard.serve.requests import ServerLimits
from regard.serve.worker import IsActive, Operation, PendingRequest, ResponsePart, Worker, copy_modules, respond_at_once
from tests.serve import toys
from tests.serve.serving import Echo, run, serving, streaming, until
from tests.serve.test_runs import lines as lines_of
from tests.serve.test_runs import of

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


def test_a_hundred_at_once_are_answered_or_refused_with_a_time_to_retry():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=ServerLimits(requests=11, batch=5)) as address:
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


def test_a_stream_over_its_time_limit_ends_with_an_error_line():
    endless = Endless()
    with serving(run(stream=streaming(endless)), limits=ServerLimits(answer_seconds=0.5)) as address:
        answer = httpx.post(address + "/api/runs/echo/stream", json={"text": "a"}, timeout=60)
        assert endless.ended.wait(60)
    assert answer.status_code == 200
    assert answer.text.splitlines()[-1] == '{"event":"error","status":504,"error":"no answer within 0.5 s"}'


def test_a_request_that_disconnects_in_the_queue_costs_nothing():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=ServerLimits(batch=1)) as address:
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
    with serving(run(predict=operation), limits=ServerLimits(workers=2)) as address, ThreadPoolExecutor() as pool:
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
    with serving(of(toys.translator(kind), "m"), limits=ServerLimits(workers=3, batch=1)) as address:

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


Body = dict[str, Any]
CASES = {
    "a translation": (toys.translator, lambda model: model.decoder.output, {"text": "das Haus ist alt"}),
    "a text that goes on": (
        lambda: toys.language_model(4001),
        lambda model: model.output,
        {"text": "the", "tokens": 2000},
    ),
}


class Steps:
    """The steps of a model: at each a module is called once, for all the texts that are still written."""

    def __init__(self, module: nn.Module) -> None:
        self.gate, self.rows = threading.Semaphore(0), []
        module.register_forward_pre_hook(self.step)

    def step(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        self.rows.append(len(arguments[0]))
        assert self.gate.acquire(timeout=60)


@pytest.mark.parametrize(("make", "module", "body"), CASES.values(), ids=CASES)
def test_no_step_begins_after_a_disconnect(make: Callable[[], Any], module: Callable[..., nn.Module], body: Body):
    run = make()
    steps = Steps(module(run.model))
    with serving(of(run)) as address:
        steps.gate.release(2)
        with httpx.stream("POST", f"{address}/api/runs/run/stream", json=body, timeout=60) as response:
            events = response.iter_lines()
            assert ['"start"' in next(events), '"token"' in next(events), '"token"' in next(events)] == [True] * 3
            until(lambda: len(steps.rows) == 3)  # which is on its way when the client leaves
        until(lambda: httpx.get(address + "/api/runs").json()["active"] == 0)
        steps.gate.release(10_000)
        *_, done = following = lines_of(address, body | ({"tokens": 5} if "tokens" in body else {}))
    assert done["event"] == "done"
    written = sum(each["event"] == "token" for each in following)
    assert len(steps.rows) == 3 + written


@pytest.mark.parametrize(("make", "module", "body"), CASES.values(), ids=CASES)
def test_the_rest_of_the_batch_continues(make: Callable[[], Any], module: Callable[..., nn.Module], body: Body):
    run = make()
    steps = Steps(module(run.model))
    steps.gate.release(10_000)
    stream = of(run).operations["stream"]
    requests, tokens = [stream.request.model_validate(body | ({"tokens": 5} if "tokens" in body else {}))] * 2, [0, 0]
    for part in stream.respond(requests, lambda number: number == 1 or tokens[number] < 2):
        tokens[part.number] += part.data["event"] == "token"
    assert tokens[0] == 2 < tokens[1]
    assert steps.rows == [2, 2] + [1] * (tokens[1] - 2)
