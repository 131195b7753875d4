"""A page offers the views that have a meaning for the chosen map."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import default_rng

from regard.maps.lookups import AlternativeMap, Lookups, Patches, patch_labels
from regard.pictures import View
from tests.browser.view import choose, lookups, show

Opened = Callable[..., Any]
PIXELS = default_rng(3).integers(0, 255, (12, 8, 3), dtype=np.uint8)


def offered(page: Any) -> list[str]:
    """The views that a page offers, the shown one in capitals."""
    tabs = page.locator(".regard-tabs button:visible").all()
    names = [(each.inner_text(), each.get_attribute("aria-pressed")) for each in tabs]
    return [name.upper() if pressed == "true" else name for name, pressed in names]


def on_patches(weights: np.ndarray, *target: str, **more: Any) -> Lookups:
    return Lookups(weights, patch_labels(3, 2), target, patches=Patches(PIXELS, 3, 2), **more)


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
    page.get_by_role("button", name="layer 0, head 1").click()
    assert offered(page)[0] == "IMAGE"
    assert page.get_by_label("Head", exact=True).locator("option:checked").inner_text() == "1"
