"""What the content security policies and the server refuse, tried by a browser: scripts and images that are not the
page's own, in a page that somebody has got something into, and other sites' pages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlunsplit

import numpy as np
import pytest

from regard.maps.lookups import Lookups
from regard.pictures import View
from regard.serve import app
from tests.serve.serving import serving

BLOCKED = """addEventListener("securitypolicyviolation", (event) => {
    window.blocked = [...(window.blocked || []), event.effectiveDirective];
});"""
SCRIPT = "<script>window.injected = true;</script>"
HANDLER = '<img src="data:," onerror="window.injected = true">'


@contextmanager
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """The address of a site whose every page is blank, and the paths that were asked of it."""
    requests: list[str] = []

    class Blank(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield urlunsplit(("http", f"127.0.0.1:{site.server_port}", "", "", "")), requests
        site.shutdown()


def outside(other: str) -> str:
    """What asks another site for things."""
    return (
        f'<script src="{other}/script"></script><img src="{other}/image"><link rel="stylesheet" href="{other}/style">'
        f'<iframe src="{other}/frame"></iframe><object data="{other}/object"></object>'
    )


ALL = {"frame-src", "img-src", "object-src", "script-src-attr", "script-src-elem", "style-src-elem"}


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


def test_the_served_page_runs_and_loads_only_its_own_files(page: Any, monkeypatch: pytest.MonkeyPatch):
    with elsewhere() as (other, requests), serving() as address:
        read_file = app.read_file
        text = read_file("index.html").replace("<main>", f"<main>{SCRIPT}{HANDLER}{outside(other)}")
        assert other in text
        monkeypatch.setattr(app, "read_file", lambda name: text if name == "index.html" else read_file(name))
        page.add_init_script(BLOCKED)
        page.goto(address)
        page.locator("#fields label").first.wait_for()
        refused(page, requests, other)


def test_a_page_from_disk_runs_and_loads_only_its_own_content(page: Any, tmp_path: Path):
    view = View(Lookups(np.full((1, 1, 2, 3), 1 / 3), ("a", "b", "c"), ("x", "y")))
    with elsewhere() as (other, requests):
        text = view.page().replace("<main", f"{SCRIPT}{HANDLER}{outside(other)}<main", 1)
        assert other in text
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page.add_init_script(BLOCKED)
        page.goto(path.as_uri())
        page.locator(".regard-panel").first.wait_for()
        refused(page, requests, other)


def test_another_origin_can_neither_frame_the_page_nor_run_its_scripts(page: Any):
    show = """(address) => new Promise((done) => {
        const tag = document.createElement("TAG");
        Object.assign(tag, { onload: () => done("came"), onerror: () => done("refused"), src: address });
        document.body.append(tag);
    })"""
    with serving() as address, elsewhere() as (other, _):
        page.goto(other)
        assert page.evaluate(show.replace("TAG", "script"), address + "/view.js") == "refused"
        assert page.evaluate("typeof regard") == "undefined"
        page.evaluate(show.replace("TAG", "iframe"), address + "/")
        assert all("Answer" not in frame.content() for frame in page.frames)
