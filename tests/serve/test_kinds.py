"""Other maps beside the weights, requested from a server."""

from typing import Any

import httpx
import numpy as np
import pytest

from regard.attribution.kinds import Kind
from regard.data.pairs import Pair
from regard.pictures.page import build_payload
from regard.text.special import END
from tests.pictures.test_view import numbers
from tests.serve import toys
from tests.serve.serving import serving
from tests.serve.test_runs import SOURCE, image, lines, of, post

ALL: list[Kind] = ["weights", "gradient", "norms", "rollout"]
DOCUMENT = "das Haus ist alt . ein Baum"


def names(view: dict[str, Any]) -> list[str]:
    (one,) = view["lookups"]
    return [each["name"] for each in one["maps"]]


def test_kinds_of_a_text():
    run, pair = toys.translator("transformer"), Pair(SOURCE, "the house", "")
    with serving(of(run)) as address:
        written = lines(address, {"text": SOURCE, "view": True, "kinds": ALL})[-1]["view"]
        attention = post(address, "attention", {"text": SOURCE, "target": "the house", "kinds": ALL}).json()
    expected = run.attribute(SOURCE, beam=1, kinds=ALL).lookups[0]
    assert written == build_payload([expected])
    assert names(written) == ALL
    assert attention == build_payload(run.attribute(pair.source, target=pair.target, kinds=ALL).lookups)
    assert names(attention) == ALL


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["rollout"], "this run's model has no rollout; it has weights, gradient, norms"),
        (["colours"], "kinds.0: Input should be 'weights', 'gradient', 'norms' or 'rollout'"),
        ([], "kinds: Tuple should have at least 1 item after validation, not 0"),
    ],
)
def test_a_missing_kind_is_refused_before_the_first_token(kinds: list[str], message: str):
    with serving(of(toys.translator())) as address:
        answer = post(address, "stream", {"text": SOURCE, "view": True, "kinds": kinds})
        assert lines(address, {"text": SOURCE})[-1]["event"] == "done"
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(message)


def test_kinds_of_generated_text():
    """The view that comes at last has the rows that were streamed, and those that the whole text has."""
    run, prompt = toys.language_model(), "the house"
    with serving(of(run)) as address:
        _, *tokens, done = lines(address, {"text": prompt, "tokens": 5, "view": True, "kinds": ALL[:3]})
    (one,) = done["view"]["lookups"]
    weights, gradient, norms = one["maps"]
    pieces = [{"</s>": "∎"}.get(each["piece"], each["piece"]) for each in tokens]
    assert (names(done["view"]), one["target"]) == (ALL[:3], pieces)
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


def test_kinds_of_documents_questions_and_images():
    classifier, reader, vit = toys.classifier(), toys.reader(), toys.vit()
    question = {"question": "ein Haus", "context": SOURCE}
    with serving(of(classifier, "classifier"), of(reader, "reader"), of(vit, "vit")) as address:

        def attention(name: str, body: dict[str, Any], kinds: list[Kind]) -> httpx.Response:
            return httpx.post(f"{address}/api/runs/{name}/attention", json=body | {"kinds": kinds}, timeout=60)

        document = attention("classifier", {"text": DOCUMENT}, ALL[:3]).json()["view"]
        answer, picture = (
            attention("reader", question, ALL).json()["view"],
            attention("vit", image(), ["weights", "rollout"]).json()["view"],
        )
        refused = attention("classifier", {"text": DOCUMENT}, ALL)
        about = {each["name"]: each["kinds"] for each in httpx.get(address + "/api/runs").json()["runs"]}
    assert document == build_payload(classifier.attribute(DOCUMENT, kinds=ALL[:3]).lookups)
    example = question["question"], question["context"]
    assert answer == build_payload(reader.attribute(example, kinds=ALL).lookups)
    assert [names(document), names(answer), names(picture)] == [ALL[:3], ALL, ["weights", "rollout"]]
    assert (refused.status_code, "rollout" in refused.json()["error"]) == (422, True)
    assert about == {"classifier": ALL[:3], "reader": ALL, "vit": ["weights", "rollout"]}
