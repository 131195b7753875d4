"""The interactive page with several maps, texts compared, views offered, and the breakdown of one lookup."""

import csv
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import default_rng

from regard.attribution.attention import attribute_cross_attention
from regard.maps.alignment import Side
from regard.maps.lookups import AlternativeMap, Breakdown, ImagePatches, Lookups, patch_labels
from regard.models.bahdanau import BahdanauConfig
from regard.models.catalog import MODELS
from regard.pictures import View
from tests.browser.view import (
    WORDS,
    Opened,
    choose,
    lookups,
    options,
    over,
    pixels,
    point,
    shades,
    show,
    status,
    table,
)


def test_lines_begin_at_a_threshold_with_a_switch_for_each_head(opened: Opened):
    page = opened(View(lookups()))
    show(page, "Lines")
    assert page.get_by_label("Minimum weight").input_value() == "0.15"
    switches = page.locator(".regard-legend button")
    assert switches.all_inner_texts() == ["head 0", "head 1", "head 2"]
    page.mouse.move(0, 0)
    before = pixels(page)
    switches.nth(1).click()
    assert [each.get_attribute("aria-pressed") for each in switches.all()] == ["true", "false", "true"]
    page.mouse.move(0, 0)
    assert pixels(page) != before
    show(page, "Matrix")
    assert page.get_by_label("Minimum weight").input_value() == "0"
    assert page.get_by_label("Head", exact=True).evaluate("each => each.selectedOptions[0].text") == "mean of all"


def test_norms_are_displayed_unscaled(opened: Opened):
    """Not as shares, and not cut off at 1: what is pointed at, and the scale, in every view."""
    one = replace(lookups(), kind="norms", amounts=True, weights=5 * default_rng(5).random((2, 3, 5, 7)))
    mean, most = one.weights.mean((0, 1)), f"{one.weights.max():.3f}"
    page = opened(View(one))
    assert mean.sum(-1).min() > 2
    over(page, 1, 4)
    assert status(page) == f"house attends to . {mean[1, 4]:.3f} (norms)"
    legend = page.locator(".regard-key")
    assert legend.inner_text().split("\n") == [
        "0",
        most,
        "norms, not shares; darkest: the largest of all layers and heads",
    ]
    assert shades(page) == [f"0 to {most}", "0 to the maximum", "automatic"]
    page.get_by_label("Minimum weight").fill("0.25")
    assert page.locator(".regard-bar output").inner_text() == "25 %"
    page.get_by_label("Color scale").select_option(label="0 to the maximum")
    assert f"{mean.max():.3f}" in legend.inner_text()
    show(page, "Lines")
    line = f"norms, not shares: a line of {most}, the largest of all layers and heads, is the widest; those under"
    assert legend.inner_text() == f"{line} {0.25 * one.weights.max():.3f} have none"
    point(page, "target", 1)
    last = one.weights[-1].mean(0)[1]
    assert status(page).startswith(f"house attends to {WORDS[last.argmax()]} {last.max():.3f}")
    show(page, "Text")
    point(page, "target", 1)
    assert f"{mean[1].max():.3f}" in legend.inner_text()
    show(page, "Table")
    np.testing.assert_allclose(table(page), mean, atol=6e-4)
    choose(page, "Layer", "layer 1")
    choose(page, "Head", "2")
    np.testing.assert_allclose(table(page), one.weights[1, 2], atol=6e-4)


def test_the_greatest_effects_are_listed(opened: Opened):
    effects = np.round(default_rng(3).normal(size=(2, 4)), 3)
    lookups = Lookups(effects[None, None], ("a", "b", "c", "a"), ("x", "y"), kind="effect", amounts=True, signed=True)
    page = opened(View(lookups))
    lines = page.locator(".regard-effects li button")
    order = sorted(np.ndindex(2, 4), key=lambda at: -effects[at])
    edges = [
        f"{'xy'[t]} → {('a1', 'b', 'c', 'a4')[s]} {effects[t, s]:.3f} nats" for t, s in order if effects[t, s] > 0
    ][:5]
    assert lines.all_inner_texts() == edges
    lines.first.click()
    assert f"{effects.max():.3f}" in status(page)


