"""The responses of runs of each task: the same as their own methods."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from regard.decoding.search import Search
from regard.images import read_image
from regard.pictures.page import build_payload
from regard.serve.runs import build_served_runs, read_example
from regard.serve.worker import ServedRun
from regard.text.special import END
from tests.serve import toys
from tests.serve.serving import serving

SOURCE = "das Haus ist alt"


def of(run: Any, name: str = "run") -> ServedRun:
    (one,) = build_served_runs(name, run, Path(name))
    return one


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"request": {"text": "9 May"', "data.json: cannot be read (Expecting"),
        ("[" * 100_000, "data.json: cannot be read (maximum recursion depth"),
        ('{"request": ["9 May"]}', "data.json: cannot be read ('list' object"),
        ("[]", "data.json: cannot be read ('list' object"),
    ],
)
def test_a_damaged_example_is_logged(content: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "data.json").write_text(content, encoding="utf-8")
    assert read_example(toys.translator(), tmp_path) == {}
    (logged,) = caplog.messages
    assert message in logged


def test_the_page_begins_with_the_first_example(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "data.json").write_text('{"request": {"text": "9 May"}}', encoding="utf-8")
    assert read_example(toys.translator(), tmp_path) == {"text": "9 May"}
    (tmp_path / "data.json").write_text('{"request": null}', encoding="utf-8")
    assert read_example(toys.translator(), tmp_path) == {}
    assert not caplog.messages


def post(address: str, operation: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{address}/api/runs/run/{operation}", json=body, timeout=120)


def lines(address: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = post(address, "stream", body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_a_text_is_predicted_as_by_the_run(kind: str):
    run = toys.translator(kind)
    with serving(of(run)) as address:
        whole = post(address, "predict", {"text": SOURCE, "beam": 3, "n_best": 2}).json()
        start, *tokens, done = lines(address, {"text": SOURCE, "candidates": 3})
        viewed = lines(address, {"text": SOURCE, "view": True})[-1]
        view = post(address, "attention", {"text": SOURCE, "target": "the house"}).json()
    (expected,) = run.predict([SOURCE], beam=3, n_best=2)
    assert whole == expected.to_json()
    (greedy,) = run.predict([SOURCE], beam=1)
    assert done == {
        "event": "done",
        "text": greedy.text,
        "score": pytest.approx(greedy.score),
        "finished": greedy.finished,
    }
    assert viewed == done | {"view": build_payload(run.attribute(SOURCE, beam=1).lookups)}
    assert [each["piece"] for each in tokens] == [shown(each) for each in greedy.tokens]
    assert tokens[-1]["text"] == greedy.text
    assert all(each["candidates"][0]["token"] == each["token"] for each in tokens)
    assert greedy.attention is not None
    assert start["forced"] == 0
    assert start["view"]["lookups"][0]["source"] == [shown(each) for each in greedy.attention.source]
    assert start["view"]["lookups"][0]["target"] == []
    weights = np.array([each["weights"] for each in tokens])  # (target, layer, head, source)
    layers = len(start["view"]["lookups"][0]["layers"])
    assert weights.shape[1:3] == (layers, start["view"]["lookups"][0]["heads"])
    np.testing.assert_allclose(weights.mean((1, 2)), greedy.attention.weights, atol=1e-4)
    assert view == build_payload(run.attribute(SOURCE, target="the house").lookups)


def test_a_forced_prefix_is_continued():
    run = toys.translator()
    prefix = run.tokenizers.target.encode("a tree")
    with serving(of(run)) as address:
        start, *tokens, done = lines(address, {"text": SOURCE, "prefix_tokens": prefix})
        assert start["forced"] == 2
        assert [each["piece"] for each in tokens[:2]] == ["a", "tree"]
        assert lines(address, {"text": SOURCE, "prefix": "a tree"})[-1] == done
        assert done["text"] == run.predict([SOURCE], beam=1, prefix="a tree")[0].text
        for body, message in (
            ({"prefix": "a spaceship"}, "not in the target's vocabulary"),
            ({"prefix": "a", "prefix_tokens": prefix}, "both given"),
            ({"prefix_tokens": [3]}, "token 3 cannot occur in a text"),
            ({"prefix_tokens": [9999]}, "token 9999 cannot occur in a text"),
            ({"prefix_tokens": prefix * 50}, "more than the limit of"),
            ({"top_k": 5}, "set a temperature"),
        ):
            answer = post(address, "stream", {"text": SOURCE, **body})
            assert answer.status_code == 422, body
            assert message in answer.json()["error"]


def test_a_run_whose_own_search_samples_is_predicted_by_it():
    run = toys.translator()
    run.config = replace(run.config, search=Search(temperature=3.0, seed=5))
    with serving(of(run)) as address:
        found, again, best = (
            post(address, "predict", {"text": SOURCE, **more}).json()["text"] for more in ({}, {}, {"beam": 1})
        )
        streamed = lines(address, {"text": SOURCE})[-1]["text"]
        both = post(address, "predict", {"text": SOURCE, "beam": 2, "temperature": 1.0})
    assert (both.status_code, "beam and temperature are both given" in both.json()["error"]) == (422, True)
    assert found == again == run.predict([SOURCE])[0].text
    assert best == streamed == run.predict([SOURCE], beam=1)[0].text != found


def test_the_same_seed_samples_the_same():
    with serving(of(toys.translator())) as address:

        def sampled(seed: int) -> str:
            return lines(address, {"text": SOURCE, "temperature": 3.0, "seed": seed})[-1]["text"]

        assert sampled(5) == sampled(5)
        assert len({sampled(seed) for seed in range(7)}) > 1


def test_batched_streams_equal_single_streams():
    run = toys.translator("transformer")
    texts = [SOURCE, "ein Baum", "", "kein Haus ist kein Baum"]
    operation = of(run).operations["stream"]
    together = list(
        operation.respond([operation.request.model_validate({"text": text}) for text in texts], lambda number: True)
    )
    for number, text in enumerate(texts):
        mine = [part.data for part in together if part.number == number]
        alone = [
            part.data
            for part in operation.respond([operation.request.model_validate({"text": text})], lambda number: True)
        ]
        assert [each["event"] for each in mine] == [each["event"] for each in alone]
        assert mine[-1]["text"] == alone[-1]["text"]
        for one, other in zip(mine[1:-1], alone[1:-1], strict=True):
            np.testing.assert_allclose(one["weights"], other["weights"], atol=1e-4)


def test_a_text_too_long_for_the_model_is_an_error():
    with serving(of(toys.language_model(5))) as address:
        answer = post(address, "stream", {"text": "a tree is old a tree is old"})
    assert answer.status_code == 422
    assert "the model takes 5" in answer.json()["error"]


def test_a_language_model_continues():
    run, prompt = toys.language_model(), "the house"
    with serving(of(run)) as address:
        whole = post(address, "predict", {"text": prompt, "tokens": 7}).json()
        start, *tokens, done = lines(address, {"text": prompt, "tokens": 7})
        forced = lines(address, {"text": prompt, "tokens": 7, "prefix_tokens": [tokens[0]["token"] + 1]})
    (expected,) = run.predict([prompt], tokens=7, beam=1)
    assert whole == expected.to_json()
    assert done == {
        "event": "done",
        "text": expected.text,
        "score": pytest.approx(expected.score, rel=1e-5),
        "finished": expected.finished,
    }
    assert [each["piece"] for each in tokens] == list(expected.tokens)
    keys = [len(each["weights"][0][0]) for each in tokens]
    assert keys == list(range(3, 3 + len(tokens)))  # the start of the text, its two words, and what is written
    assert start["view"]["lookups"][0]["source"] == ["∎", "the", "house"]
    attribution = run.attribute(prompt + expected.text.rpartition(" ")[0])
    last = np.array(tokens[-1]["weights"]).mean((0, 1))
    np.testing.assert_allclose(last, attribution.weights.weights[-1], atol=1e-4)
    assert forced[0]["forced"] == 1
    assert forced[1]["token"] == tokens[0]["token"] + 1


def test_the_alternatives_of_a_beam_and_their_attention():
    """Of a language model; of a caption below."""
    run, prompt = toys.language_model(), "the house"
    body = {"text": prompt, "tokens": 5, "beam": 3, "n_best": 3}
    with serving(of(run)) as address:
        whole = post(address, "predict", body).json()
        other = whole["alternatives"][1]["text"]
        view = post(address, "attention", {"text": prompt, "target": other, "kinds": ["weights", "norms"]}).json()
        long = post(address, "attention", {"text": prompt, "target": "a " * 600})
    (best,) = run.predict([prompt], tokens=5, beam=3, n_best=3)
    assert [whole, *whole["alternatives"]] == [best.to_json(), *(each.to_json() for each in best.alternatives)]
    assert len({each["text"] for each in (whole, *whole["alternatives"])}) == 3
    written = [*run.tokenizer.encode(other), END]
    assert view == build_payload(list(run.attribute(prompt, target_tokens=written, kinds=["weights", "norms"]).lookups))
    assert view["lookups"][0]["target"] == [shown(each) for each in run.tokenizer.pieces(written)]
    assert (long.status_code, long.json()["error"]) == (422, "the text has 604 tokens; a page shows at most 512")


def test_a_document_is_classified_with_its_attention():
    run = toys.classifier()
    with serving(of(run)) as address:
        prediction = post(address, "predict", {"text": "das Haus ist alt . ein Baum"}).json()
        attention = post(address, "attention", {"text": "das Haus ist alt . ein Baum"}).json()
        wrong = post(address, "predict", {"text": "a", "second": "b"})
    (found,) = run.predict(["das Haus ist alt . ein Baum"])
    assert prediction == found.to_json() == {name: attention[name] for name in prediction}
    assert attention["view"]["lookups"][0]["sentences"] is not None
    assert wrong.status_code == 422
    assert wrong.json()["error"] == "second is given: one text is read"


def shown(piece: str) -> str:
    """A token's label in a picture."""
    return {"</s>": "∎", "<unk>": "\ufffd"}.get(piece, piece)


