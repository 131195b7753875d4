"""Several threads that answer, and clients that share them."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from regard.nn.fast_linear import with_int8
from regard.serve.fair_queue import FairQueue
from regard.serve.operation import Operation, at_once
from regard.serve.replica import replica
from regard.serve.request import Limits
from tests.serve import toys
from tests.serve.serving import Echo, run, serving, until
from tests.serve.test_runs import of

SOURCE = "das Haus ist alt"


@dataclass(eq=False)
class Request:
    client: str
    group: int = 0
    gone: bool = False


def take(queue: FairQueue[Request], together: int = 1) -> list[str]:
    return [each.client for each in queue.take(together)]


def test_clients_have_their_turns():
    queue: FairQueue[Request] = FairQueue(9, patience=0.0)
    for client in "aaaabbc":
        queue.put(Request(client))
    assert [client for _ in range(7) for client in take(queue)] == ["a", "b", "c", "a", "b", "a", "a"]
    assert not queue
    assert take(queue) == []


def test_batches_have_a_share_of_each_client():
    queue: FairQueue[Request] = FairQueue(9, patience=0.0)
    for client, group in [("a", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 0), ("c", 0)]:
        queue.put(Request(client, group))
    assert take(queue, 3) == ["a", "c", "a"]
    assert take(queue, 3) == ["b", "a"]
    assert take(queue, 3) == ["b"]


def test_one_client_leaves_a_worker_to_others():
    queue: FairQueue[Request] = FairQueue(1, patience=0.0)
    for client in "aab":
        queue.put(Request(client))
    (first,) = queue.take(1)
    assert first.client == "a"
    assert take(queue) == ["b"]
    assert take(queue) == []
    assert queue
    queue.done([first])
    assert take(queue) == ["a"]


def test_a_group_that_is_being_answered_waits_to_become_one_batch():
    now = [0.0]
    queue: FairQueue[Request] = FairQueue(9, patience=1.0, clock=lambda: now[0])
    for request in (Request("a"), Request("b", group=1), Request("a"), Request("c")):
        queue.put(request)
    first = queue.take(1)
    assert [each.client for each in first] == ["a"]
    assert take(queue, 3) == ["b"]  # another group does not wait
    assert take(queue, 3) == []
    now[0] = 0.9
    assert take(queue, 2) == []
    now[0] = 1.0
    assert take(queue, 3) == ["c", "a"]  # nobody waits for longer than that
    queue.put(Request("a"))
    assert take(queue, 3) == []


def test_a_group_is_open_again_when_its_batches_are_answered():
    now = [0.0]
    queue: FairQueue[Request] = FairQueue(9, patience=1.0, clock=lambda: now[0])
    for client in "ab":
        queue.put(Request(client))
    first = queue.take(1)
    now[0] = 1.5
    second = queue.take(1)
    assert [each.client for each in (*first, *second)] == ["a", "b"]
    for _ in range(2):
        queue.put(Request("c"))
    queue.done(first)
    assert take(queue, 3) == []
    queue.done(second)
    assert take(queue, 3) == ["c", "c"]


def test_who_is_gone_is_not_taken():
    queue: FairQueue[Request] = FairQueue(1)
    first = Request("a")
    queue.put(first)
    queue.put(Request("b"))
    first.gone = True
    assert take(queue) == ["b"]
    assert not queue


def client(number: int, address: str) -> httpx.Client:
    """A client with a loopback address of its own."""
    transport = httpx.HTTPTransport(local_address=f"127.0.0.{number}")
    return httpx.Client(transport=transport, base_url=f"{address}/api/runs/", timeout=60)


def test_row_70_others_are_served_beside_a_long_request():
    gate, begun = threading.Event(), []

    def responses(requests: Sequence[Any]) -> list[dict[str, Any]]:
        begun.append(requests[0].text)
        assert requests[0].text != "long" or gate.wait(60)
        return [{"text": each.text} for each in requests]

    operation = Operation(Echo, at_once(responses))
    with (
        serving(run(predict=operation), limits=Limits(workers=2)) as address,
        client(2, address) as greedy,
        client(3, address) as honest,
        ThreadPoolExecutor() as pool,
    ):
        long = [pool.submit(greedy.post, "echo/predict", json={"text": "long"}) for _ in range(8)]
        until(lambda: bool(begun))
        try:
            for _ in range(3):
                assert honest.post("echo/predict", json={"text": "short"}).json() == {"text": "short"}
            assert begun == ["long", "short", "short", "short"]
        finally:
            gate.set()
        assert {each.result().status_code for each in long} == {200}


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_threads_do_not_meet_in_a_model(kind: str):
    """Recorded weights, gradients by hooks and searches at the same time give what each gives alone."""
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("attention", {"text": SOURCE, "kinds": ["gradient", "weights"], "target": "the house"}),
        ("predict", {"text": SOURCE, "beam": 3}),
        ("stream", {"text": SOURCE, "view": True}),
        ("align", {"text": "ein Baum", "target": "a tree"}),
    ]
    with serving(of(toys.translator(kind), "m"), limits=Limits(workers=3, together=1)) as address:

        def ask(number: int) -> list[str]:
            with client(2 + number % 3, address) as one:
                turned = bodies[number % 4 :] + bodies[: number % 4]
                answers = [(operation, one.post(f"m/{operation}", json=body)) for operation, body in turned]
            assert [each.status_code for _, each in answers] == [200] * 4
            return [json.dumps(each.text) for _, each in sorted(answers, key=lambda pair: pair[0])]

        alone = ask(0)
        with ThreadPoolExecutor(3) as pool:
            assert [*pool.map(ask, range(6))] == [alone] * 6


@pytest.mark.parametrize("int8", [False, True])
def test_replicas_share_all_weights(int8: bool):
    first = toys.translator("transformer")
    if int8:
        with_int8(first.model)
    second = replica(first)
    mine, theirs = ([*each.model.parameters(), *each.model.buffers()] for each in (first, second))
    assert len(mine) > 10
    assert all(one is other for one, other in zip(mine, theirs, strict=True))
    assert not {*map(id, first.model.modules())} & {*map(id, second.model.modules())}
    found, expected = (each.predict([SOURCE])[0].to_json() for each in (first, second))
    assert found == expected
