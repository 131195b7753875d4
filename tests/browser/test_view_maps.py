"""The interactive page with several maps: heads, attributions on scales of their own, and two texts compared."""

from dataclasses import replace

import numpy as np
from numpy.random import default_rng

from regard.maps.breakdown import Breakdown, ScoreFactors
from regard.maps.lookups import AlternativeMap, Lookups
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
    assert shades(page) == [f"0 to {most}", "0 to the maximum"]
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
    choose(page, "Method", "rollout")
    assert page.locator(".regard-heads").count() == 0  # one map is a matrix


def test_only_the_weights_have_a_breakdown(opened: Opened):
    query = np.zeros((1, 1, 2, 4))
    weights = np.full((1, 1, 2, 2), 0.5)
    breakdown = Breakdown(ScoreFactors(query, query, 0.5), query)
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