def pixels(encoded: str, channels: int = 1) -> np.ndarray:
    """The pixels that a run reads of an image in a request."""
    return read_image(base64.b64decode(encoded), channels)


def image(kind: str = "PNG") -> dict[str, str]:
    pixels = np.random.default_rng(1).integers(0, 256, (19, 23, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return {"image": base64.b64encode(file.getvalue()).decode()}


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_is_classified(kind: str):
    run = toys.vit()
    with serving(of(run)) as address:
        prediction = post(address, "predict", image(kind)).json()
        attention = post(address, "attention", image(kind)).json()
    assert prediction["label"] == attention["label"]
    assert sum(prediction["probabilities"].values()) == pytest.approx(1)
    patches = attention["view"]["lookups"][0]["patches"]
    assert (patches["rows"], patches["columns"], patches["height"], patches["channels"]) == (3, 3, 24, 3)


def test_a_caption_streams_with_its_attention():
    run = toys.captioner()
    with serving(of(run)) as address:
        start, *tokens, done = lines(address, {**image(), "candidates": 3, "view": True})
        attention = post(address, "attention", {**image(), "beam": 1}).json()
        forced, *others = lines(address, {**image(), "prefix": "a tree"})
    assert [each["piece"] for each in tokens][: len(attention["tokens"])] == attention["tokens"]
    assert (done["text"], done["score"]) == (attention["text"], pytest.approx(attention["score"], rel=1e-5))
    assert all(each["candidates"][0]["token"] == each["token"] for each in tokens)
    empty, last, whole = (each["view"]["lookups"][0] for each in (start, done, attention))
    assert (empty["source"], empty["target"], empty["patches"]) == (whole["source"], [], whole["patches"])
    assert last["target"] == [shown(each["piece"]) for each in tokens]
    assert last["notes"][: len(whole["notes"])] == whole["notes"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(image()["image"]))).convert("L"))
    expected = run.attribute(pixels, beam=1).weights.weights
    weights = np.array([each["weights"] for each in tokens])[: len(expected), 0, 0]
    np.testing.assert_allclose(weights, expected.reshape(len(expected), -1), atol=1e-4)
    assert (forced["forced"], [each["piece"] for each in others[:2]]) == (2, ["a", "tree"])


