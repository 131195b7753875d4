"""Pages as pictures: `python -m docs.making.view_shots FOLDER` for all of the gallery whose pages are in the folder.

`python -m docs.making.view_shots PAGE.html OUT.png [WIDTHxHEIGHT] [dark] [view=lines ...]` draws one.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

GALLERY = Path(__file__).resolve().parents[1] / "gallery"
SHOTS = {
    "view-matrix": ("date", "760x700 target=3 source=19"),
    "view-lines": ("counting", "760x610 view=lines layer=1 head=each target=1"),
    "view-lines-dark": ("counting", "760x610 dark view=lines layer=0 head=each target=1"),
    "view-reading": ("bert", "760x690 view=reading layer=1 head=2 target=6"),
    "view-heads": ("counting", "760x560 view=heads shade=largest"),
    "view-heads-dark": ("counting", "760x560 dark view=heads"),
    "view-table-dark": ("bert", "1000x560 dark view=table layer=1 head=2"),
    "view-breakdown": ("bert", "820x1440 dark layer=1 head=2 target=5 source=8 zoom=24"),
    "view-additive": ("date", "900x1390 target=6 source=14"),
    "view-compare": ("bert", "1100x790 layer=0 head=0 compare=1 target=6 shade=largest"),
    "view-kinds": ("kinds", "1100x670 compare=1 target=6"),
    "view-norms": ("norms", "1100x690 compare=1 target=6"),
    "view-runs": ("runs", "1100x700 target=6"),
    "view-texts": ("texts", "1100x690 view=lines layer=1 head=each target=4"),
    "view-long": ("long", "1000x700 shade=largest layer=0 head=1"),
    "view-512-dark": ("words", "1000x700 dark layer=0 head=2 shade=largest"),
    "view-scripts": ("scripts", "760x520 target=1 source=1"),
    "view-scripts-dark": ("scripts", "760x320 dark view=reading target=4"),
    "view-document": ("document", "820x360"),
    "view-document-dark": ("document", "820x360 dark"),
    "view-image": ("scene", "900x700 target=2"),
    "view-image-dark": ("scene", "900x700 dark target=2"),
    "view-tape": ("tape", "1000x720 compare=1 target=8 source=4"),
    "view-role": ("role", "760x950 layer=0 head=3 target=6 source=5"),
}
"""The page and the options of each screenshot of the gallery."""


def shot(page: Path, out: Path, *options: str) -> None:
    """Draw a page; options are a size, `dark`, and settings of the view as after # in its address."""
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
    if sys.argv[2:]:
        shot(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
    else:
        pages = {name: (Path(sys.argv[1]) / f"{page}.html", options) for name, (page, options) in SHOTS.items()}
        for name, (page, options) in pages.items():
            if page.exists():
                shot(page, GALLERY / f"{name}.png", *options.split())
