"""Who leaves costs no more work: counted in steps of the model, each of which waits to be let through."""

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from torch import nn

from tests.serve import toys
from tests.serve.serving import serving, until
from tests.serve.test_runs import lines, of

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
        *_, done = following = lines(address, body | ({"tokens": 5} if "tokens" in body else {}))
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
