"""The view beside bertviz's head view on the same maps: bytes of the page, and milliseconds until it is seen.

`python -m benchmarks.view FOLDER` makes in FOLDER what bertviz needs: its own environment, and the three libraries that
its page loads from the network, which are answered from there. Twelve layers of twelve heads; a row is the softmax of
normal numbers with deviation 2. Seen is a page whose first lines or cells are drawn, in a headless Chromium, from disk.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Browser, Error, Page, Route, sync_playwright

from benchmarks.report import head, row, write
from regard.maps.lookups import Lookups
from regard.pictures import View
from tests.browser.conftest import CHROMIUM

LAYERS, HEADS, SIZES, TURNS = 12, 12, (32, 128, 512), 3
PATIENCE = 300_000
"""Milliseconds after which a page counts as never seen."""
LIBRARIES = {
    "require.min.js": ("requirejs@2.3.6", "requirejs/require.js"),
    "d3.min.js": ("d3@5.7.0", "d3/dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.4", "jquery/dist/jquery.min.js"),
}
DRAW = """
import sys, numpy, torch
from bertviz import head_view
weights = torch.from_numpy(numpy.load(sys.argv[1]))
labels = [f"t{place}" for place in range(weights.shape[-1])]
page = head_view([each[None] for each in weights], labels, html_action="return")
open(sys.argv[2], "w").write("<!DOCTYPE html><meta charset=utf-8><body>" + page.data)
"""
SEEN = {
    "regard": "() => document.querySelector('.regard-extent canvas')?.style.width && performance.now()",
    "bertviz": "() => document.querySelectorAll('svg line, svg path').length > 0 && performance.now()",
}


def prepared(folder: Path) -> Path:
    """The interpreter that has bertviz, and this one's torch."""
    python = folder / "venv" / "bin" / "python"
    if not list(folder.glob("venv/lib/*/site-packages/torch.pth")):
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "bertviz==1.4.1"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "ipython", "tqdm", "requests", "filelock"], check=True)
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (site / "torch.pth").write_text(str(Path(torch.__file__).parents[1]))
    for package, _ in LIBRARIES.values():
        place = folder / package.split("@")[0]
        if not place.exists():
            place.mkdir(parents=True)
            subprocess.run(["npm", "install", "--silent", "--prefix", place, package], check=True)
    return python


def served(folder: Path, page: Page) -> None:
    """Answers requests for the libraries."""

    def answer(route: Route) -> None:
        package, path = LIBRARIES[route.request.url.rsplit("/", 1)[1]]
        route.fulfill(path=folder / package.split("@")[0] / "node_modules" / path)

    page.route("**/*.min.js", answer)


def until_seen(browser: Browser, path: Path, what: str, folder: Path) -> float | None:
    """Milliseconds, the median of several; None if the page broke off or nothing was seen in time."""
    times = []
    for _ in range(TURNS):
        page = browser.new_page(viewport={"width": 1000, "height": 800}, bypass_csp=True)  # to ask from outside
        served(folder, page)
        try:
            page.goto(path.resolve().as_uri(), wait_until="commit", timeout=PATIENCE)
            times.append(page.wait_for_function(SEEN[what], timeout=PATIENCE, polling=20).json_value())
        except Error as error:
            print(f"{path.name}: {error.message.splitlines()[0]}", file=sys.stderr)
            return None
        finally:
            page.close()
    return float(np.median(times))


def weights(tokens: int) -> np.ndarray:
    """Of every layer and head."""
    scores = np.random.default_rng(tokens).normal(size=(LAYERS, HEADS, tokens, tokens)).astype(np.float32)
    return torch.from_numpy(2 * scores).softmax(-1).numpy()


def pages(tokens: int, folder: Path, python: Path) -> dict[str, Path]:
    """The pages of both."""
    given, labels = weights(tokens), tuple(f"t{place}" for place in range(tokens))
    found = {name: folder / f"{name}-{tokens}.html" for name in SEEN}
    found["regard"].write_text(View(Lookups(given, labels, labels), largest=64).page(), encoding="utf-8")
    np.save(folder / "weights.npy", given)
    subprocess.run([python, "-c", DRAW, folder / "weights.npy", found["bertviz"]], check=True)
    return found


def main(folder: Path) -> None:
    """Prints the table and writes the results."""
    python, rows = prepared(folder), list[dict[str, Any]]()
    head("tokens", "page", "MB", "ms until seen")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for tokens in SIZES:
            for name, path in pages(tokens, folder, python).items():
                one = {"tokens": tokens, "page": name, "megabytes": round(path.stat().st_size / 1e6, 3)}
                seen = until_seen(browser, path, name, folder)
                rows.append(one | {"milliseconds": seen and round(seen)})
                row(*rows[-1].values())
        browser.close()
    write("view", rows, layers=LAYERS, heads=HEADS, turns=TURNS, bertviz="1.4.1")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
