"""A page as a picture: `python -m docs.making.view_shots PAGE.html OUT.png [WIDTHxHEIGHT] [dark] [view=lines ...]`."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def shot(page: Path, out: Path, *options: str) -> None:
    """Draw a page; options are a size, `dark`, and settings of the view as they stand behind # in its address."""
    sizes = [each for each in options if each.replace("x", "").isdigit()]
    width, height = map(int, (sizes or ["900x600"])[0].split("x"))
    settings = [each for each in options if each not in ("dark", *sizes)]
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"), args=["--no-sandbox"]
        )
        scheme = "dark" if "dark" in options else "light"
        opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        opened.goto(f"{page.resolve().as_uri()}#{'&'.join(settings)}")
        opened.locator(".regard-panel").first.wait_for()
        opened.wait_for_timeout(500)
        opened.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    shot(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
