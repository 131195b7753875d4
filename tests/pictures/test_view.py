import base64
import json
import re
import sys
import zlib
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from regard.errors import InputError
from regard.maps import Alignment
from regard.maps.alignment import Words
from regard.maps.lookups import AlternativeMap, Breakdown, Lookups, lookups_from_alignment
from regard.pictures import View
from regard.pictures.page import BYTES, EXACT, build_payload, draw_fallback, estimate_size, pack_map

HOSTILE = (
    "<script>alert(1)</script>",
    "</script>",
    '"><img src=x onerror=alert(1)>',
    "'&amp;",
    "مرحبا\u202e",
    "$style",
)
SHOWN = [*HOSTILE[:4], "مرحبا\\u202e", "$style"]


class Reader(HTMLParser):
    """Collects tags, and the text of each script and of all else."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.text, self.inside = [], [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def numbers(packed: dict[str, Any]) -> np.ndarray:
    """What the browser unpacks."""
    content = zlib.decompress(base64.b64decode(packed["data"]))
    if packed["levels"] is None:
        return np.frombuffer(content, "<f4")
    return np.array(packed["levels"])[np.frombuffer(content, "u1")]


def lookups(*shape: int) -> Lookups:
    weights = np.random.default_rng(5).dirichlet(np.ones(shape[3]), size=shape[:3])
    return Lookups(weights, ("s",) * shape[3], ("t",) * shape[2])


def test_labels_are_text_whatever_they_hold():
    text = View(lookups_from_alignment(Alignment(np.zeros((6, 6)), HOSTILE, HOSTILE)), title=HOSTILE[0]).page()
    reader = Reader(text)
    data, _ = reader.scripts
    (one,) = json.loads(data)["lookups"]
    assert (one["source"], one["target"]) == (SHOWN, SHOWN)
    assert json.loads(data)["title"] == HOSTILE[0]
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not [tag for tag, _ in reader.tags if tag in ("img", "iframe", "link", "object")]
    assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on") or name == "style"]


def test_only_the_pages_own_style_and_script_may_run_and_nothing_is_loaded(alignment):
    text = View(lookups_from_alignment(alignment)).page()
    assert not re.search(r"https?:|//\w|url\(|@import|\bsrc=|\bhref=|fetch\(|XMLHttpRequest|innerHTML", text)
    policy = next(attrs["content"] for tag, attrs in Reader(text).tags if attrs.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inside = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inside) == 1
        assert f"{tag}-src 'sha256-{b64encode(sha256(inside[0].encode()).digest()).decode()}'" in policy


@pytest.mark.parametrize("shape", [(1, 1, 0, 3), (1, 1, 3, 0), (1, 1, 0, 0), (1, 1, 1, 1), (2, 3, 5, 7)])
def test_few_weights_arrive_as_they_are(shape):
    given = lookups(*shape)
    (one,) = build_payload([given])["lookups"]
    np.testing.assert_array_equal(numbers(one["maps"][0]), given.weights.ravel())
    assert one["maps"][0]["scale"] == 1
    assert View(given).page()


def test_many_weights_are_rounded_finely_near_nothing():
    weights = np.random.default_rng(3).dirichlet(np.ones(149) * 0.2, size=149).astype(np.float32)
    assert weights.size > EXACT
    found = numbers(pack_map("weights", weights)).reshape(weights.shape)
    wrong = np.abs(found - weights)
    assert wrong.max() < 0.002
    assert wrong[weights < 0.004].max() < 0.0009
    assert (found[weights > 0.00013] > 0).all()
    np.testing.assert_array_equal(numbers(pack_map("weights", np.full((200, 200), 1.0)))[:3], 1.0)


def test_signed_maps_keep_their_sign():
    values = np.random.default_rng(3).normal(size=(3, 7, 29, 31)).astype(np.float32)
    packed = pack_map("gradient x input", values)
    assert (packed["signed"], packed["scale"]) == (True, pytest.approx(np.abs(values).max()))
    assert np.abs(numbers(packed).reshape(values.shape) - values).max() < 0.005 * packed["scale"]


def test_twelve_layers_of_twelve_heads_on_128_tokens_are_small():
    """Rows drawn evenly from all that sum to 1 are the worst to pack; no weight that counts is left out."""
    weights = np.random.default_rng(3).dirichlet(np.ones(128), size=(12, 12, 128))
    given = Lookups(weights, ("token",) * 128, ("token",) * 128)
    page = View(given).page()
    assert len(page.encode()) < 1.7e6
    assert len(page.encode()) < 100_000 + estimate_size(given)
    found = numbers(json.loads(Reader(page).scripts[0])["lookups"][0]["maps"][0])
    assert (found[weights.ravel() > 0.00013] > 0).all()


def test_too_many_weights_are_refused_with_an_estimate_and_the_option():
    given = lookups(2, 3, 5, 7)
    wide = Lookups(np.broadcast_to(np.float32(0), (12, 12, 512, 512)), ("s",) * 512, ("t",) * 512)
    with pytest.raises(InputError, match=r"12 x 12 x 512 x 512 .* about 21\.9 MB; at most 16 MB .* largest") as caught:
        View(wide).page()
    assert (caught.value.exit_code, "\n" in str(caught.value)) == (2, False)
    with pytest.raises(InputError, match="at most 1e-06 MB"):
        View(given, largest=1e-6).page()
    with pytest.raises(InputError, match="no lookups"):
        View().page()


def test_words_sentences_and_breakdown_are_packed():
    query, key, value = np.random.default_rng(2).normal(size=(3, 1, 2, 3, 5))
    breakdown = Breakdown(value=value, query=query, key=key, scale=0.5, allowed=np.tri(3, dtype=bool))
    given = Lookups(
        np.full((1, 2, 3, 3), 1 / 3),
        ("un", "seen", "x"),
        ("a", "b", "c"),
        source_words=Words(("unseen", "x"), (0, 0, 1)),
        breakdown=breakdown,
    )
    (one,) = build_payload([given])["lookups"]
    assert one["sourceWords"] == {"index": [0, 0, 1], "labels": ["unseen", "x"]}
    assert "targetWords" not in one
    packed = one["breakdown"]["numbers"]["query"]
    found = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), "<i2") * packed["step"]
    np.testing.assert_allclose(found.reshape(1, 2, 3, 5), query, atol=packed["step"])
    allowed = np.frombuffer(zlib.decompress(base64.b64decode(one["breakdown"]["allowed"])), "u1")
    np.testing.assert_array_equal(allowed.reshape(3, 3), np.tri(3))
    assert (one["breakdown"]["scale"], one["breakdown"]["softmax"], "noBreakdown" in one) == (0.5, True, False)


def test_too_many_numbers_to_work_a_lookup_out_are_left_out_and_said():
    query, key, value = np.zeros((3, 1, 2, 3, 5))
    given = Lookups(
        np.full((1, 2, 3, 3), 1 / 3),
        tuple("abc"),
        tuple("abc"),
        breakdown=Breakdown(value=value, query=query, key=key),
    )
    (one,) = build_payload([given], breakdown_limit=90)["lookups"]
    assert "breakdown" in one
    (one,) = build_payload([given], breakdown_limit=89)["lookups"]
    assert "breakdown" not in one
    reason = "take 90 numbers of scores, queries, keys and values; a page has at most 89, unless breakdown_limit"
    assert reason in one["noBreakdown"]
    assert estimate_size(given, 90) > estimate_size(given, 89)


def test_other_maps_have_their_own_layers_heads_and_labels():
    given = lookups(2, 3, 5, 7)
    owed = -given.weights[:1, :2, :1]
    others = {
        "gradient": AlternativeMap(owed, ("<all>",), target=("a\u202e",)),
        "norms": AlternativeMap(0.3 * given.weights, amounts=True),
    }
    (one,) = build_payload([Lookups(given.weights, given.source, given.target, alternatives=others)])["lookups"]
    weights, gradient, norms = one["maps"]
    assert [each["name"] for each in one["maps"]] == ["weights", "gradient", "norms"]
    assert not {"layers", "heads", "source", "target"} & set(weights)
    assert (gradient["layers"], gradient["heads"], gradient["target"]) == (["<all>"], 2, ["a\\u202e"])
    assert "source" not in gradient
    assert (norms["layers"], norms["heads"], norms["amounts"]) == (one["layers"], 3, True)
    assert norms["scale"] == np.float32(0.3 * given.weights).max()  # of amounts what is greatest, be it below 1
    assert (weights["scale"], "amounts" in weights) == (1.0, False)
    np.testing.assert_array_equal(numbers(gradient), owed.ravel())
    more = estimate_size(Lookups(given.weights, given.source, given.target, alternatives=others)) - estimate_size(given)
    assert more >= BYTES * (owed.size + given.weights.size)


def test_a_notebooks_picture_of_amounts_has_their_shares():
    given = lookups(2, 3, 5, 7)
    norms = replace(given, weights=4 * given.weights * np.arange(1, 4)[:, None, None], amounts=True)
    row = norms.weights.mean((0, 1))
    plain = replace(given, weights=(row / row.sum(-1, keepdims=True))[None, None], layers=("all",))
    assert draw_fallback(norms, "") == draw_fallback(plain, "")


def test_a_notebook_shows_the_page_a_picture_or_the_sizes(alignment, monkeypatch):
    view = View(lookups_from_alignment(alignment), title=HOSTILE[0])
    bundle = view._repr_mimebundle_()
    assert bundle["text/plain"] == f"{HOSTILE[0]}: 1 x 1 x 3 x 5 (layers x heads x target x source)"
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    (box, _), (image, behind), (tag, attrs) = Reader(bundle["text/html"]).tags
    assert (box, tag, attrs["sandbox"], attrs["srcdoc"]) == ("div", "iframe", "allow-scripts", view.page())
    assert (image, behind["alt"]) == ("img", bundle["text/plain"])
    assert behind["src"] == f"data:image/png;base64,{bundle['image/png']}"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    without = view._repr_mimebundle_()
    assert set(without) == {"text/plain", "text/html"}
    assert [tag for tag, _ in Reader(without["text/html"]).tags] == ["div", "iframe"]


@pytest.mark.parametrize(("targets", "drawn"), [(0, False), (7, True), (131, True)])
def test_a_notebook_has_a_picture_of_any_number_of_labels(targets: int, drawn: bool):
    weights = np.full((1, 1, targets, 3), 1 / 3)
    bundle = View(Lookups(weights, ("a", "b", "c"), ("t",) * targets))._repr_mimebundle_()
    assert ("image/png" in bundle, "<img" in bundle["text/html"]) == (drawn, drawn)
