"""A headless Chromium, Debian's package, driven by playwright; without either these tests are skipped and say so."""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from regard.pictures import View

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = {"chromium": "apt-get install chromium", "playwright": "pip install -c constraints.txt -e '.[test]'"}

Visit = Callable[..., Any]
PATIENCE = 60_000
"""Milliseconds for what a page is waited for."""


def missing() -> list[str]:
    return [name for name, found in (("chromium", CHROMIUM), ("playwright", find_spec("playwright"))) if not found]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if names := missing():
        pytest.skip("; ".join(f"{name} is not installed: {MISSING[name]}" for name in names))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page."""
    blank = browser.new_page(viewport={"width": 900, "height": 900})
    blank.set_default_timeout(PATIENCE)
    yield blank
    blank.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Visit]:
    """New pages that may ask for some addresses. At the end there must have been no word on the console but of what a
    server refused, no error, and no other request."""
    pages, logged = [], []

    def open_(is_expected: Callable[[str], bool], **options: Any) -> Any:
        page = browser.new_page(**options)
        pages.append(page)
        page.on("console", lambda message: None if "status of 422" in message.text else logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("request", lambda request: None if is_expected(request.url) else logged.append(request.url))
        return page

    yield open_
    for page in pages:
        page.close()
    assert logged == []


@pytest.fixture
def opened(watched: Visit, tmp_path: Path) -> Callable[..., Any]:
    """Opens a view's page from disk, which asks for nothing but itself."""

    def open_(view: View, **options: Any) -> Any:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.html"
        path.write_text(view.page(), encoding="utf-8")
        own = path.as_uri()
        page = watched(lambda url: url.split("#")[0] == own, viewport={"width": 1000, "height": 800}, **options)
        page.goto(own)
        if options.get("java_script_enabled", True):
            page.locator(".regard-panel").first.wait_for()
        return page

    return open_


@pytest.fixture
def visit(watched: Visit) -> Visit:
    """Opens the page of a server, which asks for nothing elsewhere."""

    def open_(address: str, **options: Any) -> Any:
        page = watched(
            lambda url: url.startswith((address, "data:")), viewport={"width": 1000, "height": 900}, **options
        )
        page.set_default_timeout(PATIENCE)
        page.goto(address + "/")
        page.locator("#fields label").first.wait_for()
        return page

    return open_
