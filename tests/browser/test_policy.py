"""What the content security policies refuse, in a page that somebody has got something into: scripts and images that
are not its own. The served page, and a page from disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.maps.lookups import Lookups
from regard.pictures import View
from regard.serve import app
from tests.browser.elsewhere import elsewhere
from tests.serve.serving import serving

BLOCKED = """addEventListener("securitypolicyviolation", (event) => {
    window.blocked = [...(window.blocked || []), event.effectiveDirective];
});"""
SCRIPT = "<script>window.injected = true;</script>"
HANDLER = '<img src="data:," onerror="window.injected = true">'


def outside(other: str) -> str:
    """What asks another site for things."""
    return (
        f'<script src="{other}/script"></script><img src="{other}/image"><link rel="stylesheet" href="{other}/style">'
        f'<iframe src="{other}/frame"></iframe><object data="{other}/object"></object>'
    )


ALL = {"frame-src", "img-src", "object-src", "script-src-attr", "script-src-elem", "style-src-elem"}


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    opened.set_default_timeout(60_000)
    opened.add_init_script(BLOCKED)
    yield opened
    opened.close()


def refused(page: Any, requests: list[str], other: str) -> None:
    """Nothing that stood in the page has run or was asked for, nor what a script puts into it; all that was told."""
    page.wait_for_function(f"new Set(window.blocked).size >= {len(ALL)}")
    assert set(page.evaluate("window.blocked")) == ALL
    page.evaluate(
        """(other) => {
            window.blocked = [];
            const script = document.createElement("script"), image = new Image();
            script.textContent = "window.injected = true";
            image.src = `${other}/later`;
            document.body.append(script, image);
        }""",
        other,
    )
    page.wait_for_function("new Set(window.blocked).size >= 2")
    sent = "(address) => fetch(address).then(() => 'came', () => 'refused')"
    assert page.evaluate(sent, f"{other}/fetched") == "refused"
    assert page.evaluate("typeof window.injected") == "undefined"
    assert requests == []


def test_row_57_the_served_page_runs_and_loads_only_its_own_files(page: Any, monkeypatch: pytest.MonkeyPatch):
    with elsewhere() as (other, requests), serving() as address:
        kind, _ = app.FILES["/"]
        text = app.read_resource("index.html").replace("<main>", f"<main>{SCRIPT}{HANDLER}{outside(other)}")
        assert other in text
        monkeypatch.setattr(app, "FILES", {**app.FILES, "/": (kind, lambda: text)})
        page.goto(address)
        page.locator("#fields label").first.wait_for()
        refused(page, requests, other)


def test_row_57_a_page_from_disk_runs_and_loads_only_its_own_content(page: Any, tmp_path: Path):
    view = View(Lookups(np.full((1, 1, 2, 3), 1 / 3), ("a", "b", "c"), ("x", "y")))
    with elsewhere() as (other, requests):
        text = view.page().replace("<main", f"{SCRIPT}{HANDLER}{outside(other)}<main", 1)
        assert other in text
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page.goto(path.as_uri())
        page.locator(".regard-panel").first.wait_for()
        refused(page, requests, other)
