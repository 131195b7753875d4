"""Answers with NaN are refused; minus infinity is the score of what is impossible."""

import math
from typing import Any

import httpx
import pytest
import torch

from regard.serve.worker import Operation, respond_at_once
from tests.serve import toys
from tests.serve.serving import Echo, run, serving
from tests.serve.test_openai import masked
from tests.serve.test_runs import of, post


@pytest.mark.parametrize(
    ("answer", "status", "expected"),
    [
        ({"score": -math.inf}, 200, {"score": None}),
        (
            {"best": [{"score": [0.5, math.nan]}]},
            500,
            {"error": "the answer has NaN, so there is none; the run's weights may be damaged"},
        ),
    ],
)
def test_nan_is_no_answer(answer: dict[str, Any], status: int, expected: dict[str, Any]):
    operation = Operation(Echo, respond_at_once(lambda requests: [answer for _ in requests]))
    with serving(run(predict=operation)) as address:
        found = httpx.post(f"{address}/api/runs/echo/predict", json={"text": "a"})
    assert (found.status_code, found.json()) == (status, expected)


@pytest.mark.parametrize("operation", ["predict", "stream", "attention"])
def test_a_model_with_nan_is_named(operation: str):
    broken = toys.translator()
    with torch.no_grad():
        broken.model.get_parameter("decoder.output.weight").fill_(math.nan)
    with serving(of(broken)) as address:
        answer = post(address, operation, {"text": "das Haus"})
    assert answer.status_code == 500
    assert "NaN" in answer.json()["error"]


def test_embeddings_with_nan_are_refused():
    broken = masked()
    for parameter in broken.model.parameters():
        parameter.data.fill_(3e38)
    with serving(of(broken, "bert")) as address:
        answer = httpx.post(f"{address}/v1/embeddings", json={"model": "bert", "input": "ein Baum"})
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "NaN" in answer.json()["error"]["message"]
