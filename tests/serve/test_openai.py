"""OpenAI's interface: models, completions whole and streamed, embeddings, errors."""

import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from regard.decoding.streaming import StreamEvent, StreamSource
from regard.models.bert import Bert, BertConfig
from regard.serve.openai import Choice
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.masked_language_model.config import DocumentFiles, MaskedLanguageModelling
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.text import Tokenizer
from tests.serve import toys
from tests.serve.serving import serving
from tests.serve.test_runs import of

GREEDY: dict[str, Any] = {"model": "lm", "prompt": "the house", "temperature": 0, "max_tokens": 5}


def language_model() -> LanguageModelRun:
    """One with several likely tokens."""
    run = toys.language_model()
    with torch.no_grad():
        run.model.get_parameter("output.weight").mul_(0.2)
    return run


def masked() -> MaskedLanguageModelRun:
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(toys.BLANKS, toys.TEXTS)
    config = BertConfig(layers=2, width=12, heads=3, hidden=13, context=29, dropout=0.0)
    settings = MaskedLanguageModelling(data=DocumentFiles(train="t"), tokenizer=toys.BLANKS, model=config)
    return MaskedLanguageModelRun(settings, Bert(tokenizer.size, config).eval(), tokenizer)


def complete(address: str, body: dict[str, Any], path: str = "completions", **headers: str) -> httpx.Response:
    return httpx.post(f"{address}/v1/{path}", json=body, headers=headers, timeout=60)


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of a stream."""
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    *found, end, nothing = response.text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    return [json.loads(each.removeprefix("data: ")) for each in found]


@pytest.fixture(scope="module")
def address():
    with serving(
        of(language_model(), "lm"), of(toys.translator(), "de-en"), of(masked(), "bert"), of(toys.vit(), "vit")
    ) as where:
        yield where


def test_models(address: str):
    listed = httpx.get(f"{address}/v1/models").json()
    assert listed["object"] == "list"
    assert [(each["id"], each["object"], each["owned_by"]) for each in listed["data"]] == [
        (name, "model", "regard") for name in ("lm", "de-en", "bert")
    ]
    missing = complete(address, {"model": "gpt-4", "prompt": "a"})
    assert missing.status_code == 404
    assert missing.json()["error"] == {
        "message": "the model 'gpt-4' does not exist; the server has lm, de-en, bert",
        "type": "invalid_request_error",
        "param": None,
        "code": "model_not_found",
    }


def test_a_completion_is_that_of_the_run(address: str):
    found = complete(address, GREEDY).json()
    (expected,) = language_model().predict(["the house"], tokens=5)
    reason = "stop" if expected.finished else "length"
    assert found["object"] == "text_completion"
    assert found["id"].startswith("cmpl-")
    assert found["choices"] == [{"text": expected.text, "index": 0, "logprobs": None, "finish_reason": reason}]
    assert found["usage"] == {"prompt_tokens": 2, "completion_tokens": 5, "total_tokens": 7}


@pytest.mark.parametrize("more", [{}, {"stop": " "}, {"prompt": ["the", "a tree"], "n": 2, "seed": 3}])
def test_a_streamed_completion_is_the_whole_one_in_parts(address: str, more: dict[str, Any]):
    body = GREEDY | more | ({"temperature": 1.0} if "seed" in more else {})
    whole = complete(address, body).json()
    parts = chunks(complete(address, body | {"stream": True}))
    texts, reasons = [""] * len(whole["choices"]), [None] * len(whole["choices"])
    for part in parts:
        (choice,) = part["choices"]
        assert reasons[choice["index"]] is None
        texts[choice["index"]] += choice["text"]
        reasons[choice["index"]] = choice["finish_reason"]
    assert texts == [each["text"] for each in whole["choices"]]
    assert reasons == [each["finish_reason"] for each in whole["choices"]]
    assert len({each["id"] for each in parts}) == 1


def test_a_completion_ends_before_a_stop(address: str):
    text = complete(address, GREEDY).json()["choices"][0]["text"]
    stop = text[3:6]
    (choice,) = complete(address, GREEDY | {"stop": ["not there", stop]}).json()["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["text"] == text[: text.index(stop)]


def test_samples_differ_unless_they_have_a_seed(address: str):
    body = GREEDY | {"temperature": 1.5, "n": 8, "max_tokens": 9}

    def texts(**more: int) -> list[str]:
        return [each["text"] for each in complete(address, body | more).json()["choices"]]

    assert texts(seed=5) == texts(seed=5)
    assert texts() != texts()
    assert len(set(texts())) > 1


def test_a_prompt_is_a_source_for_runs_that_translate(address: str):
    body = {"model": "de-en", "prompt": "das Haus ist alt"}
    (choice,) = complete(address, body).json()["choices"]
    (cut,) = complete(address, body | {"max_tokens": 2}).json()["choices"]
    assert choice["text"] == toys.translator().predict(["das Haus ist alt"], beam=1)[0].text
    assert cut["finish_reason"] == "length"
    assert choice["text"].startswith(cut["text"])


def test_embeddings(address: str):
    texts = ["das Haus", "ein Baum ist alt"]
    expected = masked().embed(texts).numpy()
    body = {"model": "bert", "input": texts}
    plain = complete(address, body, "embeddings").json()
    packed = complete(address, body | {"encoding_format": "base64"}, "embeddings").json()
    assert [each["index"] for each in plain["data"]] == [0, 1]
    np.testing.assert_allclose([each["embedding"] for each in plain["data"]], expected, rtol=1e-5)
    numbers = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in packed["data"]]
    np.testing.assert_allclose(numbers, expected, rtol=1e-5)
    assert plain["usage"] == {"prompt_tokens": 6, "total_tokens": 6}


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("completions", GREEDY | {"model": "bert"}, 400, "the model 'bert' has no completions; it has embeddings"),
        ("embeddings", {"model": "lm", "input": "a"}, 400, "the model 'lm' has no embeddings; it has completions"),
        ("completions", GREEDY | {"logprobs": 3}, 400, "logprobs"),
        ("completions", GREEDY | {"prompt": "the " * 2000}, 400, "characters; this server accepts 5000"),
        ("completions", GREEDY | {"n": 16, "max_tokens": 1025}, 400, "16 choices of 1025 tokens"),
        ("completions", GREEDY | {"prompt": ["a"] * 64, "n": 16, "max_tokens": 17}, 400, "1024 choices of 17 tokens"),
        ("completions", GREEDY | {"prompt": ["the " * 1000] * 13}, 400, "52002 characters are read 1 times"),
        ("completions", GREEDY | {"prompt": "the " * 30}, 400, "at once; shorten it"),
        ("completions", GREEDY | {"prompt": "the " * 30, "stream": True}, 400, "at once; shorten it"),
        ("embeddings", {"model": "bert", "input": []}, 400, "at least 1"),
        ("embeddings", {"model": "bert", "input": "a", "dimensions": 4}, 400, "dimensions"),
        ("chat/completions", {}, 404, "POST /v1/chat/completions"),
    ],
)
def test_errors_have_the_form_of_openai(address: str, path: str, body: dict[str, Any], status: int, why: str):
    answer = complete(address, body, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert why in error["message"]
    assert "\n" not in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


def test_options_without_effect_are_accepted(address: str):
    none = {
        "frequency_penalty": 0.0,
        "presence_penalty": 0,
        "logit_bias": {},
        "user": "a",
        "best_of": 1,
        "suffix": None,
    }
    assert complete(address, GREEDY | none).json()["choices"] == complete(address, GREEDY).json()["choices"]


def test_a_choice_holds_back_what_may_be_a_stop():
    def add(choice: Choice, text: str, *, is_full: bool = False) -> str:
        event = StreamEvent(0, StreamSource("ab"), 0, "", text, 0.0, 0.0, None, (), last=False, finished=False)
        return choice.add(event, is_full=is_full)

    choice = Choice(["\n\n", "END"])
    texts = ("a", "ab\n", "ab\nc", "ab\nc E", "ab\nc E\ufffd", "ab\nc EN", "ab\nc END d")
    assert "".join(add(choice, text) for text in texts) == "ab\nc "
    assert choice.reason == "stop"
    full = Choice(["END"])
    assert add(full, "EN") + add(full, "EN", is_full=True) == "EN"
    assert (full.reason, full.tokens, full.prompt) == ("length", 2, 1)
