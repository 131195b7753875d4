"""The breakdown of one lookup in a real browser, for every kind of score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regard.attribution.cross_attention import attribute_cross_attention
from regard.maps.breakdown import Breakdown, PlainScores, ScoreFactors
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.models.bahdanau import BahdanauConfig
from regard.models.catalog import build
from regard.pictures import View

Opened = Callable[..., Any]


def columns(page: Any, table: str) -> list[str]:
    return page.locator(f".regard-breakdown .regard-{table} thead th").all_inner_texts()


def rows(page: Any, table: str) -> list[list[str]]:
    found = page.locator(f".regard-breakdown .regard-{table} tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in found]


def test_a_click_breaks_a_lookup_down(opened: Opened):
    """q . k = 112 and 96 in 64 dimensions are scaled to 14 and 12, whose softmax is 0.881 and 0.119; what is masked
    takes no part."""
    query, key, value = np.zeros((1, 1, 1, 64)), np.zeros((1, 1, 3, 64)), np.zeros((1, 1, 3, 2))
    query[..., 0], key[0, 0, :, 0], value[0, 0, :, 0] = 8, (14, 12, 20), (3, 3, 3)
    weights = np.array([0.880797, 0.119203, 0.0]).reshape(1, 1, 1, 3)
    breakdown = Breakdown(ScoreFactors(query, key, 64**-0.5), value, np.array([[True, True, False]]))
    page = opened(View(Lookups(weights, ("a", "b", "masked"), ("t",), breakdown=breakdown)))
    page.get_by_role("button", name="Matrix", exact=True).click()
    page.locator(".regard-place").focus()
    page.keyboard.press("Enter")
    assert columns(page, "numbers") == [
        "source",
        "q · k",
        "× 0.125",
        "softmax",
        "|value|",
        "|weight × value|",
        "contribution to the output",
    ]
    assert rows(page, "numbers") == [
        ["a", "112.00", "14.00", "0.881", "3.000", "2.642", "0.881"],
        ["b", "96.00", "12.00", "0.119", "3.000", "0.358", "0.119"],
    ]
    assert "Attention of t" in page.locator(".regard-breakdown").inner_text()
    assert rows(page, "terms")[0] == ["1", "8.000", "14.00", "112.00"]
    assert rows(page, "terms")[-2:] == [["59 more", "", "", "0"], ["sum", "", "", "112.00"]]


def test_a_click_breaks_an_additive_lookup_down(opened: Opened):
    """Of a fresh model of Bahdanau's: each key's score, weight and value, and one score as a sum."""
    torch.manual_seed(3)
    model = build(BahdanauConfig(embedding=5, width=7, attention=11, maxout=2), 13, 13).eval()
    for each in model.decoder.parameters():
        torch.nn.init.normal_(each, std=0.7)
    source, target = Side.of(("a", "b", "c", "d", "</s>")), Side.of(("x", "y", "</s>"))
    one = attribute_cross_attention(model, ([5, 7, 4, 9], [6, 4, 0]), (source, target), "weights")[0]
    page = opened(View(one))
    page.locator(".regard-place").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.locator(".regard-breakdown h2 bdi").all_inner_texts() == ["y", "c"]
    assert columns(page, "numbers")[:3] == ["source", "v · tanh(q + k)", "softmax"]
    assert one.breakdown is not None
    assert isinstance(one.breakdown.of, ScoreFactors)
    scores, weights = one.breakdown.of.scores()[0, 0, 1], one.weights[0, 0, 1]
    found = {name: [float(each) for each in cells] for name, *cells in rows(page, "numbers")}
    assert [*found] == [one.source[place].replace("</s>", "∎") for place in np.argsort(-weights)]
    for place, name in enumerate(each.replace("</s>", "∎") for each in one.source):
        written = weights[place] * np.linalg.norm(one.breakdown.value[0, 0, place])
        expected = [scores[place], weights[place], written]
        np.testing.assert_allclose([found[name][each] for each in (0, 1, 3)], expected, atol=2e-3)
    assert sum(cells[-1] for cells in found.values()) == pytest.approx(1, abs=5e-3)
    energy, query, key = one.breakdown.of.energy, one.breakdown.of.query, one.breakdown.of.key
    assert energy is not None
    terms, shown = energy[0, 0] * np.tanh(query[0, 0, 1] + key[0, 0, 2]), rows(page, "terms")
    order = np.argsort(-np.abs(terms))
    assert [row[0] for row in shown] == [*(str(place + 1) for place in order[:5]), "6 more", "sum"]
    last = [*terms[order[:5]], terms[order[5:]].sum(), scores[2]]
    np.testing.assert_allclose([float(row[-1]) for row in shown], last, atol=2e-3)
    assert page.locator(".regard-strips th").all_inner_texts() == ["query q", "key k", "energy v", "v × tanh(q + k)"]


def test_scores_that_are_no_sums_and_weights_that_are_no_softmax(opened: Opened):
    """A location score under an alignment that leaves out the third: the weights are those of the map."""
    weights = np.array([0.75, 0.25, 0.0]).reshape(1, 1, 1, 3)
    breakdown = Breakdown(
        PlainScores(np.array([2.0, 1.0, -3.0]).reshape(1, 1, 1, 3)), np.eye(3)[None, None], softmax=False
    )
    page = opened(View(Lookups(weights, ("a", "b", "c"), ("t",), breakdown=breakdown)))
    page.locator(".regard-place").focus()
    page.keyboard.press("Enter")
    assert columns(page, "numbers") == [
        "source",
        "score",
        "weight",
        "|value|",
        "|weight × value|",
        "contribution to the output",
    ]
    assert rows(page, "numbers") == [
        ["a", "2.000", "0.750", "1.000", "0.750", "0.900"],
        ["b", "1.000", "0.250", "1.000", "0.250", "0.100"],
        ["c", "-3.000", "0", "1.000", "0", "0"],
    ]
    assert page.locator(".regard-terms, .regard-strips").count() == 0


def test_a_missing_breakdown_has_a_reason(opened: Opened):
    side = np.zeros((1, 1, 2, 4))
    one = Lookups(
        np.full((1, 1, 2, 2), 0.5), ("a", "b"), ("s", "t"), breakdown=Breakdown(ScoreFactors(side, side), side)
    )
    page = opened(View(one, breakdown_limit=23))
    assert "computation" not in page.locator(".regard-status").inner_text()
    page.locator(".regard-place").focus()
    page.keyboard.press("Enter")
    assert page.locator(".regard-breakdown p").inner_text() == (
        "These lookups have no breakdown: it would take 24 numbers of scores, queries, keys and values; a page has "
        "at most 23, unless breakdown_limit (`regard show --worked`) is set higher."
    )