def test_the_scale_of_a_map_follows_the_map(opened: Opened):
    others = {
        "norms": AlternativeMap(3 * np.ones((2, 3, 5, 7)), amounts=True),
        "signed": AlternativeMap(-np.ones((1, 1, 5, 7))),
    }
    page = opened(View(replace(lookups(), alternatives=others)))
    for name, scale in (("weights", "0 to 1"), ("norms", "0 to 3.000"), ("signed", "−1 to 1")):
        choose(page, "Method", name)
        assert shades(page)[0] == scale
    choose(page, "Method", "weights")
    page.get_by_role("button", name="Compare").click()
    assert shades(page)[0] == "each map's scale"
    show(page, "All heads")
    assert page.locator(".regard-key").first.inner_text().split("\n") == ["0", "1"]
    choose(page, "Method", "norms")
    assert "3.000" in page.locator(".regard-key").first.inner_text()


def test_another_map_is_chosen_with_its_own_layers_heads_and_labels(opened: Opened):
    one = lookups()
    gradient = default_rng(7).dirichlet(np.ones(3), size=(1, 1, 1))
    others = {
        "rollout": AlternativeMap(default_rng(6).dirichlet(np.ones(7), size=(1, 1, 5)), ("rollout",)),
        "gradient": AlternativeMap(
            gradient, ("gradient",), source=WORDS[:3], target=("a class",), verbs=("depends on", "is depended on")
        ),
        "norms": AlternativeMap(5 * default_rng(5).random((2, 3, 5, 7)), amounts=True),
    }
    page = opened(View(replace(one, alternatives=others)))
    assert options(page, "Method") == ["weights", "rollout", "gradient", "norms"]
    choose(page, "Layer", "layer 1")
    choose(page, "Head", "2")
    pictures = {"weights": pixels(page)}
    for name in others:
        choose(page, "Method", name)
        pictures[name] = pixels(page)
    assert len(set(pictures.values())) == 4
    show(page, "Table")
    np.testing.assert_allclose(table(page), others["norms"].weights.mean((0, 1)), atol=6e-4)
    choose(page, "Method", "gradient")
    np.testing.assert_allclose(table(page), gradient[0, 0], atol=6e-4)
    assert page.locator("thead th").all_inner_texts() == list(WORDS[:3])
    assert page.locator("tbody th").all_inner_texts() == ["a class"]
    show(page, "Text")
    assert page.locator(".regard-texts h2").count() == 0  # one label needs no choice
    show(page, "Table")
    assert page.get_by_label("Layer", exact=True).count() == page.get_by_label("Head", exact=True).count() == 0
    choose(page, "Method", "weights")
    np.testing.assert_allclose(table(page), one.weights.mean((0, 1)), atol=6e-4)
    for view in ("Lines", "Text", "All heads"):
        show(page, view)
    assert page.locator(".regard-heads canvas").count() == 2 * 3


def test_only_the_weights_have_a_breakdown(opened: Opened):
    query = np.zeros((1, 1, 2, 4))
    weights = np.full((1, 1, 2, 2), 0.5)
    breakdown = Breakdown(value=query, query=query, key=query, scale=0.5)
    one = Lookups(weights, ("a", "b"), ("s", "t"), breakdown=breakdown)
    page = opened(View(replace(one, alternatives={"gradient": AlternativeMap(np.eye(2)[None, None])})))
    for name, shown in (("weights", True), ("gradient", False)):
        choose(page, "Method", name)
        page.locator(".regard-place").focus()
        page.keyboard.press("Enter")
        assert page.locator(".regard-breakdown").is_visible() == shown


def test_two_texts_are_compared_from_the_start_and_mark_the_same_labels(opened: Opened):
    """The second `the` of one is the second of the other, wherever it stands; what is in one alone marks nothing."""
    one, other = ("the", "cat", "sees", "the", "dog"), ("the", "old", "cat", "likes", "the", "the", "dog")
    first, third = (
        Lookups(default_rng(len(each)).dirichlet(np.ones(len(each)), (1, 2, len(each))), each, each, name)
        for name, each in (("first", one), ("third", other))
    )
    page = opened(View(first, replace(first, name="second"), third, compare=2))
    assert page.locator(".regard-panel").count() == 2
    page.locator(".regard-place").first.focus()
    page.keyboard.press("ArrowRight")
    places = ((first, 1), (third, 2))  # of the cat
    expected = [f"the attends to cat {each.weights.mean((0, 1))[0, place]:.3f}" for each, place in places]
    assert page.locator(".regard-status").all_inner_texts() == expected
    page.get_by_role("button", name="Single view").click()
    page.get_by_label("Head", exact=True).select_option(label="1")
    page.get_by_role("button", name="Compare").click()
    assert [each.locator("option:checked").nth(1).inner_text() for each in page.locator(".regard-panel").all()] == [
        "1",
        "1",
    ]
    assert [each.locator("option:checked").first.inner_text() for each in page.locator(".regard-panel").all()] == [
        "first",
        "third",
    ]
    show(page, "Lines")
    panels = page.locator(".regard-panel").all()

    def marked(panel: int, side: str) -> list[str]:
        return [
            each.get_attribute("data-place") for each in panels[panel].locator(f'.regard-on[data-side="{side}"]').all()
        ]

    for panel, place, found in ((0, 3, ["4"]), (0, 1, ["2"]), (0, 2, []), (1, 5, []), (1, 4, ["3"]), (1, 6, ["4"])):
        panels[panel].locator(f'.regard-token[data-side="target"][data-place="{place}"]').hover()
        assert (marked(panel, "target"), marked(1 - panel, "target")) == ([str(place)], found)
    panels[0].locator('.regard-token[data-side="source"][data-place="4"]').hover()
    assert marked(1, "source") == ["6"]
    page.get_by_role("button", name="Single view").click()
    assert page.locator(".regard-panel").count() == 1


