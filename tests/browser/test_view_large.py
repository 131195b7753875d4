"""The interactive page with images, tapes, and more tokens and heads than fit on a screen."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from regard.maps.lookups import Lookups, Patches, patch_labels
from regard.pictures import View
from regard.pictures.page import build_payload
from tests.browser.view import TARGET, WORDS, Opened, choose, lookups, pixels, point, show, status, table


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
