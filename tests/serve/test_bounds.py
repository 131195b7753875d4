"""Requests that cost more than a server gives them, and answers with NaN, which are refused."""

import base64
import io
import math
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
import torch
from PIL import Image

from regard.serve.requests import ServerLimits
from regard.serve.worker import Operation, respond_at_once
from regard.work import Cancelled, cancellable, checkpoint
from tests.serve import toys
from tests.serve.serving import Echo, run, serving
from tests.serve.test_openai import masked
from tests.serve.test_runs import episodes, of, post

SOURCE = "das Haus ist alt"


@pytest.mark.parametrize(
    ("operation", "body", "why"),
    [
        (
            "predict",
            {"beam": 64, "text": SOURCE * 60},
            "960 characters are read 64 times; this server accepts 50000 together",
        ),
        ("stream", {"prefix_tokens": [5] * 2001}, "prefix_tokens: Tuple should have at most 2000 items"),
        ("attention", {"target_tokens": [5] * 2001}, "target_tokens"),
        ("attention", {"maps": [0] * 1025}, "maps"),
        ("attention", {"text": "das " * 1250, "target": "the " * 1250}, "tokens"),
        ("attention", {"text": "das " * 600}, "the text has 601 tokens and its output up to 512"),
    ],
)
def test_huge_counts_are_refused(operation: str, body: dict[str, Any], why: str):
    with serving(of(toys.translator())) as address:
        answer = post(address, operation, {"text": SOURCE} | body)
    assert answer.status_code == 422
    assert why in answer.json()["error"]


def test_values_within_values_are_counted():
    body = {"examples": {"a": [""] * 5000}, "image": ""}
    with serving(of(episodes())) as address:
        answer = post(address, "predict", body)
        named = post(address, "predict", {"examples": {"a" * 5001: [""]}, "image": ""})
    assert (answer.status_code, named.status_code) == (422, 422)
    assert answer.json()["error"] == "more than 4096 values in one request"
    assert "examples.name: 5001 characters" in named.json()["error"]


def test_images_are_refused_by_their_headers():
    file = io.BytesIO()
    Image.new("1", (8192, 8191)).save(file, "PNG")
    body = {"image": base64.b64encode(file.getvalue()).decode()}
    assert len(file.getvalue()) < 20_000
    with serving(of(toys.captioner())) as address:
        tracemalloc.start()
        answer = post(address, "predict", body)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert answer.status_code == 422
    assert "images of 67100672 pixels" in answer.json()["error"]
    assert "--max-pixels" in answer.json()["error"]
    assert peak < 8 << 20


def test_work_ends_with_its_time():
    begun: list[str] = []

    def responses(requests: Sequence[Any]) -> list[dict[str, Any]]:
        begun.extend(each.text for each in requests)
        while requests[0].text == "for ever":
            checkpoint()
        return [{"text": each.text} for each in requests]

    operation = Operation(Echo, respond_at_once(responses))
    with serving(run(predict=operation), limits=ServerLimits(answer_seconds=0.5)) as address:
        url = f"{address}/api/runs/echo/predict"
        answer = httpx.post(url, json={"text": "for ever"})
        assert (answer.status_code, answer.json()) == (504, {"error": "no answer within 0.5 s"})
        assert httpx.post(url, json={"text": "short"}).json() == {"text": "short"}
    assert begun == ["for ever", "short"]


def cancelled(calls: int) -> Any:
    """A `cancellable` block that ends at a checkpoint after so many."""
    left: Iterator[bool] = iter([True] * calls)
    return cancellable(lambda: next(left, False))


@pytest.mark.parametrize("calls", [0, 3])
@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 3}, {"temperature": 1.0}])
def test_searches_end_at_a_checkpoint(settings: dict[str, Any], calls: int):
    texts = toys.translator()
    with pytest.raises(Cancelled), cancelled(calls):
        texts.predict([SOURCE], **settings)
    assert texts.predict([SOURCE], **settings)  # nothing remains of it
    with pytest.raises(Cancelled), cancelled(calls):
        toys.language_model().predict(["the"], tokens=9, **settings)


@pytest.mark.parametrize(
    ("make", "example"), [(toys.classifier, "ein Baum"), (toys.reader, ("ein Baum", "der Baum ist alt"))]
)
def test_predictions_end_at_a_checkpoint(make: Any, example: Any):
    with pytest.raises(Cancelled), cancelled(0):
        make().predict([example])


def test_gradients_end_at_a_checkpoint():
    with pytest.raises(Cancelled), cancelled(2):
        toys.translator().attribute(SOURCE, kinds=("gradient",), target="the house is old")


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
