"""Answers to what a model cannot read have `warnings`; others have no such key."""

import json

import httpx
import pytest

from tests.serve import toys
from tests.serve.serving import serving
from tests.serve.test_runs import of

EMPTY = ["the text is empty, so the prediction means nothing"]


@pytest.mark.parametrize(
    ("make", "operations"), [(toys.translator, ("predict", "attention")), (toys.classifier, ("predict",))]
)
def test_an_answer_has_its_warnings(make, operations: tuple[str, ...]):
    with serving(of(make())) as address:
        for operation in operations:
            for text, warnings in (("", EMPTY), ("das Haus", None)):
                answer = httpx.post(f"{address}/api/runs/run/{operation}", json={"text": text}, timeout=60)
                assert answer.status_code == 200
                assert answer.json().get("warnings") == warnings


def test_a_streamed_answer_has_them_in_its_last_line():
    with serving(of(toys.translator())) as address:
        for text, warnings in (("", EMPTY), ("das Haus", None)):
            answer = httpx.post(f"{address}/api/runs/run/stream", json={"text": text}, timeout=60)
            lines = [json.loads(line) for line in answer.text.splitlines()]
            assert lines[-1]["event"] == "done"
            assert [line.get("warnings") for line in lines] == [None] * (len(lines) - 1) + [warnings]
