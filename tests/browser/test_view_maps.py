"""The interactive page with several maps: heads, attributions on scales of their own, and two texts compared."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from regard.maps.alignment import Words
from regard.maps.breakdown import Breakdown, ScoreFactors
from regard.maps.lookups import AlternativeMap, Lookups, Patches, patch_labels
from regard.pictures import View
from regard.pictures.style import COLORS, DARK_COLORS
from tests.browser.view import (
    TARGET,
    WORDS,
    Opened,
    choose,
    lookups,
    options,
    over,
    pixels,
    point,
    shade,
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


def test_compared_halves_stand_flush(opened: Opened):
    one = lookups()
    other = replace(one, source=("Donaudampfschifffahrt",) * 7, target=("longer",) * 5, name="another")
    page = opened(View(replace(one, name="a"), other, compare=1))
    first, second = (page.locator(".regard-scroll").nth(place).bounding_box() for place in (0, 1))
    assert first["y"] == second["y"]
    assert first["height"] == second["height"]


def test_the_sign_of_the_end_is_explained(opened: Opened):
    one = replace(lookups(), target=(*TARGET[:-1], "</s>"))
    assert opened(View(one)).locator(".regard-signs").inner_text() == "∎ end of text"
    assert opened(View(lookups())).locator(".regard-signs").inner_text() == ""


def test_hidden_lines_and_images_are_counted(opened: Opened):
    labels = tuple(f"t{place}" for place in range(130))
    one = Lookups(np.full((1, 1, 130, 130), 0.03), labels, labels)
    page = opened(View(one))
    show(page, "Lines")
    note = page.locator(".regard-key")
    assert "weights under 0.150 have none, and no weight is larger" in note.inner_text()
    page.get_by_label("Minimum weight").fill("0")
    page.wait_for_function("document.querySelector('.regard-key').textContent.includes('4,000')")
    assert "weights under 0.020 have none; of " in note.inner_text()
    page.get_by_label("Minimum weight").fill("0.5")
    assert note.inner_text().startswith("a line is as wide as its weight; weights under 0.500 have none, and")
    patches = Patches(np.zeros((4, 4, 3), np.uint8), 2, 2)
    page = opened(View(Lookups(np.full((1, 1, 130, 4), 0.25), patch_labels(2, 2), labels, patches=patches)))
    assert page.locator(".regard-thumbs p").inner_text() == "the first 120 of 130 labels; the arrow keys reach all"


@pytest.mark.parametrize(("scheme", "colours"), [("light", COLORS), ("dark", DARK_COLORS)])
def test_heads_have_the_colours_of_pictures_then_dashes(opened: Opened, scheme: str, colours: tuple[str, ...]):
    count = len(colours) + 1
    page = opened(View(Lookups(np.ones((1, count, 1, 1)), ("s",), ("t",))), color_scheme=scheme)
    show(page, "Lines")  # which are those of each head, unless one is chosen
    samples = page.locator(".regard-legend canvas").evaluate_all(
        "all => all.map((each) => [...each.getContext('2d').getImageData(0, 4, each.width, 1).data])"
    )
    rows = np.array(samples).reshape(count, -1, 4)
    expected = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (*colours, colours[0])]
    np.testing.assert_array_equal(rows[:, 0, :3], expected)
    solid = (rows[:, :, 3] == 255).all(1)
    assert solid.tolist() == [True] * len(colours) + [False]
    page = opened(View(Lookups(np.ones((1, 33, 1, 1)), ("s",), ("t",))))
    show(page, "Lines")
    assert "all heads, by color" not in page.get_by_label("Head", exact=True).inner_text()


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


def test_small_norms_go_to_the_greatest_of_them(opened: Opened):
    """Of the words, which may have more than any piece, too."""
    weights = np.array([[0.02, 0.03, 0.01], [0.0, 0.004, 0.0], [0.01, 0.01, 0.01]])[None, None]
    words = Words(("unseen", "thing"), (0, 0, 1))
    labels = ("un", "seen", "thing")
    one = Lookups(weights, labels, labels, kind="norms", amounts=True, source_words=words, target_words=words)
    page = opened(View(one))
    legend = page.locator(".regard-key")
    assert "0.030" in legend.inner_text()
    darkest = shade(page, 0, 1)
    page.get_by_label("Color scale").select_option(label="0 to the maximum")
    assert darkest == shade(page, 0, 1) != shade(page, 0, 0)
    page.get_by_label("Color scale").select_option(label="0 to 0.030")
    page.get_by_label("Whole words").check()
    assert "0.030" in legend.inner_text()
    page.goto(f"{page.url}#words=1&target=0&source=0")
    page.reload()
    assert status(page) == "unseen attends to unseen 0.027 (norms)"


def test_the_scale_of_a_map_follows_the_map(opened: Opened):
    others = {
        "norms": AlternativeMap(3 * np.ones((2, 3, 5, 7)), amounts=True),
        "signed": AlternativeMap(-np.ones((1, 1, 5, 7))),
    }
    page = opened(View(replace(lookups(), others=others)))
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
    page = opened(View(replace(one, others=others)))
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


def test_compared_maps_keep_the_head_where_both_have_it(opened: Opened):
    one = lookups()
    norms, rolled = AlternativeMap(one.weights[::-1]), AlternativeMap(one.weights[:1, :1])
    for other, chosen in ((norms, ["layer 1", "2"]), (rolled, [])):
        page = opened(View(replace(one, others={"other": other})))
        choose(page, "Layer", "layer 1")
        choose(page, "Head", "2")
        page.get_by_role("button", name="Compare").click()
        second = page.locator(".regard-panel").nth(1).locator("select option:checked").all_inner_texts()
        assert second == ["other", *chosen]


def test_only_the_weights_have_a_breakdown(opened: Opened):
    query = np.zeros((1, 1, 2, 4))
    weights = np.full((1, 1, 2, 2), 0.5)
    breakdown = Breakdown(ScoreFactors(query, query, 0.5), query)
    one = Lookups(weights, ("a", "b"), ("s", "t"), breakdown=breakdown)
    page = opened(View(replace(one, others={"gradient": AlternativeMap(np.eye(2)[None, None])})))
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


def test_signs_and_single_letters_stay_upright_above_turned_labels(opened: Opened):
    source = ("<s>", "constitutional", "a", "amendments", "</s>")
    page = opened(View(Lookups(default_rng(3).dirichlet(np.ones(5), size=(1, 1, 2)), source, ("x", "y"))))
    page.evaluate("""() => {
      const { prototype } = CanvasRenderingContext2D, { fillText, rotate, save } = prototype;
      window.drawn = {};
      prototype.save = function () { this.isTurned = false; return save.call(this); };
      prototype.rotate = function (angle) { this.isTurned = true; return rotate.call(this, angle); };
      prototype.fillText = function (text, ...rest) {
        window.drawn[text] = this.isTurned;
        return fillText.call(this, text, ...rest);
      };
    }""")
    show(page, "Table")
    show(page, "Matrix")
    page.wait_for_function("'constitutional' in window.drawn")
    drawn = page.evaluate("window.drawn")
    assert {name: drawn[name] for name in ("▷", "constitutional", "a", "amendments", "∎")} == {
        "▷": False,
        "constitutional": True,
        "a": False,
        "amendments": True,
        "∎": False,
    }