PIXELS = default_rng(3).integers(0, 255, (12, 8, 3), dtype=np.uint8)


def offered(page: Any) -> list[str]:
    """The views that a page offers, the shown one in capitals."""
    tabs = page.locator(".regard-tabs button:visible").all()
    names = [(each.inner_text(), each.get_attribute("aria-pressed")) for each in tabs]
    return [name.upper() if pressed == "true" else name for name, pressed in names]


def on_patches(weights: np.ndarray, *target: str, **more: Any) -> Lookups:
    return Lookups(weights, patch_labels(3, 2), target, patches=ImagePatches(PIXELS, 3, 2), **more)


def colours(page: Any, name: str) -> np.ndarray:
    """The middle of each patch of 3 x 2 in the small map of a head, as (row, column, channel)."""
    script = "(each) => [...each.getContext('2d').getImageData(0, 0, 64, 64).data]"
    canvas = page.get_by_role("button", name=name, exact=True).locator("canvas")
    page.wait_for_timeout(100)
    return np.array(canvas.evaluate(script)).reshape(64, 64, 4)[10:64:22, 16:64:32, :3]


def test_heads_are_offered_for_maps_of_several_only(opened: Opened):
    rollout = AlternativeMap(default_rng(6).dirichlet(np.ones(7), size=(1, 1, 5)), ("rollout",))
    page = opened(View(replace(lookups(), alternatives={"rollout": rollout})))
    assert offered(page) == ["MATRIX", "Lines", "Text", "All heads", "Table"]
    show(page, "All heads")
    choose(page, "Method", "rollout")
    assert offered(page) == ["MATRIX", "Lines", "Text", "Table"]
    assert page.get_by_label("Cell size", exact=True).is_visible()
    choose(page, "Method", "weights")
    assert offered(page) == ["Matrix", "Lines", "Text", "ALL HEADS", "Table"]
    assert not page.get_by_label("Cell size", exact=True).is_visible()


def test_a_compared_map_offers_its_views_too(opened: Opened):
    rollout = AlternativeMap(default_rng(6).dirichlet(np.ones(7), size=(1, 1, 5)), ("rollout",))
    page = opened(View(replace(lookups(), alternatives={"rollout": rollout}, first="rollout")))
    show(page, "Matrix")
    assert "All heads" not in offered(page)
    page.get_by_role("button", name="Compare").click()
    assert "All heads" in offered(page)


def test_weights_on_patches_are_no_matrix_of_their_names(opened: Opened):
    weights = default_rng(4).dirichlet(np.ones(6), size=(2, 3, 1))
    rollout = AlternativeMap(default_rng(5).dirichlet(np.ones(6), size=(1, 1, 1)), ("rollout",))
    page = opened(View(on_patches(weights, "a class", alternatives={"rollout": rollout}, first="rollout")))
    assert offered(page) == ["IMAGE", "Table"]
    choose(page, "Method", "weights")
    assert offered(page) == ["IMAGE", "All heads", "Table"]
    page.goto(f"{page.url}#view=matrix")
    page.reload()
    page.locator(".regard-picture").wait_for()


