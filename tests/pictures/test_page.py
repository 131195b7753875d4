import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.maps import Alignment
from regard.pictures import page
from regard.pictures.style import hex_colour

HOSTILE = (
    "<script>alert(1)</script>",
    "</script>",
    '"><img src=x onerror=alert(1)>',
    "'&amp;",
    "مرحبا\u202e",
    "$style",
)


class Reader(HTMLParser):
    """Collects tags, and the text of each th and td."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("th", "td"):
            self.inside = tag
            self.cells.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        if tag == self.inside:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.cells[-1][2] += data

    def texts(self, tag, **attrs):
        return [text for name, has, text in self.cells if name == tag and attrs.items() <= has.items()]


def test_row_57_labels_are_text_whatever_they_hold():
    text = page(Alignment(np.zeros((6, 6)), HOSTILE, HOSTILE), title=HOSTILE[0])
    reader = Reader(text)
    shown = [*HOSTILE[:4], "مرحبا\\u202e", "$style"]
    assert reader.texts("th", scope="col") == shown
    assert reader.texts("th", scope="row") == shown
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert not [tag for tag, _ in reader.tags if tag in ("img", "iframe", "link", "object")]
    assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on") or name == "style"]


def test_only_the_pages_own_style_and_script_may_run(alignment):
    text = page(alignment)
    policy = next(attrs["content"] for tag, attrs in Reader(text).tags if attrs.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inside = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inside) == 1
        assert f"{tag}-src 'sha256-{b64encode(sha256(inside[0].encode()).digest()).decode()}'" in policy


def test_the_page_asks_nothing_of_the_network(alignment):
    text = page(alignment, title="A title")
    assert not re.search(r"https?:|//\w|url\(|@import|\bsrc=|\bhref=|fetch\(|XMLHttpRequest", text)


def test_cells_give_source_target_and_weight():
    alignment = Alignment(np.array([[0.25, 0.0], [1.0, 1.5]]), ("Haus", "da"), ("house", "مرحبا"))
    reader = Reader(page(alignment))
    cells = [(attrs, text) for tag, attrs, text in reader.cells if tag == "td" and "data-read" in attrs]
    assert [text for _, text in cells] == ["0.250", "0.000", "1.000", "1.500"]
    assert [attrs["class"] for attrs, _ in cells] == ["w25", "w0", "w100", "w100"]
    assert cells[2][0]["data-read"] == "\u2068Haus\u2069 → \u2068مرحبا\u2069   1.000"


def test_shades_are_the_palette_in_light_and_dark(alignment):
    light, dark = page(alignment).split("@media (prefers-color-scheme: dark) { .w0")
    assert f".w37{{background:{hex_colour(0.37)}}}" in light
    assert f".w37{{background:{hex_colour(0.37, dark=True)}}}" in dark


def test_labels_choose_their_own_direction(alignment):
    spans = [attrs for tag, attrs in Reader(page(alignment)).tags if tag == "span" and "dir" in attrs]
    assert len(spans) == 5 + 3
    assert {attrs["dir"] for attrs in spans} == {"auto"}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_any_shape(shape):
    reader = Reader(page(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0])))
    assert len(reader.texts("th", scope="col")) == shape[1]
    assert len(reader.texts("th", scope="row")) == shape[0]
    assert len([1 for _, attrs, _ in reader.cells if "data-read" in attrs]) == shape[0] * shape[1]