@pytest.mark.parametrize(
    ("encoded", "status"),
    [
        ("aGFsbG8=", 422),
        ("not base64!", 422),
        ("", 422),
        (base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(99)).decode(), 422),
    ],
)
def test_an_invalid_image_is_an_error(encoded: str, status: int):
    with serving(of(toys.vit())) as address:
        answer = post(address, "predict", {"image": encoded})
    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]


def test_a_question_is_answered_from_its_context():
    run = toys.reader()
    body = {"question": "ein Haus", "context": "das Haus ist alt"}
    with serving(of(run)) as address:
        prediction, attention = post(address, "predict", body).json(), post(address, "attention", body).json()
        blank = post(address, "predict", {"question": " ", "context": "a"})
    (found,) = run.predict([(body["question"], body["context"])])
    assert prediction == found.to_json() == {name: attention[name] for name in prediction}
    assert set(attention["view"]["lookups"][0]["source"]) >= {"das", "Haus", "ist", "alt"}
    assert blank.status_code == 422


def test_runs_describe_themselves():
    with serving(of(toys.translator(), "one & two"), of(toys.classifier(), "größe")) as address:
        server = httpx.get(address + "/api/runs").json()
        answer = httpx.post(f"{address}/api/runs/one %26 two/predict", json={"text": "ein Baum"}, timeout=60)
    one, other = server["runs"]
    assert one["name"] == "one & two"
    assert one["operations"] == ["predict", "stream", "attention"]
    assert (other["name"], other["kind"], other["classes"]) == ("größe", "document", ["good", "<bad>"])
    assert server["limits"]["text"] == 5000
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("request_kept", "shown"),
    [({"image": "aGk="}, True), ({"image": ""}, False), ({"text": "a"}, False), ({}, False), ([], False)],
)
def test_a_run_begins_with_the_example_that_its_folder_keeps(request_kept: Any, shown: bool, tmp_path: Path):
    (tmp_path / "data.json").write_text(json.dumps({"request": request_kept}), encoding="utf-8")
    (one,) = build_served_runs("run", toys.vit(), tmp_path)
    assert one.about.get("example") == (request_kept if shown else None)
