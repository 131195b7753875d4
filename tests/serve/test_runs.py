"""What runs of each task answer: the same as their own methods."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from regard.data.pair import Pair
from regard.images import decode_image
from regard.pictures.payload import payload
from regard.serve.catalog import served
from regard.serve.operation import ServedRun
from regard.text.special import END
from tests.serve import made
from tests.serve.serving import serving

SOURCE = "das Haus ist alt"


def of(run: Any, name: str = "run") -> ServedRun:
    (one,) = served(name, run, Path(name))
    return one


def post(address: str, operation: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{address}/api/runs/run/{operation}", json=body, timeout=120)


def lines(address: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = post(address, "stream", body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_a_text_is_answered_as_the_run_does(kind: str):
    run = made.translator(kind)
    with serving(of(run)) as address:
        whole = post(address, "predict", {"text": SOURCE, "beam": 3, "n_best": 2}).json()
        start, *tokens, done = lines(address, {"text": SOURCE, "candidates": 3})
        seen = lines(address, {"text": SOURCE, "view": True})[-1]
        links = post(address, "align", {"text": SOURCE, "target": "the house"}).json()
        view = post(address, "attention", {"text": SOURCE, "target": "the house"}).json()
    (wanted,) = run.predict([SOURCE], beam=3, n_best=2)
    assert whole == wanted.to_json()
    (greedy,) = run.predict([SOURCE], beam=1)
    assert done == {
        "event": "done",
        "text": greedy.text,
        "score": pytest.approx(greedy.score),
        "finished": greedy.finished,
    }
    assert seen == done | {"view": payload(run.attribute(SOURCE, beam=1).lookups)}
    assert [each["piece"] for each in tokens] == list(greedy.tokens)
    assert tokens[-1]["text"] == greedy.text
    assert all(each["candidates"][0]["token"] == each["token"] for each in tokens)
    assert greedy.attention is not None
    assert start["forced"] == 0
    assert start["view"]["lookups"][0]["source"] == list(greedy.attention.source)
    assert start["view"]["lookups"][0]["target"] == []
    weights = np.array([each["weights"] for each in tokens])  # (target, layer, head, source)
    layers = len(start["view"]["lookups"][0]["layers"])
    assert weights.shape[1:3] == (layers, start["view"]["lookups"][0]["heads"])
    np.testing.assert_allclose(weights.mean((1, 2)), greedy.attention.weights, atol=1e-4)
    (alignment,) = run.align([Pair(SOURCE, "the house", "")])
    assert (links["source"], links["target"]) == (list(alignment.source), list(alignment.target))
    np.testing.assert_allclose(links["weights"], alignment.weights, atol=1e-4)
    assert links["links"] == [
        [int(row.argmax()), word]
        for word, row in sorted(enumerate(alignment.weights), key=lambda each: (int(each[1].argmax()), each[0]))
    ]
    assert links["log_probabilities"] == pytest.approx(run.score([Pair(SOURCE, "the house", "")])[0], rel=1e-4)
    assert view == payload(run.attribute(SOURCE, target="the house").lookups)


def test_what_is_forced_is_written_and_gone_on_from():
    run = made.translator()
    prefix = run.tokenizers.target.encode("a tree")
    with serving(of(run)) as address:
        start, *tokens, done = lines(address, {"text": SOURCE, "prefix_tokens": prefix})
        assert start["forced"] == 2
        assert [each["piece"] for each in tokens[:2]] == ["a", "tree"]
        assert lines(address, {"text": SOURCE, "prefix": "a tree"})[-1] == done
        assert done["text"] == run.predict([SOURCE], beam=1, prefix="a tree")[0].text
        for body, said in (
            ({"prefix": "a spaceship"}, "not in the target's vocabulary"),
            ({"prefix": "a", "prefix_tokens": prefix}, "both given"),
            ({"prefix_tokens": [3]}, "token 3 is no part of a text"),
            ({"prefix_tokens": [9999]}, "token 9999 is no part of a text"),
            ({"prefix_tokens": prefix * 50}, "more than the limit of"),
            ({"top_k": 5}, "set a temperature"),
        ):
            answer = post(address, "stream", {"text": SOURCE, **body})
            assert answer.status_code == 422, body
            assert said in answer.json()["error"]


def test_the_same_seed_draws_the_same():
    with serving(of(made.translator())) as address:

        def drawn(seed: int) -> str:
            return lines(address, {"text": SOURCE, "temperature": 3.0, "seed": seed})[-1]["text"]

        assert drawn(5) == drawn(5)
        assert len({drawn(seed) for seed in range(7)}) > 1


def test_many_streams_are_one_batch_and_each_is_as_alone():
    run = made.translator("transformer")
    texts = [SOURCE, "ein Baum", "", "kein Haus ist kein Baum"]
    operation = of(run).operations["stream"]
    together = list(
        operation.respond([operation.request.model_validate({"text": text}) for text in texts], lambda number: True)
    )
    for number, text in enumerate(texts):
        mine = [said.data for said in together if said.number == number]
        alone = [
            said.data
            for said in operation.respond([operation.request.model_validate({"text": text})], lambda number: True)
        ]
        assert [each["event"] for each in mine] == [each["event"] for each in alone]
        assert mine[-1]["text"] == alone[-1]["text"]
        for one, other in zip(mine[1:-1], alone[1:-1], strict=True):
            np.testing.assert_allclose(one["weights"], other["weights"], atol=1e-4)


def test_a_text_that_the_model_cannot_take_is_told():
    with serving(of(made.writer(5))) as address:
        answer = post(address, "stream", {"text": "a tree is old a tree is old"})
    assert answer.status_code == 422
    assert "the model takes 5" in answer.json()["error"]


def test_a_language_model_goes_on():
    run, prompt = made.writer(), "the house"
    with serving(of(run)) as address:
        whole = post(address, "predict", {"text": prompt, "tokens": 7}).json()
        start, *tokens, done = lines(address, {"text": prompt, "tokens": 7})
        forced = lines(address, {"text": prompt, "tokens": 7, "prefix_tokens": [tokens[0]["token"] + 1]})
    (wanted,) = run.predict([prompt], tokens=7, beam=1)
    assert whole == wanted.to_json()
    assert done == {
        "event": "done",
        "text": wanted.text,
        "score": pytest.approx(wanted.score, rel=1e-5),
        "finished": wanted.finished,
    }
    assert [each["piece"] for each in tokens] == list(wanted.tokens)
    keys = [len(each["weights"][0][0]) for each in tokens]
    assert keys == list(range(3, 3 + len(tokens)))  # the start of the text, its two words, and what is written
    assert start["view"]["lookups"][0]["source"] == ["</s>", "the", "house"]
    attribution = run.attribute(prompt + wanted.text.rpartition(" ")[0])
    last = np.array(tokens[-1]["weights"]).mean((0, 1))
    np.testing.assert_allclose(last, attribution.weights.weights[-1], atol=1e-4)
    assert forced[0]["forced"] == 1
    assert forced[1]["token"] == tokens[0]["token"] + 1


def test_the_alternatives_of_a_beam_and_what_each_looks_at():
    """Of a language model; of a caption below."""
    run, prompt = made.writer(), "the house"
    asked = {"text": prompt, "tokens": 5, "beam": 3, "n_best": 3}
    with serving(of(run)) as address:
        whole = post(address, "predict", asked).json()
        other = whole["alternatives"][1]["text"]
        view = post(address, "attention", {"text": prompt, "target": other, "kinds": ["weights", "norms"]}).json()
        long = post(address, "attention", {"text": prompt, "target": "a " * 600})
    (best,) = run.predict([prompt], tokens=5, beam=3, n_best=3)
    assert [whole, *whole["alternatives"]] == [best.to_json(), *(each.to_json() for each in best.alternatives)]
    assert len({each["text"] for each in (whole, *whole["alternatives"])}) == 3
    written = [*run.tokenizer.encode(other), END]
    assert view == payload(list(run.attribute(prompt, target_tokens=written, kinds=["weights", "norms"]).lookups))
    assert view["lookups"][0]["target"] == run.tokenizer.pieces(written)
    assert (long.status_code, long.json()["error"]) == (422, "the text has 604 tokens; a page shows at most 512")


def test_the_alternatives_of_a_caption_and_where_each_looks():
    run = made.teller()
    with serving(of(run)) as address:
        whole = post(address, "predict", {**image(), "beam": 3, "n_best": 3}).json()
        view = post(address, "attention", {**image(), "target": whole["alternatives"][0]["text"]}).json()
        both = post(address, "attention", {**image(), "target": "a tree", "beam": 2})
        many = post(address, "predict", {**image(), "beam": 2, "n_best": 3})
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(image()["image"]))).convert("L"))
    (told,) = run.predict([pixels], beam=3, n_best=3)
    (alone,) = run.predict([pixels], beam=3)
    assert whole == told.to_json()
    assert [whole["text"], whole["alternatives"][0]["score"] <= whole["score"]] == [alone.text, True]
    assert len({each.text for each in (told, *told.alternatives)}) == 3
    (lookups,) = view["lookups"]
    assert lookups["target"] == [*told.alternatives[0].tokens, "</s>"]
    assert view == payload(run.attribute(pixels, target=told.alternatives[0].text).lookups)
    assert (both.status_code, both.json()["error"]) == (422, "beam and target are both given; choose one")
    assert many.status_code == 422


def test_what_goes_on_may_begin_with_a_text():
    run, prompt = made.writer(), "the house"
    ids = run.tokenizer.encode("is old")
    with serving(of(run)) as address:

        def going(**given: Any) -> list[dict[str, Any]]:
            return lines(address, {"text": prompt, "tokens": 5, "candidates": 3, **given})

        start, *tokens, done = going(prefix=" is old")
        assert start["forced"] == 2
        assert [each["token"] for each in tokens[:2]] == ids
        assert done["text"].startswith(" is old")
        assert all(len(each["candidates"]) == 3 for each in tokens)
        assert [start, *tokens, done] == going(prefix_tokens=ids)
        for given, said in (
            ({"prefix": "a spaceship"}, "not in the target's vocabulary"),
            ({"prefix": "a", "prefix_tokens": ids}, "both given"),
        ):
            answer = post(address, "stream", {"text": prompt, **given})
            assert (answer.status_code, said in answer.json()["error"]) == (422, True)
    (free,) = run.predict([f"{prompt} is old"], tokens=3, beam=1)
    assert [each["piece"] for each in tokens[2:]] == list(free.tokens)


def test_a_document_is_told_with_what_it_was_told_by():
    run = made.critic()
    with serving(of(run)) as address:
        told = post(address, "predict", {"text": "das Haus ist alt . ein Baum"}).json()
        looked = post(address, "attention", {"text": "das Haus ist alt . ein Baum"}).json()
        wrong = post(address, "predict", {"text": "a", "second": "b"})
    (found,) = run.predict(["das Haus ist alt . ein Baum"])
    assert told == found.to_json() == {name: looked[name] for name in told}
    assert looked["view"]["lookups"][0]["sentences"] is not None
    assert wrong.status_code == 422
    assert wrong.json()["error"] == "second is given: one text is read"


def pixels(encoded: str, channels: int = 1) -> np.ndarray:
    """The pixels that a run reads of an image in a request."""
    return decode_image(base64.b64decode(encoded), channels)


def image(kind: str = "PNG") -> dict[str, str]:
    pixels = np.random.default_rng(1).integers(0, 256, (19, 23, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return {"image": base64.b64encode(file.getvalue()).decode()}


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_is_told(kind: str):
    run = made.beholder()
    with serving(of(run)) as address:
        told = post(address, "predict", image(kind)).json()
        looked = post(address, "attention", image(kind)).json()
    assert told["label"] == looked["label"]
    assert sum(told["probabilities"].values()) == pytest.approx(1)
    patches = looked["view"]["lookups"][0]["patches"]
    assert (patches["rows"], patches["columns"], patches["height"]) == (3, 3, 12)


def test_a_caption_says_where_it_looked():
    run = made.teller()
    with serving(of(run)) as address:
        told, looked = post(address, "predict", image()).json(), post(address, "attention", image()).json()
    assert told["text"] == looked["text"]
    lookups = looked["view"]["lookups"][0]
    assert lookups["target"] == told["tokens"]
    assert all(note.startswith("gate ") for note in lookups["notes"])


def test_a_caption_streams_with_where_it_looks():
    run = made.teller()
    with serving(of(run)) as address:
        start, *tokens, done = lines(address, {**image(), "candidates": 3, "view": True})
        looked = post(address, "attention", {**image(), "beam": 1}).json()
        forced, *others = lines(address, {**image(), "prefix": "a tree"})
    assert [each["piece"] for each in tokens][: len(looked["tokens"])] == looked["tokens"]
    assert (done["text"], done["score"]) == (looked["text"], pytest.approx(looked["score"], rel=1e-5))
    assert all(each["candidates"][0]["token"] == each["token"] for each in tokens)
    empty, last, whole = (each["view"]["lookups"][0] for each in (start, done, looked))
    assert (empty["source"], empty["target"], empty["patches"]) == (whole["source"], [], whole["patches"])
    assert last["target"] == [each["piece"] for each in tokens]
    assert last["notes"][: len(whole["notes"])] == whole["notes"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(image()["image"]))).convert("L"))
    seen = run.attribute(pixels, beam=1).weights.weights
    weights = np.array([each["weights"] for each in tokens])[: len(seen), 0, 0]
    np.testing.assert_allclose(weights, seen.reshape(len(seen), -1), atol=1e-4)
    assert (forced["forced"], [each["piece"] for each in others[:2]]) == (2, ["a", "tree"])


def test_captions_are_written_together_as_each_alone():
    run = made.teller()
    images = [np.random.default_rng(seed).integers(0, 256, (19, 23), dtype=np.uint8) for seed in range(3)]
    together = list(run.stream(images))
    for number, (one, told) in enumerate(zip(images, run.predict(images, beam=1), strict=True)):
        mine = [each for each in together if each.number == number]
        assert (mine[-1].text, mine[-1].last) == (told.text, True)
        for ours, alone in zip(mine, run.stream([one]), strict=True):
            assert (ours.token, ours.text) == (alone.token, alone.text)
            assert ours.attention is not None
            assert alone.attention is not None
            np.testing.assert_allclose(ours.attention, alone.attention, atol=1e-5)
    with pytest.raises(TypeError, match="put it in a list"):
        run.stream("picture.png")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("aGFsbG8=", 422),
        ("not base64!", 422),
        ("", 422),
        (base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(99)).decode(), 422),
    ],
)
def test_row_19_what_is_no_image_is_told(given: str, status: int):
    with serving(of(made.beholder())) as address:
        answer = post(address, "predict", {"image": given})
    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]


def test_a_question_is_answered_from_its_context():
    run = made.reader()
    body = {"question": "ein Haus", "context": "das Haus ist alt"}
    with serving(of(run)) as address:
        told, looked = post(address, "predict", body).json(), post(address, "attention", body).json()
        blank = post(address, "predict", {"question": " ", "context": "a"})
    (found,) = run.predict([(body["question"], body["context"])])
    assert told == found.to_json() == {name: looked[name] for name in told}
    assert set(looked["view"]["lookups"][0]["source"]) >= {"das", "Haus", "ist", "alt"}
    assert blank.status_code == 422


def test_runs_say_what_they_are():
    with serving(of(made.translator(), "one & two"), of(made.critic(), "größe")) as address:
        told = httpx.get(address + "/api/runs").json()
        answer = httpx.post(f"{address}/api/runs/one %26 two/predict", json={"text": "ein Baum"}, timeout=60)
    one, other = told["runs"]
    assert one["name"] == "one & two"
    assert one["operations"] == ["predict", "stream", "align", "attention", "compare"]
    assert one["comparable"] == []
    assert (other["name"], other["kind"], other["classes"]) == ("größe", "document", ["good", "<bad>"])
    assert told["limits"]["text"] == 5000
    assert answer.status_code == 200
