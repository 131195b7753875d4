"""The interactive page in a real browser, opened from disk: words, cells, tables, images, and much of everything."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from regard.maps import DocumentWeights
from regard.maps.alignment import Words
from regard.maps.lookups import ImagePatches, Lookups, lookups_from_document, patch_labels
from regard.pictures import View
from regard.pictures.page import build_payload
from tests.browser.view import (
    PIXELS,
    TARGET,
    WORDS,
    Opened,
    choose,
    lookups,
    over,
    pixels,
    point,
    shade,
    show,
    status,
    table,
)
from tests.pictures.test_view import HOSTILE, SHOWN


@pytest.mark.parametrize("view", ["Lines", "Text"])
def test_pointing_at_a_word_changes_the_picture(opened: Opened, view: str):
    one = lookups()
    page = opened(View(one))
    show(page, view)
    page.mouse.move(0, 0)
    before = pixels(page)
    point(page, "target", 1)
    row = (one.weights[-1].mean(0) if view == "Lines" else one.weights.mean((0, 1)))[1]
    assert status(page).startswith(f"house attends to {WORDS[row.argmax()]} {row.max():.3f}")
    assert pixels(page) != before


def test_the_mouse_over_a_cell_shows_its_weight(opened: Opened):
    one = lookups()
    page = opened(View(one))
    mean, before = one.weights.mean((0, 1)), pixels(page)
    for target, source in ((1, 1), (4, 6), (0, 0), (2, 5)):
        over(page, target, source)
        assert status(page) == f"{TARGET[target]} attends to {WORDS[source]} {mean[target, source]:.3f}"
    assert pixels(page) != before
    page.mouse.move(0, 0)
    assert status(page).startswith("5 queries × 7 keys.")
    choose(page, "Layer", "layer 1")
    choose(page, "Head", "2")
    over(page, 3, 2)
    assert status(page) == f"is attends to ist {one.weights[1, 2, 3, 2]:.3f}"


def test_weights_below_the_threshold_are_hidden(opened: Opened):
    """In each view what is less than it looks as if it were nothing; the rest, and the numbers, stay."""
    weights = np.array([[0.7, 0.2, 0.1, 0.0], [0.05, 0.15, 0.3, 0.5]])
    page = opened(View(Lookups(weights[None, None], ("a", "b", "c", "d"), ("x", "y"))))
    before = {(t, s): shade(page, t, s) for t in range(2) for s in range(4)}
    blank = before[0, 3]
    assert len(set(before.values())) == 8
    for least in (0.12, 0.4):
        page.get_by_label("Minimum weight").fill(str(least))
        assert page.locator(".regard-bar output").inner_text() == str(least)
        for (t, s), colour in before.items():
            assert shade(page, t, s) == (colour if weights[t, s] >= least else blank), (t, s)
    over(page, 0, 2)
    assert status(page) == "x attends to c 0.100"
    show(page, "Text")
    point(page, "target", 1)
    read = page.locator('.regard-token[data-side="source"]')
    assert read.evaluate_all("all => all.map((each) => Boolean(each.style.background))") == [False, False, False, True]
    show(page, "Lines")
    inks = "filter((each, place) => place % 4 === 3 && each > 0).length"  # the pixels that are not transparent
    script = f"(canvas) => ({PIXELS})(canvas, 0, 0, canvas.width, canvas.height).{inks}"
    inked = []
    for least in (0, 0.12, 0.4, 0.8):
        page.get_by_label("Minimum weight").fill(str(least))
        page.mouse.move(0, 0)
        inked.append(page.locator(".regard-between canvas").evaluate(script))
    assert inked[0] > inked[1] > inked[2] > inked[3] == 0


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
    assert status(page).startswith("house attends to ")
    page.keyboard.press("Escape")
    assert "5 queries × 7 keys" in status(page)


def test_tokens_are_always_text(opened: Opened):
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
    show(page, "Text")
    for side, ordered in (("target", 1), ("source", -1)):
        places = [page.locator(f'.regard-token[data-side="{side}"]').nth(place).bounding_box()["x"] for place in (0, 1)]
        assert np.sign(places[1] - places[0]) == ordered


def test_a_dark_page_by_preference(opened: Opened):
    colours = {}
    for scheme in ("light", "dark"):
        page = opened(View(lookups()), color_scheme=scheme)
        show(page, "Text")
        colour = "getComputedStyle(document.querySelector('.regard')).backgroundColor"
        colours[scheme] = [sum(map(int, page.evaluate(colour).strip("rgb()").split(","))), pixels(page)]
    assert colours["dark"][0] < 100 < 700 < colours["light"][0]
    assert colours["dark"][1] != colours["light"][1]


def test_without_scripts_the_page_says_what_it_needs(opened: Opened):
    page = opened(View(lookups(), title="Still"), java_script_enabled=False)
    assert "needs JavaScript" in page.locator("noscript p").inner_text()


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


def test_a_document_shows_sentences_and_words(opened: Opened):
    words = (np.array([0.25, 0.75]), np.array([1.0]))
    page = opened(View(lookups_from_document(DocumentWeights((("a", "b"), ("c",)), np.array([0.2, 0.8]), words))))
    assert page.locator(".regard-sentences li > b").all_inner_texts() == ["0.200", "0.800"]
    point(page, "source", 1)
    assert status(page) == "document attends to b 0.150"
    of_sentences, of_words = page.locator(".regard-key").all_inner_texts()
    assert "before a sentence: its weight" in of_sentences
    assert "0.80" in of_sentences
    assert "its weight within its sentence × the root of the sentence's" in of_words
    assert f"{np.sqrt(0.8):.2f}" in of_words
    page.get_by_label("Minimum weight").fill("0.1")
    page.mouse.move(0, 0)
    shaded = page.locator(".regard-sentences .regard-token").evaluate_all(
        "all => all.map(each => each.style.background)"
    )
    assert [bool(each) for each in shaded] == [False, True, True]


def test_an_image_is_lit_where_a_word_attended(opened: Opened):
    pixels = default_rng(3).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    patches = ImagePatches(pixels, 2, 2)
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
    assert status(page) == "red attends to row 1, column 2 1.000"


def test_lookups_that_write_have_their_own_verbs(opened: Opened):
    page = opened(View(replace(lookups(), verbs=("writes", "is written"))))
    page.locator(".regard-place").focus()
    assert status(page).startswith("The writes Das ")
    show(page, "Lines")
    sides = page.locator(".regard-sides span").all_inner_texts()
    assert sides == ["target (query): writes", "source (key): is written"]
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
    assert status(page) == f"<b> attends to dog {mean[1, 3]:.3f}"
    page.locator(".regard-place").focus()
    page.keyboard.press("ArrowRight")
    assert status(page) == f"<b> attends to query {mean[1, 4]:.3f}"
    colour = page.evaluate(
        """([at, x, y]) => {
          const canvas = document.querySelectorAll(".regard-framed canvas")[at];
          return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
        }""",
        [2, 6, 18],  # 12 of the page's dots to a pixel
    )
    assert colour == [int(each) for each in np.broadcast_to(images[2, 1, 0], 3)]


def test_512_tokens_of_144_heads_scroll_and_every_head_can_be_chosen(opened: Opened):
    """Head h of layer l attends to l x 12 + h places on with 0.75, and the rest everywhere."""
    places, source, target = np.arange(512), *(tuple(f"{side}{place}" for place in range(512)) for side in "st")
    weights = np.full((144, 512, 512), 0.25 / 512, np.float32)
    for number, each in enumerate(weights):
        each[places, (places + number) % 512] += 0.75
    page = opened(View(Lookups(weights.reshape(12, 12, 512, 512), source, target), largest=32.0))
    box = page.locator(".regard-scroll")
    frame = box.bounding_box()

    def pointed() -> tuple[int, int, float]:
        reads, _, _, read, weight = status(page).split()
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


def test_rows_are_appended(opened: Opened, tmp_path):
    """What a server does: a page with the source alone, and one target label after the other."""
    one = lookups()
    empty = Lookups(one.weights[:, :, :0], WORDS, ())
    page = opened(View(empty, title="Stream"))
    page.evaluate(
        "async (payload) => { window.view = await regard.mount(document.getElementById('view'), payload); }",
        build_payload([empty]),
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
