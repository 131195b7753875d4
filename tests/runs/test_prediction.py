"""A prediction as JSON and in notebooks."""

import json
from html.parser import HTMLParser

import numpy as np

from regard.maps.alignment import Alignment
from regard.maps.lookups import lookups_from_alignment
from regard.pictures import View
from regard.tasks.prediction import GeneratedText

NASTY = '"><script>alert(1)</script>&quot;<iframe>'


def prediction(label: str = "b") -> GeneratedText:
    weights = np.array([[1.0, 0.0], [1 / 3, 2 / 3], [0.0, 1.0]])
    attention = Alignment(weights, ("x", label), ("a", label, "</s>"))
    other = GeneratedText("ax", -1.5, False, ("a", "x"), missing=("b",))
    return GeneratedText(f"a{label}", -0.25, True, ("a", label, "</s>"), attention, (other,))


def test_to_json():
    plain = prediction().to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain == {
        "text": "ab",
        "score": -0.25,
        "finished": True,
        "missing": [],
        "tokens": ["a", "b", "</s>"],
        "attention": {
            "source": ["x", "b"],
            "target": ["a", "b", "</s>"],
            "weights": [[1.0, 0.0], [0.333333, 0.666667], [0.0, 1.0]],
        },
        "alternatives": [
            {
                "text": "ax",
                "score": -1.5,
                "finished": False,
                "missing": ["b"],
                "tokens": ["a", "x"],
                "attention": None,
                "alternatives": [],
            }
        ],
    }


class Elements(HTMLParser):
    """The elements of a document with their attributes, and the text between them."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_attention_in_a_sealed_frame():
    """Whatever the texts hold, the notebook sees a picture and a frame, and in it the very page that a file would
    have."""
    one = prediction(NASTY)
    bundle = one._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    assert bundle["text/plain"] == one.text
    outside = Elements(bundle["text/html"])
    *before, (tag, attributes) = outside.found
    assert ([name for name, _ in before], tag, outside.text) == (["div", "img"], "iframe", "")
    assert attributes["sandbox"] == "allow-scripts"
    assert one.attention is not None
    assert attributes["srcdoc"] == View(lookups_from_alignment(one.attention), title=one.text).page()
    assert attributes["srcdoc"] is not None
    inside = Elements(attributes["srcdoc"])
    assert [tag for tag, _ in inside.found].count("script") == 2
    assert "iframe" not in {tag for tag, _ in inside.found}
    assert NASTY in inside.text


def test_without_attention_a_notebook_shows_the_text():
    assert GeneratedText("<b>", -1.0, True, ("<b>",))._repr_mimebundle_() == {"text/plain": "<b>"}
