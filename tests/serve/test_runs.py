"""The responses of runs of each task, the same as their own methods, and of tasks whose names serve does not know."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from regard.attention.intervene import Cut, intervene
from regard.attribution.attention import full_names, score_output, source_attention_names
from regard.attribution.effects import MapCut, apply_cuts
from regard.attribution.kinds import GRADIENTS, Kind
from regard.audio import Sound, encode_audio
from regard.data.pairs import Pair
from regard.decoding.search import Search
from regard.errors import InputError
from regard.images import read_image
from regard.maps.lookups import Lookups
from regard.models.pointer_network import PointerNetworkConfig
from regard.models.turing_machine import TuringMachineConfig
from regard.pictures.page import build_payload
from regard.serve.runs import build_served_runs, read_example
from regard.serve.worker import ServedRun
from regard.tasks.algorithmic import Algorithmic, AlgorithmicRun, Copy
from regard.tasks.attribution import Attribution
from regard.tasks.custom import CustomRun
from regard.tasks.few_shot import FewShot, FewShotExample, FewShotRun, FolderEpisodes
from regard.tasks.meta_rl import Bandits, MetaRL, MetaRLRun
from regard.tasks.options import AttributionOptions, PredictOptions, TextPrediction
from regard.tasks.pointer import Pointer, PointerRun, Sorting
from regard.tasks.run import Run
from regard.text.kinds import END
from tests.pictures.test_view import numbers
from tests.serve import toys
from tests.serve.serving import serving
from tests.tasks.test_kinds import blanks, classes
from tests.tasks.test_speech import untrained

SOURCE = "das Haus ist alt"
DOCUMENT = f"{SOURCE} . ein Baum"
SENTENCES = f"{SOURCE} . Ein Baum"
QUESTION = {"question": "ein Haus", "context": SOURCE}


def of(run: Any, name: str = "run") -> ServedRun:
    (one,) = build_served_runs(name, run, Path(name))
    return one


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"request": {"text": "9 May"', "data.json: cannot be read (Expecting"),
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


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_an_output_is_predicted_again_under_cuts(kind: str):
    run = toys.translator(kind)
    names = full_names("decoder", source_attention_names(run.model))
    with serving(of(run)) as address:
        _, *events, _ = lines(address, {"text": SOURCE})
        tokens = [each["token"] for each in events]
        body = {"text": SOURCE, "target_tokens": tokens, "beam": 1}
        hidden = post(address, "attention", body | {"cuts": [{"keys": [1]}, {"keys": [3]}], "forced": 1}).json()
        head, everything = (
            post(address, "attention", body | {"cuts": cuts}).json()["after"] for cuts in ([{"maps": [0]}], [{}])
        )
        late = post(address, "attention", body | {"cuts": [{"queries": [len(tokens) - 1], "keys": [0]}]}).json()
        refused = [post(address, "attention", body | bad) for bad, _ in BAD_CUTS]
    for answer, (_, message) in zip(refused, BAD_CUTS, strict=True):
        assert (answer.status_code, answer.json()["error"][: len(message)]) == (422, message)
    assert hidden["tokens"] == [each["piece"] for each in events]
    np.testing.assert_allclose(hidden["before"], [each["log_probability"] for each in events], atol=1e-4)
    with torch.no_grad(), intervene(run.model, Cut(keys=[1, 3]), only=names):
        effects = score_output(run.model, (run.encode_sources([SOURCE])[0], tokens))[0]
        (expected,) = run.predict([SOURCE], beam=1, prefix=events[0]["piece"], attention=False)
    np.testing.assert_allclose(hidden["after"], effects, atol=1e-5)
    assert hidden["prediction"]["text"] == expected.text
    assert hidden["prediction"]["tokens"] == list(expected.tokens)
    assert hidden["before"] != pytest.approx(hidden["after"], abs=1e-3)
    assert (head == pytest.approx(everything, abs=1e-5)) == (kind == "bahdanau")  # which has no other head
    assert late["before"][:-1] == pytest.approx(late["after"][:-1], abs=1e-5)


CUT_RUNS = {
    "classifier": (lambda: classes("bert"), "the cat sat"),
    "language model": (toys.language_model, "the old house"),
    "reader": (toys.reader, ("ein Haus", SOURCE)),
    "blanks": (blanks, "the [MASK] sat on the [MASK]"),
    "tagger": (toys.tagger, SOURCE),
}


@pytest.mark.parametrize("name", CUT_RUNS)
def test_every_output_of_a_text_is_predicted_again_under_cuts(name: str):
    """What each token, class or tag loses is its effect, and the prediction is that of the changed model."""
    make, example = CUT_RUNS[name]
    run: Any = make()
    options = AttributionOptions(target_tokens=[4, 5, 6]) if name == "language model" else AttributionOptions()
    effects = run.attribute(example, replace(options, kinds=["effect"])).lookups[0]
    effects = effects.alternatives.get("effect", effects)
    cut = run.compare_cuts(example, [MapCut(keys=[1])], options)
    losses = np.array(cut["before"]) - np.array(cut["after"])
    assert np.abs(losses).max() > 1e-5
    if name not in ("tagger", "classifier"):  # whose effects are those of entities, or shared by words
        np.testing.assert_allclose(losses, effects.weights[0, 0, :, 1], atol=1e-5)
    same = run.compare_cuts(example, [MapCut(queries=[0], keys=[])], options)
    assert same["before"] == pytest.approx(same["after"], abs=1e-6)
    if name != "language model":  # whose three tokens were forced
        assert same["output"] == same["changed"] == cut["output"]
        with torch.no_grad(), intervene(run.model, Cut(keys=[1]), strict=False):
            (expected,) = run.predict([example])
        assert cut["prediction"] == expected.to_json()
    with serving(of(run)) as address:
        body = run.record(example) | {"text": example} if isinstance(example, str) else dict(QUESTION)
        body = {key: value for key, value in body.items() if key in run.inputs}
        body |= {} if options.target_tokens is None else {"target_tokens": [*options.target_tokens]}
        answer = post(address, "attention", body | {"cuts": [{"keys": [1]}]})
        assert answer.json()["after"] == pytest.approx(cut["after"], abs=1e-5)
        refused = post(address, "attention", body | {"cuts": [{"keys": [99]}]})
    assert (refused.status_code, "keys [99] do not exist" in refused.json()["error"]) == (422, True)


def noise(side: int, *channels: int) -> bytes:
    """A PNG file of noise."""
    pixels = np.random.default_rng(1).integers(0, 256, (side, side, *channels), dtype=np.uint8)
    Image.fromarray(pixels).save(content := io.BytesIO(), "png")
    return content.getvalue()


CUT_SOURCES = {
    "image": (toys.vit, noise(12, 3), Cut(keys=[2])),  # behind [CLS]
    "caption": (toys.captioner, noise(16), Cut(keys=[1])),
    "recording": (untrained, Sound(np.sin(np.arange(3000, dtype=np.float32) / 9) / 2, 8000), Cut(keys=[1])),
    "pair": (lambda: classes("rocktaschel"), ("the cat sat", "on the mat"), Cut(keys=[1], rows=[0])),
    "document": (toys.classifier, SENTENCES, Cut(keys=[1], rows=[1])),  # the longer sentence is the last row
    "flat document": (lambda: classes("flat-attention"), "the cat sat. on the mat", Cut(keys=[1])),
}


@pytest.mark.parametrize("name", CUT_SOURCES)
def test_patches_pairs_and_sentences_are_cut(name: str):
    make, example, cut = CUT_SOURCES[name]
    run: Any = make()
    options = AttributionOptions()
    found = run.compare_cuts(example, [MapCut(keys=[1])], options)
    assert found["before"] != pytest.approx(found["after"], abs=1e-5)
    only = "words.summary" if "document" in name else [*run.cut_modules]
    with torch.no_grad(), intervene(run.model, cut, only=only):
        (expected,) = run.predict([example])
    got, same = (each["prediction"] for each in (found, run.compare_cuts(example, [MapCut(keys=[])], options)))
    assert got == expected.to_json()
    assert same == run.predict([example])[0].to_json() != got
    with pytest.raises((InputError, ValueError), match=r"\[99\] do not exist"):
        run.compare_cuts(example, [MapCut(keys=[99])], options)
    with serving(of(run)) as address:
        content = encode_audio(example) if isinstance(example, Sound) else example
        texts = content if isinstance(content, tuple) else [content]
        texts = [base64.b64encode(each).decode() if isinstance(each, bytes) else each for each in texts]
        values = dict(zip(run.inputs, texts, strict=False))
        answer = post(address, "attention", values | {"cuts": [{"keys": [1]}]})
    assert answer.json()["after"] == pytest.approx(found["after"], abs=1e-3)


def test_a_whole_sentence_is_cut_in_both_levels():
    run = toys.classifier()
    found = run.compare_cuts(SENTENCES, [MapCut(keys=range(5))], AttributionOptions())
    cuts = {"words.summary": [Cut(keys=range(5), rows=[1])], "sentences.summary": [Cut(keys=[0])]}
    with torch.no_grad(), apply_cuts(run.model, cuts):
        (expected,) = run.predict([SENTENCES])
    assert found["prediction"] == expected.to_json()


BAD_CUTS = [
    ({"cuts": [{"keys": [5]}]}, "keys [5] do not exist: the model had 5 keys, 0 to 4"),
    ({"cuts": [{"maps": [0, 99]}]}, "there is no map 99; there are "),
    ({"cuts": [{"keys": [-1]}]}, "cuts.0.keys.0: Input should be greater than or equal to 0"),
    ({"cuts": [{"key": [1]}]}, "cuts.0.key: Extra inputs are not permitted"),
    ({"cuts": [{}] * 65}, "cuts: Tuple should have at most 64 items after validation, not 65"),
    ({"cuts": [{"keys": [0] * 500}] * 9}, "more than 4096 values in one request"),
    ({"cuts": [{}], "target_tokens": [9999]}, "id is 9999: expected 0 to "),
]


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
    assert "the model reads 5" in answer.json()["error"]


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


def test_an_image_is_classified():
    run = toys.vit()
    with serving(of(run)) as address:
        prediction = post(address, "predict", image()).json()
        attention = post(address, "attention", image()).json()
        invalid = [post(address, "predict", {"image": encoded}) for encoded in ("aGFsbG8=", "not base64!", "")]
    assert [each.status_code for each in invalid] == [422] * 3
    assert not any("\n" in each.json()["error"] for each in invalid)
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
    expected = run.attribute(pixels, beam=1).weights
    weights = np.array([each["weights"] for each in tokens])[: len(expected), 0, 0]
    np.testing.assert_allclose(weights, expected.reshape(len(expected), -1), atol=1e-4)
    assert (forced["forced"], [each["piece"] for each in others[:2]]) == (2, ["a", "tree"])


@pytest.mark.parametrize(
    ("make", "body", "wrong"),
    [
        (toys.classifier, {"text": DOCUMENT}, {"text": "a", "second": "b"}),
        (toys.reader, QUESTION, {"question": " ", "context": "a"}),
    ],
)
def test_an_answer_is_that_of_the_run_with_its_attention(make: Any, body: dict[str, str], wrong: dict[str, str]):
    run = make()
    with serving(of(run)) as address:
        prediction, attention = post(address, "predict", body).json(), post(address, "attention", body).json()
        refused = post(address, "predict", wrong)
    (found,) = run.predict([body.get("text") or tuple(body.values())])
    assert prediction == found.to_json() == {name: attention[name] for name in prediction}
    assert set(attention["view"]["lookups"][0]["source"]) >= {"das", "Haus", "ist", "alt"}
    assert ("sentences" in attention["view"]["lookups"][0]) == (make is toys.classifier)
    assert refused.status_code == 422
    assert make is toys.reader or refused.json()["error"] == "text 1: is 2 texts; the model classifies one text"


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


ALL: list[Kind] = ["weights", "gradient", "integrated", "norms", "rollout"]


def names(view: dict[str, Any]) -> list[str]:
    (one,) = view["lookups"]
    return [each["name"] for each in one["maps"]]


def test_kinds_of_a_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(GRADIENTS, "integrated", 3)
    run, pair = toys.translator("transformer"), Pair(SOURCE, "the house", "")
    with serving(of(run)) as address:
        written = lines(address, {"text": SOURCE, "view": True, "kinds": ALL})[-1]["view"]
        attention = post(address, "attention", {"text": SOURCE, "target": "the house", "kinds": ALL}).json()
    expected = run.attribute(SOURCE, beam=1, kinds=ALL).lookups[0]
    assert written == build_payload([expected])
    assert names(written) == ALL
    assert attention == build_payload(run.attribute(pair.source, target=pair.target, kinds=ALL).lookups)
    assert names(attention) == ALL


def test_a_missing_kind_is_refused_before_the_first_token():
    with serving(of(toys.translator())) as address:
        answer = post(address, "stream", {"text": SOURCE, "view": True, "kinds": ["rollout"]})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("this run's model has no rollout; it has weights, gradient, integr")


def test_kinds_of_generated_text():
    """The view that comes at last has the rows that were streamed, and those that the whole text has."""
    run, prompt = toys.language_model(), "the house"
    with serving(of(run)) as address:
        _, *tokens, done = lines(address, {"text": prompt, "tokens": 5, "view": True, "kinds": ALL[:4]})
    (one,) = done["view"]["lookups"]
    weights, gradient, _, norms = one["maps"]
    pieces = [{"</s>": "∎"}.get(each["piece"], each["piece"]) for each in tokens]
    assert (names(done["view"]), one["target"]) == (ALL[:4], pieces)
    assert one["source"] == ["∎", "the", "house", *pieces[:-1]]
    found = numbers(weights).reshape(2, 3, len(pieces), -1)
    for place, each in enumerate(tokens):
        row = np.array(each["weights"])
        np.testing.assert_allclose(found[:, :, place, : row.shape[-1]], row, atol=2e-5)
        assert not found[:, :, place, row.shape[-1] :].any()
    ids = [each["token"] for each in tokens]
    written = [piece for piece in pieces[:-1] if piece is not None]
    whole = run.attribute(" ".join([prompt, *written]), kinds=["gradient"]).weights.weights
    np.testing.assert_allclose(numbers(gradient), whole[2:].ravel(), atol=1e-5)
    assert ("source" in gradient, norms["amounts"], END in ids[:-1]) == (False, True, False)
    assert one["breakdown"]["numbers"]["query"]["width"] == 4


def test_kinds_of_documents_questions_and_images(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(GRADIENTS, "integrated", 3)
    classifier, reader, vit = toys.classifier(), toys.reader(), toys.vit()
    with serving(of(classifier, "classifier"), of(reader, "reader"), of(vit, "vit")) as address:

        def attention(name: str, body: dict[str, Any], kinds: list[Kind]) -> httpx.Response:
            return httpx.post(f"{address}/api/runs/{name}/attention", json=body | {"kinds": kinds}, timeout=60)

        document = attention("classifier", {"text": DOCUMENT}, ALL[:4]).json()["view"]
        answer, picture = (
            attention("reader", QUESTION, ALL).json()["view"],
            attention("vit", image(), ["weights", "rollout"]).json()["view"],
        )
        refused = attention("classifier", {"text": DOCUMENT}, ALL)
        about = {each["name"]: each["kinds"] for each in httpx.get(address + "/api/runs").json()["runs"]}
    assert document == build_payload(classifier.attribute(DOCUMENT, kinds=ALL[:4]).lookups)
    assert answer == build_payload(reader.attribute((QUESTION["question"], QUESTION["context"]), kinds=ALL).lookups)
    assert [names(document), names(answer), names(picture)] == [ALL[:4], ALL, ["weights", "rollout"]]
    assert (refused.status_code, "rollout" in refused.json()["error"]) == (422, True)
    assert about == {"classifier": ALL[:4], "reader": [*ALL, "effect"], "vit": ["weights", "rollout"]}


EMPTY = ["the text is empty, so the prediction means nothing"]


@pytest.mark.parametrize(("text", "warnings"), [("", EMPTY), ("das Haus", None)])
def test_an_answer_to_what_cannot_be_read_has_warnings_and_others_have_no_such_key(text: str, warnings: Any):
    with serving(of(toys.translator())) as address:
        answers = [post(address, operation, {"text": text}).json() for operation in ("predict", "attention")]
        streamed = lines(address, {"text": text})
    with serving(of(toys.classifier())) as address:
        answers.append(post(address, "predict", {"text": text}).json())
    assert [each.get("warnings") for each in answers] == [warnings] * 3
    assert streamed[-1]["event"] == "done"
    assert [line.get("warnings") for line in streamed] == [None] * (len(streamed) - 1) + [warnings]


def pointer() -> PointerRun:
    config = Pointer(data=Sorting(), model=PointerNetworkConfig(width=6, attention=5))
    return PointerRun(config, PointerRun.build(config).eval())


def machine() -> AlgorithmicRun:
    config = Algorithmic(data=Copy(width=2), model=TuringMachineConfig(width=5, rows=7, tape_width=3))
    return AlgorithmicRun(config, AlgorithmicRun.build(config).eval())


def agent() -> MetaRLRun:
    config = MetaRL(data=Bandits(arms=3, pulls=5))
    return MetaRLRun(config, MetaRLRun.build(config).eval())


@pytest.mark.parametrize(
    ("make", "text", "wrong"),
    [(pointer, "0.3 0.1 0.2", "a b"), (machine, "01 11", "21"), (agent, "0.2 0.9 0.5", "0.2")],
)
def test_a_task_that_reads_lines(make: Any, text: str, wrong: str):
    run = make()
    with serving(of(run)) as address:
        (about,) = httpx.get(address + "/api/runs").json()["runs"]
        predicted = post(address, "predict", {"text": text}).json()
        attended = post(address, "attention", {"text": text}).json()
        refused = post(address, "predict", {"text": wrong})
    assert (about["kind"], about["inputs"]) == ("plain", {"text": "text"})
    assert about["operations"] == ["predict", "attention"]
    (expected,) = run.predict([text])
    assert set(predicted) == set(expected.to_json())
    assert {name: attended[name] for name in predicted} == predicted
    assert attended["view"] == build_payload(list(run.attribute(text).lookups))
    assert refused.status_code == 422


def episodes() -> FewShotRun:
    config = FewShot(data=FolderEpisodes(train="images", ways=2, shots=1))
    return FewShotRun(config, FewShotRun.build(config).eval())


def test_episodes_of_images():
    """Images come as bytes: a path in a request is no image of this machine."""
    run = episodes()
    one, other = image()["image"], image("JPEG")["image"]
    body = {"examples": {"a": [one], "b": [other]}, "image": one}
    with serving(of(run)) as address:
        predicted = post(address, "predict", body).json()
        paths = post(address, "predict", {**body, "image": "/etc/hostname"})
        line = post(address, "predict", {"text": '{"examples": {"a": ["1.png"]}, "image": "2.png"}'})
    channels = run.config.model.channels
    example = FewShotExample({"a": [pixels(one, channels)], "b": [pixels(other, channels)]}, pixels(one, channels))
    (expected,) = run.predict([example])
    assert predicted == {"label": expected.label, "probabilities": pytest.approx(expected.probabilities, rel=1e-5)}
    assert (paths.status_code, line.status_code) == (422, 422)


@dataclass(frozen=True)
class Sides:
    """The example of a task of somebody else."""

    left: str
    right: str | None


class OtherRun(Run[Sides, TextPrediction]):
    """A run of a task of somebody else: it joins two words."""

    def __init__(self) -> None:
        self.config, self.model = SimpleNamespace(task="joining"), None
        self.supports = {"predict": frozenset({"n_best"}), "attribute": frozenset({"kinds"})}
        self.inputs = {"left": str, "right": str | None}

    def parse(self, line: str, place: str = "text 1") -> Sides:
        return Sides(line, None)

    def example(self, values: Mapping[str, Any], /) -> Sides:
        if not values["left"]:
            raise InputError("left is empty")
        return Sides(**values)

    def _evaluate(self, examples: Any, options: Any, /) -> dict[str, float]:
        return {}

    def _predict(self, examples: Sequence[Sides], options: PredictOptions, /) -> list[TextPrediction]:
        return [TextPrediction(f"{each.left}-{each.right or ''}" * options.n_best) for each in examples]

    def _attribute(self, example: Sides, options: AttributionOptions, /) -> Attribution:
        (prediction,) = self._predict([example], PredictOptions())
        lookups = Lookups(np.ones((1, 1, 1, 2)) / 2, (example.left, example.right or ""), (prediction.text,))
        return Attribution(prediction, prediction.text, (lookups,), None, options)


def test_a_user_task():
    with serving(of(OtherRun())) as address:
        (about,) = httpx.get(address + "/api/runs").json()["runs"]
        answers = [
            post(address, "predict", body)
            for body in (
                {"left": "a", "right": "b"},
                {"left": "a", "n_best": 2},
                {"left": ""},
                {"left": "a", "beam": 2},
                {"right": "a"},
                {"left": "a", "n_best": 65},
            )
        ]
        view = post(address, "attention", {"left": "a", "right": "b"}).json()["view"]
    assert {name: about[name] for name in ("kind", "task", "kinds", "inputs", "operations")} == {
        "kind": "plain",
        "task": "joining",
        "kinds": ["weights"],
        "inputs": {"left": "text", "right": "text"},
        "operations": ["predict", "attention"],
    }
    assert [each.json() for each in answers[:2]] == [{"prediction": "a-b"}, {"prediction": "a-a-"}]
    assert [each.json()["error"] for each in answers[2:]] == [
        "left is empty",
        "beam: Extra inputs are not permitted",
        "left: Field required",
        "n_best: Input should be less than or equal to 64",
    ]
    assert view["lookups"][0]["source"] == ["a", "b"]


def test_a_run_without_predictions_is_refused():
    run = CustomRun.__new__(CustomRun)
    run.config = SimpleNamespace(task="custom")
    with pytest.raises(InputError, match=r"task custom cannot be served\. It supports evaluate"):
        of(run)
