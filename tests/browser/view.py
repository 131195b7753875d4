"""What a reader does on the interactive page, and what it shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import default_rng

from regard.maps.lookups import Lookups

Opened = Callable[..., Any]
WORDS = ("Das", "Haus", "ist", "groß", ".", "<b>", "مرحبا")
TARGET = ("The", "house", "大", "is", "</script>")


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
        "each => each.textContent.match(/(\\d+) quer\\w+ × (\\d+) keys?/).slice(1).map(Number)"
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


def options(page: Any, label: str) -> list[str]:
    return page.get_by_label(label, exact=True).first.locator("option").all_inner_texts()


def shades(page: Any) -> list[str]:
    return page.get_by_label("Color scale").locator("option").all_inner_texts()
