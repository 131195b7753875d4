"""The interactive page in a real browser, opened from disk."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from regard.maps import DocumentWeights
from regard.maps.breakdown import Breakdown, Sums
from regard.maps.lookups import Lookups, Patches, of_document, patch_labels
from regard.maps.other_map import OtherMap
from regard.maps.words import Words
from regard.pictures import View
from regard.pictures.payload import payload
from regard.pictures.style import COLOURS, DARK_COLOURS
from tests.pictures.test_view import HOSTILE, SHOWN

Opened = Callable[..., Any]
WORDS = ("Das", "Haus", "ist", "groß", ".", "<b>", "مرحبا")
TARGET = ("The", "house", "大", "is", "</script>")


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def lookups(name: str = "", seed: int = 3) -> Lookups:
    return Lookups(default_rng(seed).dirichlet(np.ones(7), size=(2, 3, 5)), WORDS, TARGET, name)


def status(page: Any) -> str:
    return page.locator(".regard-status").first.inner_text()


def pixels(page: Any) -> bytes:
    return page.locator(".regard-place").first.screenshot()


def show(page: Any, view: str) -> None:
    page.get_by_role("button", name=view, exact=True).click()
    assert page.get_by_role("button", name=view, exact=True).get_attribute("aria-pressed") == "true"


def point(page: Any, side: str, place: int) -> None:
    page.locator(f'.regard-token[data-side="{side}"][data-place="{place}"]').first.hover()


PIXELS = """(canvas, ...box) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(...box).data;
}"""
CELL = 30
"""Pixels of a cell where there is room for large ones."""


def cell(page: Any, target: int, source: int) -> tuple[float, float]:
    """The middle of a cell of the matrix on its canvas, which ends behind the last one."""
    width, height = page.locator(".regard-extent").first.evaluate("each => [each.clientWidth, each.clientHeight]")
    table = page.locator(".regard-status").first.evaluate(
        "each => each.textContent.match(/(\\d+) target × (\\d+) source/).slice(1).map(Number)"
    )
    left, top = (size - 1 - count * CELL for size, count in zip((width, height), reversed(table), strict=True))
    return left + (source + 0.5) * CELL, top + (target + 0.5) * CELL


def over(page: Any, target: int, source: int) -> None:
    """The mouse over a cell."""
    page.mouse.move(0, 0)
    x, y = cell(page, target, source)
    page.locator(".regard-extent canvas").first.hover(position={"x": x, "y": y})


def shade(page: Any, target: int, source: int) -> tuple[int, ...]:
    """The colour of a cell."""
    page.mouse.move(0, 0)
    script = (
        f"(canvas, [x, y]) => [...({PIXELS})(canvas, x * devicePixelRatio, y * devicePixelRatio, 1, 1)].slice(0, 3)"
    )
    return tuple(page.locator(".regard-extent canvas").first.evaluate(script, list(cell(page, target, source))))


def choose(page: Any, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).first.select_option(label=option)


def table(page: Any) -> np.ndarray:
    rows = page.locator(".regard-numbers tbody tr").all()
    return np.array([[float(cell) for cell in row.locator("td").all_inner_texts()] for row in rows])


@pytest.mark.parametrize("view", ["Lines", "Reading"])
def test_pointing_at_a_word_changes_the_picture(opened: Opened, view: str):
    one = lookups()
    page = opened(View(one))
    show(page, view)
    page.mouse.move(0, 0)
    before = pixels(page)
    point(page, "target", 1)
    row = (one.weights[-1].mean(0) if view == "Lines" else one.weights.mean((0, 1)))[1]
    assert status(page).startswith(f"house reads {WORDS[row.argmax()]} {row.max():.3f}")
    assert pixels(page) != before


def test_the_mouse_over_a_cell_shows_its_weight(opened: Opened):
    one = lookups()
    page = opened(View(one))
    mean, before = one.weights.mean((0, 1)), pixels(page)
    for target, source in ((1, 1), (4, 6), (0, 0), (2, 5)):
        over(page, target, source)
        assert status(page) == f"{TARGET[target]} reads {WORDS[source]} {mean[target, source]:.3f}"
    assert pixels(page) != before
    page.mouse.move(0, 0)
    assert status(page).startswith("5 target × 7 source labels.")
    choose(page, "Layer", "layer 1")
    choose(page, "Head", "2")
    over(page, 3, 2)
    assert status(page) == f"is reads ist {one.weights[1, 2, 3, 2]:.3f}"


def test_weights_below_the_threshold_are_hidden(opened: Opened):
    """In each view what is less than it looks as if it were nothing; the rest, and the numbers, stay."""
    weights = np.array([[0.7, 0.2, 0.1, 0.0], [0.05, 0.15, 0.3, 0.5]])
    page = opened(View(Lookups(weights[None, None], ("a", "b", "c", "d"), ("x", "y"))))
    before = {(t, s): shade(page, t, s) for t in range(2) for s in range(4)}
    blank = before[0, 3]
    assert len(set(before.values())) == 8
    for least in (0.12, 0.4):
        page.get_by_label("Hide below").fill(str(least))
        assert page.locator(".regard-bar output").inner_text() == str(least)
        for (t, s), colour in before.items():
            assert shade(page, t, s) == (colour if weights[t, s] >= least else blank), (t, s)
    over(page, 0, 2)
    assert status(page) == "x reads c 0.100"
    show(page, "Reading")
    point(page, "target", 1)
    read = page.locator('.regard-token[data-side="source"]')
    assert read.evaluate_all("all => all.map((each) => Boolean(each.style.background))") == [False, False, False, True]
    show(page, "Lines")
    inks = "filter((each, place) => place % 4 === 3 && each > 0).length"  # the pixels that are not transparent
    script = f"(canvas) => ({PIXELS})(canvas, 0, 0, canvas.width, canvas.height).{inks}"
    inked = []
    for least in (0, 0.12, 0.4, 0.8):
        page.get_by_label("Hide below").fill(str(least))
        page.mouse.move(0, 0)
        inked.append(page.locator(".regard-between canvas").evaluate(script))
    assert inked[0] > inked[1] > inked[2] > inked[3] == 0


def test_pointing_at_a_cell_gives_its_weight(opened: Opened):
    one = lookups()
    page = opened(View(one))
    choose(page, "Layer", "layer 1")
    choose(page, "Head", "2")
    page.locator(".regard-place").focus()
    before = pixels(page)
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    assert status(page) == f"house reads Haus {one.weights[1, 2, 1, 1]:.3f}"
    assert pixels(page) != before


def test_the_keyboard_alone_is_enough(opened: Opened):
    page = opened(View(lookups(), title="Keys"))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Lines").get_attribute("aria-pressed") == "true"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('regard-place')"):
            break
    page.keyboard.press("ArrowDown")
    assert status(page).startswith("house reads ")
    page.keyboard.press("Escape")
    assert "5 target × 7 source labels" in status(page)


def test_row_57_tokens_are_always_text(opened: Opened):
    one = Lookups(np.full((1, 1, 6, 6), 1 / 6), HOSTILE, HOSTILE, name=HOSTILE[0])
    page = opened(View(one, one, title=HOSTILE[2]))
    for view in ("Lines", "Table"):
        show(page, view)
        labels = ".regard-right .regard-token" if view == "Lines" else "tbody th"
        assert page.locator(labels).all_inner_texts() == SHOWN
    assert page.locator("h1").inner_text() == HOSTILE[2]
    assert page.locator("main img, main script").count() == 0


def test_arabic_and_chinese_run_in_their_own_direction(opened: Opened):
    arabic, chinese = ("القط", "جلس", "على", "الحصيرة"), ("猫", "坐在", "垫子", "上")
    page = opened(View(Lookups(np.full((1, 1, 4, 4), 0.25), arabic, chinese)))
    show(page, "Reading")
    for side, ordered in (("target", 1), ("source", -1)):
        places = [page.locator(f'.regard-token[data-side="{side}"]').nth(place).bounding_box()["x"] for place in (0, 1)]
        assert np.sign(places[1] - places[0]) == ordered


def test_a_dark_page_by_preference(opened: Opened):
    colours = {}
    for scheme in ("light", "dark"):
        page = opened(View(lookups()), color_scheme=scheme)
        show(page, "Reading")
        colour = "getComputedStyle(document.querySelector('.regard')).backgroundColor"
        colours[scheme] = [sum(map(int, page.evaluate(colour).strip("rgb()").split(","))), pixels(page)]
    assert colours["dark"][0] < 100 < 700 < colours["light"][0]
    assert colours["dark"][1] != colours["light"][1]


def test_reduced_motion_by_preference(opened: Opened):
    for motion, expected in (("reduce", "0s"), ("no-preference", "0.12s")):
        page = opened(View(lookups()), reduced_motion=motion)
        show(page, "Lines")
        found = page.locator(".regard-token").first.evaluate("each => getComputedStyle(each).transitionDuration")
        assert found == expected


def test_the_table_has_all_weights_of_the_choice(opened: Opened):
    one = lookups()
    page = opened(View(one))
    show(page, "Table")
    np.testing.assert_allclose(table(page), one.weights.mean((0, 1)), atol=6e-4)
    choose(page, "Layer", "layer 1")
    np.testing.assert_allclose(table(page), one.weights[1].mean(0), atol=6e-4)
    choose(page, "Head", "0")
    np.testing.assert_allclose(table(page), one.weights[1, 0], atol=6e-4)


def test_without_scripts_there_is_a_table(opened: Opened):
    page = opened(View(lookups(), title="Still"), java_script_enabled=False)
    assert page.locator("noscript td").count() == 5 * 7 + 1


def test_pieces_become_words(opened: Opened):
    pieces = ("un", "seen", "thing")
    words = Words(("unseen", "thing"), (0, 0, 1))
    one = Lookups(
        default_rng(2).dirichlet(np.ones(3), size=(1, 1, 3)),
        pieces,
        pieces,
        source_words=words,
        target_words=words,
    )
    page = opened(View(one))
    show(page, "Table")
    page.get_by_label("Whole words").check()
    weights = one.weights[0, 0]
    joined = np.stack([weights[:, :2].sum(1), weights[:, 2]], -1)
    np.testing.assert_allclose(table(page), [(joined[0] + joined[1]) / 2, joined[2]], atol=6e-4)
    assert page.locator("tbody th").all_inner_texts() == ["unseen", "thing"]


def test_two_sentences_side_by_side(opened: Opened):
    one, other = lookups("first"), lookups("second", seed=5)
    page = opened(View(one, other))
    page.get_by_role("button", name="Compare").click()
    assert page.locator(".regard-panel").count() == 2
    page.locator(".regard-place").first.focus()
    page.keyboard.press("ArrowRight")
    expected = [f"The reads Haus {each.weights.mean((0, 1))[0, 1]:.3f}" for each in (one, other)]
    assert page.locator(".regard-status").all_inner_texts() == expected
    page.get_by_role("button", name="Show one").click()
    assert page.locator(".regard-panel").count() == 1


def test_a_matrix_with_room_for_small_cells_has_no_hidden_column(opened: Opened):
    letters = tuple("Saturday 09 May 2018∎")
    weights = default_rng(3).dirichlet(np.ones(21), size=(1, 2, 11))
    page = opened(View(Lookups(weights, letters, tuple("2018-05-09∎"))))
    page.get_by_role("button", name="Compare").click()
    for width in range(930, 1000, 7):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(50)
        found = page.locator(".regard-scroll").evaluate_all(
            "all => all.map(each => each.scrollWidth - each.clientWidth)"
        )
        assert found == [0, 0]


def test_all_heads_at_once_and_a_choice_of_one(opened: Opened):
    page = opened(View(lookups()))
    show(page, "All heads")
    assert page.locator(".regard-heads canvas").count() == 2 * 3
    page.get_by_role("button", name="layer 1, head 2").click()
    shown = [page.get_by_label(label, exact=True).locator("option:checked").inner_text() for label in ("Layer", "Head")]
    assert shown == ["layer 1", "2"]


def test_a_document_shows_sentences_and_words(opened: Opened):
    words = (np.array([0.25, 0.75]), np.array([1.0]))
    page = opened(View(of_document(DocumentWeights((("a", "b"), ("c",)), np.array([0.2, 0.8]), words))))
    assert page.locator(".regard-sentences li > b").all_inner_texts() == ["0.200", "0.800"]
    point(page, "source", 1)
    assert status(page) == "document reads b 0.150"
    of_sentences, of_words = page.locator(".regard-key").all_inner_texts()
    assert "before a sentence: its weight" in of_sentences
    assert "0.80" in of_sentences
    assert "its weight within its sentence × the root of the sentence's" in of_words
    assert f"{np.sqrt(0.8):.2f}" in of_words
    page.get_by_label("Hide below").fill("0.1")
    page.mouse.move(0, 0)
    shaded = page.locator(".regard-sentences .regard-token").evaluate_all(
        "all => all.map(each => each.style.background)"
    )
    assert [bool(each) for each in shaded] == [False, True, True]


@pytest.mark.parametrize(("scheme", "strongest"), [("light", "darkest"), ("dark", "lightest")])
def test_legends_show_the_colour_of_the_largest_weight(opened: Opened, scheme: str, strongest: str):
    rows = np.array([[[[0.6, 0.1, 0.1, 0.1, 0.1]] * 2]])
    page = opened(View(Lookups(rows, tuple("abcde"), ("x", "y"))), color_scheme=scheme)
    page.get_by_label("Shades").select_option(label="0 to the largest")
    assert page.locator(".regard-key").inner_text().endswith(f"{strongest}: the largest of this matrix")
    show(page, "Reading")
    assert page.locator(".regard-key").inner_text().endswith(f"{strongest}: the largest of this row")


def test_a_nearly_even_row_is_faint_in_a_reading_and_the_legend_says_so(opened: Opened):
    rows = np.array([[0.21, 0.19, 0.2, 0.2, 0.2], [0.6, 0.1, 0.1, 0.1, 0.1]])[None, None]
    page = opened(View(Lookups(rows, tuple("abcde"), ("x", "y"))))
    show(page, "Reading")
    legend = page.locator(".regard-key")
    assert "0.80 nearly even: none is preferred; darkest: 4 times an even share" in " ".join(
        legend.inner_text().split()
    )
    page.locator('.regard-token[data-side="target"]').nth(1).hover()
    assert "0.60 darkest: the largest of this row" in " ".join(legend.inner_text().split())


def test_an_image_is_lit_where_a_word_attended(opened: Opened):
    pixels = default_rng(3).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    patches = Patches(pixels, 2, 2)
    one = Lookups(
        np.eye(4)[None, None, :3],
        patch_labels(patches.rows, patches.columns),
        ("a", "red", "dot"),
        notes=("0.1", "0.7", "0.9"),
        patches=patches,
    )
    page = opened(View(one))
    before = page.locator(".regard-picture").screenshot()
    page.locator(".regard-thumbs button").nth(1).hover()
    assert page.locator(".regard-caption").inner_text() == "red  0.7"
    assert page.locator(".regard-picture").screenshot() != before
    page.locator(".regard-picture").hover(position={"x": 300, "y": 50})
    assert status(page) == "red reads row 1, column 2 1.000"


def test_lookups_that_write_have_their_own_verbs(opened: Opened):
    page = opened(View(replace(lookups(), verbs=("writes", "is written"))))
    page.locator(".regard-place").focus()
    assert status(page).startswith("The writes Das ")
    show(page, "Lines")
    sides = page.locator(".regard-sides span").all_inner_texts()
    assert sides == ["target (queries): writes", "source (keys): is written"]
    point(page, "source", 1)
    assert status(page).startswith("Haus is written by ")


@pytest.mark.parametrize("channels", [1, 3])
def test_images_that_labels_stand_for(opened: Opened, channels: int):
    images = default_rng(4).integers(0, 255, (5, 7, 7, channels)).astype(np.uint8)
    weights = default_rng(6).dirichlet(np.ones(5), (2, 1, 3))
    labels = ("cat", "<b>", "مرحبا", "dog", "query")
    one = Lookups(weights, labels, labels[:3], images=images)
    page = opened(View(one))
    frames = page.locator(".regard-framed button")
    assert page.get_by_role("button", name="Images", exact=True).get_attribute("aria-pressed") == "true"
    mean = one.weights.mean((0, 1))
    for target in (0, 1):
        if target:
            point(page, "target", target)
        shown = [text.split("\n") for text in frames.all_inner_texts()]
        assert [(label, float(weight)) for label, weight in shown] == [
            (label, pytest.approx(weight, abs=6e-4)) for label, weight in zip(labels, mean[target], strict=True)
        ]
    frames.nth(3).hover()
    assert status(page) == f"<b> reads dog {mean[1, 3]:.3f}"
    page.locator(".regard-place").focus()
    page.keyboard.press("ArrowRight")
    assert status(page) == f"<b> reads query {mean[1, 4]:.3f}"
    colour = page.evaluate(
        """([at, x, y]) => {
          const canvas = document.querySelectorAll(".regard-framed canvas")[at];
          return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
        }""",
        [2, 6, 18],  # 12 of the page's dots to a pixel
    )
    assert colour == [int(each) for each in np.broadcast_to(images[2, 1, 0], 3)]


def test_512_tokens_of_144_heads_scroll_and_every_head_can_be_chosen(opened: Opened):
    """Head h of layer l reads l x 12 + h places on with 0.75, and the rest everywhere."""
    places, source, target = np.arange(512), *(tuple(f"{side}{place}" for place in range(512)) for side in "st")
    weights = np.full((144, 512, 512), 0.25 / 512, np.float32)
    for number, each in enumerate(weights):
        each[places, (places + number) % 512] += 0.75
    page = opened(View(Lookups(weights.reshape(12, 12, 512, 512), source, target), largest=32.0))
    box = page.locator(".regard-scroll")
    frame = box.bounding_box()

    def pointed() -> tuple[int, int, float]:
        reads, _, read, weight = status(page).split()
        return int(reads[1:]), int(read[1:]), float(weight)

    drawings = [pixels(page)]
    for layer, head, down in ((7, 3, 4000), (11, 11, 3000), (0, 1, 0)):
        choose(page, "Layer", f"layer {layer}")
        choose(page, "Head", str(head))
        box.evaluate("(each, [x, y]) => each.scrollTo(x, y)", [14 * (12 * layer + head) + down, down])
        x, y = frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2
        page.mouse.move(x, y)
        reads, read, _ = pointed()
        assert abs(reads - (down + frame["height"] / 2) / 14) < 12
        page.mouse.move(x + 14 * ((reads + 12 * layer + head) % 512 - read), y)
        assert pointed() == (reads, (reads + 12 * layer + head) % 512, pytest.approx(0.75, abs=4e-3))
        drawings.append(pixels(page))
    assert len(set(drawings)) == 4
    show(page, "All heads")
    assert page.locator(".regard-heads canvas").count() == 144
    page.get_by_role("button", name="layer 11, head 10").click()
    shown = [page.get_by_label(label, exact=True).locator("option:checked").inner_text() for label in ("Layer", "Head")]
    assert shown == ["layer 11", "10"]


def test_512_tokens_open_and_only_the_visible_part_is_rendered(opened: Opened):
    labels = tuple(f"t{place}" for place in range(512))
    one = Lookups(default_rng(3).dirichlet(np.ones(512), size=(1, 2, 512)), labels, labels)
    page = opened(View(one))
    size = page.locator(".regard-extent canvas").evaluate("each => [each.width, each.height]")
    assert max(size) <= 1000
    before, scroll = pixels(page), page.locator(".regard-scroll")
    scroll.hover(position={"x": 300, "y": 300})
    named = status(page)
    page.mouse.wheel(700, 2800)
    arrived = """(each) => new Promise((done) => {
      const look = (left) => (each.scrollTop === 2800 || !left ? done([each.scrollLeft, each.scrollTop])
        : requestAnimationFrame(() => look(left - 1)));
      look(600);
    })"""
    assert scroll.evaluate(arrived) == [700, 2800]
    page.mouse.move(0, 0)
    assert pixels(page) != before
    scroll.hover(position={"x": 300, "y": 300})  # 14 pixels a cell: 200 rows further down, 50 columns further right
    target, source = (int(label[1:]) for label in named.split(" reads ")[0:1] + named.split()[2:3])
    mean = one.weights.mean((0, 1))
    assert status(page) == f"t{target + 200} reads t{source + 50} {mean[target + 200, source + 50]:.3f}"
    for view in ("Lines", "Reading", "All heads", "Table"):
        show(page, view)
    assert page.locator(".regard-numbers tbody tr").count() == 512


def test_rows_are_appended(opened: Opened, tmp_path):
    """What a server does: a page with the source alone, and one target label after the other."""
    one = lookups()
    empty = Lookups(one.weights[:, :, :0], WORDS, ())
    page = opened(View(empty, title="Stream"))
    page.evaluate(
        "async (payload) => { window.view = await regard.mount(document.getElementById('view'), payload); }",
        payload([empty]),
    )
    for place, label in enumerate(TARGET[:3]):
        page.evaluate("row => window.view.append(row)", {"target": label, "weights": one.weights[:, :, place].tolist()})
    show(page, "Table")
    np.testing.assert_allclose(table(page), one.weights.mean((0, 1))[:3], atol=6e-4)
    longer = [[[*row, 0.5] for row in heads] for heads in one.weights[:, :, 3].tolist()]
    page.evaluate("row => window.view.append(row)", {"target": "is", "source": "new", "weights": longer})
    assert table(page)[-1][-1] == 0.5
    listen = """() => {
        window.picked = [];
        document.getElementById("view").addEventListener("regard-pick", (event) => window.picked.push(event.detail));
        window.view.panels[0].pick(1, 2);
        return window.picked;
    }"""
    assert page.evaluate(listen) == [{"lookup": 0, "target": 1, "source": 2}]


def test_a_link_sets_the_first_view(opened: Opened):
    page = opened(View(lookups()))
    page.goto(f"{page.url}#view=table&layer=1&head=2&compare=1")
    page.reload()
    page.locator(".regard-panel").nth(1).wait_for()
    for place, head in enumerate((2, 0)):
        rows = page.locator(".regard-panel").nth(place).locator("tbody tr").all()
        found = [[float(cell) for cell in row.locator("td").all_inner_texts()] for row in rows]
        np.testing.assert_allclose(found, lookups().weights[1, head], atol=6e-4)


def test_lines_begin_at_a_threshold_with_a_switch_for_each_head(opened: Opened):
    page = opened(View(lookups()))
    show(page, "Lines")
    assert page.get_by_label("Hide below").input_value() == "0.15"
    switches = page.locator(".regard-legend button")
    assert switches.all_inner_texts() == ["head 0", "head 1", "head 2"]
    page.mouse.move(0, 0)
    before = pixels(page)
    switches.nth(1).click()
    assert [each.get_attribute("aria-pressed") for each in switches.all()] == ["true", "false", "true"]
    page.mouse.move(0, 0)
    assert pixels(page) != before
    show(page, "Matrix")
    assert page.get_by_label("Hide below").input_value() == "0"
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
    assert opened(View(one)).locator(".regard-signs").inner_text() == "∎ the end of a text"
    assert opened(View(lookups())).locator(".regard-signs").inner_text() == ""


def test_hidden_lines_and_images_are_counted(opened: Opened):
    labels = tuple(f"t{place}" for place in range(130))
    one = Lookups(np.full((1, 1, 130, 130), 0.03), labels, labels)
    page = opened(View(one))
    show(page, "Lines")
    note = page.locator(".regard-key")
    assert "weights under 0.150 have none, and no weight is larger" in note.inner_text()
    page.get_by_label("Hide below").fill("0")
    page.wait_for_function("document.querySelector('.regard-key').textContent.includes('4,000')")
    assert "weights under 0.020 have none; of " in note.inner_text()
    page.get_by_label("Hide below").fill("0.5")
    assert note.inner_text().startswith("a line is as wide as its weight; weights under 0.500 have none, and")
    patches = Patches(np.zeros((4, 4, 3), np.uint8), 2, 2)
    page = opened(View(Lookups(np.full((1, 1, 130, 4), 0.25), patch_labels(2, 2), labels, patches=patches)))
    assert page.locator(".regard-thumbs p").inner_text() == "the first 120 of 130 labels; the arrow keys reach all"


@pytest.mark.parametrize(("scheme", "colours"), [("light", COLOURS), ("dark", DARK_COLOURS)])
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
    assert "each in its colour" not in page.get_by_label("Head", exact=True).inner_text()


def test_norms_are_displayed_unscaled(opened: Opened):
    """Not as shares, and not cut off at 1: what is pointed at, and the scale, in every view."""
    one = replace(lookups(), kind="norms", amounts=True, weights=5 * default_rng(5).random((2, 3, 5, 7)))
    mean, most = one.weights.mean((0, 1)), f"{one.weights.max():.3f}"
    page = opened(View(one))
    assert mean.sum(-1).min() > 2
    over(page, 1, 4)
    assert status(page) == f"house reads . {mean[1, 4]:.3f} (norms)"
    legend = page.locator(".regard-key")
    assert legend.inner_text().split("\n") == [
        "0",
        most,
        "norms, not shares; darkest: the largest of all layers and heads",
    ]
    assert shades(page) == [f"0 to {most}", "0 to the largest"]
    page.get_by_label("Hide below").fill("0.25")
    assert page.locator(".regard-bar output").inner_text() == "25 %"
    page.get_by_label("Shades").select_option(label="0 to the largest")
    assert f"{mean.max():.3f}" in legend.inner_text()
    show(page, "Lines")
    line = f"norms, not shares: a line of {most}, the largest of all layers and heads, is the widest; those under"
    assert legend.inner_text() == f"{line} {0.25 * one.weights.max():.3f} have none"
    point(page, "target", 1)
    last = one.weights[-1].mean(0)[1]
    assert status(page).startswith(f"house reads {WORDS[last.argmax()]} {last.max():.3f}")
    show(page, "Reading")
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
    page.get_by_label("Shades").select_option(label="0 to the largest")
    assert darkest == shade(page, 0, 1) != shade(page, 0, 0)
    page.get_by_label("Shades").select_option(label="0 to 0.030")
    page.get_by_label("Whole words").check()
    assert "0.030" in legend.inner_text()
    page.goto(f"{page.url}#words=1&target=0&source=0")
    page.reload()
    assert status(page) == "unseen reads unseen 0.027 (norms)"


def test_the_scale_of_a_map_follows_the_map(opened: Opened):
    others = {"norms": OtherMap(3 * np.ones((2, 3, 5, 7)), amounts=True), "signed": OtherMap(-np.ones((1, 1, 5, 7)))}
    page = opened(View(replace(lookups(), others=others)))
    for name, scale in (("weights", "0 to 1"), ("norms", "0 to 3.000"), ("signed", "−1 to 1")):
        choose(page, "Map", name)
        assert shades(page)[0] == scale
    choose(page, "Map", "weights")
    page.get_by_role("button", name="Compare").click()
    assert shades(page)[0] == "each map's scale"
    show(page, "All heads")
    assert page.locator(".regard-key").first.inner_text().split("\n") == ["0", "1"]
    choose(page, "Map", "norms")
    assert "3.000" in page.locator(".regard-key").first.inner_text()


def options(page: Any, label: str) -> list[str]:
    return page.get_by_label(label, exact=True).first.locator("option").all_inner_texts()


def shades(page: Any) -> list[str]:
    return page.get_by_label("Shades").locator("option").all_inner_texts()


def test_another_map_is_chosen_with_its_own_layers_heads_and_labels(opened: Opened):
    one = lookups()
    gradient = default_rng(7).dirichlet(np.ones(3), size=(1, 1, 1))
    others = {
        "rollout": OtherMap(default_rng(6).dirichlet(np.ones(7), size=(1, 1, 5)), ("rollout",)),
        "gradient": OtherMap(
            gradient, ("gradient",), source=WORDS[:3], target=("a class",), verbs=("depends on", "is depended on")
        ),
        "norms": OtherMap(5 * default_rng(5).random((2, 3, 5, 7)), amounts=True),
    }
    page = opened(View(replace(one, others=others)))
    assert options(page, "Map") == ["weights", "rollout", "gradient", "norms"]
    choose(page, "Layer", "layer 1")
    choose(page, "Head", "2")
    pictures = {"weights": pixels(page)}
    for name in others:
        choose(page, "Map", name)
        pictures[name] = pixels(page)
    assert len(set(pictures.values())) == 4
    show(page, "Table")
    np.testing.assert_allclose(table(page), others["norms"].weights.mean((0, 1)), atol=6e-4)
    choose(page, "Map", "gradient")
    np.testing.assert_allclose(table(page), gradient[0, 0], atol=6e-4)
    assert page.locator("thead th").all_inner_texts() == list(WORDS[:3])
    assert page.locator("tbody th").all_inner_texts() == ["a class"]
    show(page, "Reading")
    assert page.locator(".regard-texts h2").count() == 0  # one label needs no choice
    show(page, "Table")
    assert page.get_by_label("Layer", exact=True).count() == page.get_by_label("Head", exact=True).count() == 0
    choose(page, "Map", "weights")
    np.testing.assert_allclose(table(page), one.weights.mean((0, 1)), atol=6e-4)
    for view in ("Lines", "Reading", "All heads"):
        show(page, view)
    assert page.locator(".regard-heads canvas").count() == 2 * 3
    choose(page, "Map", "rollout")
    assert page.locator(".regard-heads").count() == 0  # one map is a matrix


def test_compared_maps_keep_the_head_where_both_have_it(opened: Opened):
    one = lookups()
    norms, rolled = OtherMap(one.weights[::-1]), OtherMap(one.weights[:1, :1])
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
    breakdown = Breakdown(Sums(query, query, 0.5), query)
    one = Lookups(weights, ("a", "b"), ("s", "t"), breakdown=breakdown)
    page = opened(View(replace(one, others={"gradient": OtherMap(np.eye(2)[None, None])})))
    for name, shown in (("weights", True), ("gradient", False)):
        choose(page, "Map", name)
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
    page.get_by_role("button", name="Show one").click()
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
    page.get_by_role("button", name="Show one").click()
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
