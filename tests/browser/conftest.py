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
REBOUND = "rebound.test"
"""A name that leads to this machine, and is none of its own."""


def missing() -> list[str]:
    return [name for name, found in (("chromium", CHROMIUM), ("playwright", find_spec("playwright"))) if not found]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if names := missing():
        pytest.skip("; ".join(f"{name} is not installed: {MISSING[name]}" for name in names))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        rebound = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
        launched = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rebound])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a view's page from disk. At the end there must have been no word on the console, no error, and no request
    but that for the page."""
    pages, logged = [], []

    def open_(view: View, **options: Any) -> Any:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(view.page(), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1000, "height": 800}, **options)
        pages.append(page)
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on(
            "request",
            lambda request: logged.append(request.url) if request.url.split("#")[0] != path.as_uri() else None,
        )
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.locator(".regard-panel").first.wait_for()
        return page

    yield open_
    for page in pages:
        page.close()
    assert logged == []


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Opens the page of a server. At the end there must have been no word on the console but of what the server
    refused, no error, and no request but to that server."""
    pages, logged = [], []

    def open_(address: str, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": 1000, "height": 900}, **options)
        page.set_default_timeout(PATIENCE)
        pages.append(page)
        page.on("console", lambda message: None if "status of 422" in message.text else logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith((address, "data:")) else logged.append(request.url),
        )
        page.goto(address + "/")
        page.locator("#fields label").first.wait_for()
        return page

    yield open_
    for page in pages:
        page.close()
    assert logged == []
