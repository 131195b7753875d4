"""Two runs with the same request, side by side."""

from typing import Any

import httpx
import pytest

from regard.pictures.page import build_payload
from regard.serve.runs import add_comparisons
from tests.pictures.test_view import numbers
from tests.serve import toys
from tests.serve.serving import run as echo
from tests.serve.serving import serving
from tests.serve.test_kinds import DOCUMENT
from tests.serve.test_runs import SOURCE, image, of


def compare(address: str, name: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{address}/api/runs/{name}/compare", json=body, timeout=120)


def test_two_translations_side_by_side():
    """Each is what the run says of the same text by itself, and the view has what each of them read."""
    runs = {"small": toys.translator(), "wide": toys.translator("transformer")}
    with serving(*(of(run, name) for name, run in runs.items())) as address:
        found = compare(address, "small", {"text": SOURCE, "other": "wide"}).json()
        turned = compare(address, "wide", {"text": SOURCE, "other": "small", "kinds": ["weights", "norms"]}).json()
        begun = compare(address, "small", {"text": SOURCE, "other": "wide", "prefix": "a tree"}).json()
    greedy = {name: run.predict([SOURCE], beam=1)[0] for name, run in runs.items()}
    assert found["answers"] == [
        {"run": name, "text": each.text, "score": pytest.approx(each.score), "finished": each.finished}
        for name, each in greedy.items()
    ]
    lookups = [run.attribute(SOURCE, beam=1).lookups[0] for run in runs.values()]
    expected = [one | {"name": name} for name, one in zip(runs, build_payload(lookups)["lookups"], strict=True)]
    assert found["view"] == build_payload(lookups) | {"lookups": expected, "compare": 1}
    assert [each["run"] for each in turned["answers"]] == ["wide", "small"]
    assert [[each["name"] for each in one["maps"]] for one in turned["view"]["lookups"]] == [["weights", "norms"]] * 2
    assert [each["text"].split()[:2] for each in begun["answers"]] == [["a", "tree"]] * 2


def test_two_language_models_continue_one_prompt():
    with serving(of(toys.language_model(), "one"), of(toys.language_model(19), "two")) as address:
        found = compare(address, "one", {"text": "the house", "tokens": 5, "other": "two"}).json()
        long = compare(address, "one", {"text": "the house", "tokens": 30, "beyond": "slide", "other": "two"})
    for name, answer, lookups in zip(("one", "two"), found["answers"], found["view"]["lookups"], strict=True):
        assert (answer["run"], lookups["name"]) == (name, name)
        assert lookups["source"][:3] == ["∎", "the", "house"]
        assert numbers(lookups["maps"][0]).size == 2 * 3 * len(lookups["target"]) * len(lookups["source"])
    too_long = "the prompt 'the house' and its continuation have 32 tokens, but the model reads 23 at once; "
    too_long += "write at most 21"
    assert (long.status_code, long.json()["error"]) == (422, f"one: {too_long}")


def test_classes_captions_and_answers_to_questions():
    question = {"question": "ein Haus", "context": SOURCE}
    makes = {
        "classifier": toys.classifier,
        "vit": toys.vit,
        "captioner": toys.captioner,
        "reader": toys.reader,
    }
    bodies = {"classifier": {"text": DOCUMENT}, "vit": image(), "captioner": image(), "reader": question}
    twice = [of(make(), f"{name}{number}") for name, make in makes.items() for number in (1, 2)]
    with serving(*twice) as address:
        about = {each["name"]: each for each in httpx.get(address + "/api/runs").json()["runs"]}
        for name, body in bodies.items():
            assert about[f"{name}1"]["comparable"] == [f"{name}2"]
            assert "compare" in about[f"{name}1"]["operations"]
            found = compare(address, f"{name}1", body | {"other": f"{name}2"}).json()
            one, other = found["answers"]
            assert (one.pop("run"), other.pop("run")) == (f"{name}1", f"{name}2")
            assert one == other  # the same weights
            assert {"label", "text"} & set(one)
            assert [each["name"] for each in found["view"]["lookups"]] == [f"{name}1", f"{name}2"]


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [
        ("one", "none", "no run is called 'none'; one can be compared with two"),
        ("one", "one", "one is compared with itself; one can be compared with two"),
        (
            "one",
            "captioner",
            "one (text, seq2seq) and captioner (image, image-captioning) are not of one kind; "
            "one can be compared with two",
        ),
        (
            "vit",
            "captioner",
            "vit (image, image-classification) and captioner (image, image-captioning) are not of one kind; "
            "vit can be compared with no loaded run",
        ),
        ("one", "echo", "echo has no attention to compare; one can be compared with two"),
    ],
)
def test_incomparable_runs_give_a_one_line_error(name: str, other: str, message: str):
    runs = [of(toys.translator(), "one"), of(toys.translator("transformer"), "two")]
    runs += [of(toys.captioner(), "captioner"), of(toys.vit(), "vit"), echo("echo")]
    with serving(*runs) as address:
        body = image() if name == "vit" else {"text": SOURCE}
        answer = compare(address, name, body | {"other": other})
        nothing = compare(address, "echo", {"text": "a", "other": "one"})
        missing = compare(address, name, body)
    assert (answer.status_code, answer.json()["error"]) == (422, message)
    assert (nothing.status_code, nothing.json()["error"]) == (404, "echo has no operation 'compare'; it has predict")
    assert (missing.status_code, missing.json()["error"]) == (422, "other: Field required")


def test_an_error_names_its_run():
    with serving(of(toys.translator(), "one"), of(toys.translator("transformer"), "two")) as address:
        answer = compare(address, "one", {"text": SOURCE, "other": "two", "kinds": ["rollout"]})
        turned = compare(address, "two", {"text": SOURCE, "other": "one", "kinds": ["rollout"]})
    message = "one: this run's model has no rollout; it has weights, gradient, norms"
    assert [(each.status_code, each.json()["error"]) for each in (answer, turned)] == [(422, message)] * 2


def test_nothing_is_generated_after_a_disconnect():
    """Neither by the first run nor by the other."""
    one, _ = add_comparisons([of(toys.translator(), "one"), of(toys.translator("transformer"), "two")])
    operation = one.operations["compare"]
    request = operation.request.model_validate({"text": SOURCE, "other": "two"})
    steps = iter([True, True, False])
    assert list(operation.respond([request], lambda number: next(steps))) == []