def test_a_head_on_patches_is_drawn_where_they_lie(opened: Opened):
    """Each small map has the patches' rows and columns; of several labels it is the mean."""
    weights = np.zeros((1, 2, 2, 6))
    weights[0, 0, :, 3] = 1  # the second row's second patch
    weights[0, 1, [0, 1], [0, 5]] = 1
    page = opened(View(on_patches(weights, "red", "dot")))
    show(page, "All heads")
    first, second = (colours(page, f"layer 0, head {head}") for head in range(2))
    blank = first[0, 0].tolist()
    assert (first != blank).any(-1).tolist() == [[False, False], [False, True], [False, False]]
    assert (second != blank).any(-1).tolist() == [[True, False], [False, False], [False, True]]
    assert second[0, 0].tolist() == second[2, 1].tolist()
    assert second[0, 0].sum() > first[1, 1].sum()  # half is three times an even share, the darkest is four times
    key = "darkest: the maximum of each head, at least 4 × uniform; the mean over all labels"
    assert page.locator(".regard-key").inner_text() == key
    assert not page.get_by_label("Color scale").is_visible()
    page.get_by_role("button", name="layer 0, head 1", exact=True).click()
    assert offered(page)[0] == "IMAGE"
    assert page.get_by_label("Head", exact=True).locator("option:checked").inner_text() == "1"


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
    breakdown = Breakdown(value=value, query=query, key=key, scale=64**-0.5, allowed=np.array([[True, True, False]]))
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
    model = MODELS.build(BahdanauConfig(embedding=5, width=7, attention=11, maxout=2), 13, 13).eval()
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
    scores, weights = one.breakdown.scores()[0, 0, 1], one.weights[0, 0, 1]
    found = {name: [float(each) for each in cells] for name, *cells in rows(page, "numbers")}
    assert [*found] == [one.source[place].replace("</s>", "∎") for place in np.argsort(-weights)]
    for place, name in enumerate(each.replace("</s>", "∎") for each in one.source):
        written = weights[place] * np.linalg.norm(one.breakdown.value[0, 0, place])
        expected = [scores[place], weights[place], written]
        np.testing.assert_allclose([found[name][each] for each in (0, 1, 3)], expected, atol=2e-3)
    assert sum(cells[-1] for cells in found.values()) == pytest.approx(1, abs=5e-3)
    energy, query, key = one.breakdown.energy, one.breakdown.query, one.breakdown.key
    assert energy is not None
    assert query is not None
    assert key is not None
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
        value=np.eye(3)[None, None], plain=np.array([2.0, 1.0, -3.0]).reshape(1, 1, 1, 3), softmax=False
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
        np.full((1, 1, 2, 2), 0.5), ("a", "b"), ("s", "t"), breakdown=Breakdown(value=side, query=side, key=side)
    )
    page = opened(View(one, breakdown_limit=23))
    assert "computation" not in page.locator(".regard-status").inner_text()
    page.locator(".regard-place").focus()
    page.keyboard.press("Enter")
    assert page.locator(".regard-breakdown p").inner_text() == (
        "These lookups have no breakdown: it would take 24 numbers of scores, queries, keys and values; a page has "
        "at most 23, unless breakdown_limit (`regard show --worked`) is set higher."
    )


def test_a_text_begins_with_its_most_focused_head_and_is_taken_along(opened: Opened):
    """Small weights are visible; a link and the files have the visible map."""
    words = ("the", "cat", 'sees, "it"')
    weights = np.full((2, 2, 3, 3), 1 / 3)
    weights[1, 0] = np.eye(3)
    weights[0, 1] = [1, 0, 0]  # a sink: all attend to one key
    page = opened(View(Lookups(weights, words, words)))
    chosen = [page.get_by_label(name, exact=True).locator("option:checked").inner_text() for name in ("Layer", "Head")]
    assert chosen == ["layer 1", "0"]
    page.locator(".regard-share summary").click()
    with page.expect_download() as caught:
        page.get_by_role("button", name="Download CSV").click()
    first, *rows = csv.reader(caught.value.path().read_text(encoding="utf-8").splitlines())
    assert (first, [row[0] for row in rows]) == (["", *words], [*words])
    np.testing.assert_array_equal([[float(cell) for cell in row[1:]] for row in rows], np.eye(3))
    for name, start in (("SVG", b"<svg "), ("PNG", b"\x89PNG")):
        with page.expect_download() as caught:
            page.get_by_role("button", name=f"Download {name}").click()
        assert caught.value.path().read_bytes().startswith(start)
    page.get_by_role("button", name="All heads").click()
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_url("**#view=heads&layer=1&head=0")
    page.get_by_role("button", name="Open layer 1, head 0").wait_for()
    faint = opened(View(Lookups(np.full((1, 1, 9, 9), 1 / 9), tuple("abcdefghi"), tuple("jklmnopqr"))))
    assert "all weights are small" in faint.locator(".regard-key").inner_text()
