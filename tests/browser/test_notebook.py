"""A view in a notebook, in a real browser: the page in a sandboxed frame, and a picture without frames."""

import re
from typing import Any

import numpy as np
import pytest

from regard.maps.lookups import Lookups
from regard.pictures import View
from tests.pictures.test_view import HOSTILE

FRAMES = re.compile("<iframe.*?</iframe>", re.DOTALL)
STYLES = re.compile(' style="[^"]*"')
VISIBLE = """(image) => {
    const box = image.getBoundingClientRect();
    return image.complete && image.naturalWidth > 99 && box.width > 99 &&
        document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === image;
}"""


def bundle(labels: int = 6) -> dict[str, str]:
    names = tuple(HOSTILE[place % len(HOSTILE)] for place in range(labels))
    weights = np.full((1, 2, labels, labels), 1 / labels)
    return View(Lookups(weights, names, names), title=HOSTILE[0])._repr_mimebundle_()


def test_a_notebook_shows_the_page_in_a_sealed_frame(page: Any):
    page.set_content(bundle()["text/html"])
    inside = page.frame_locator("iframe")
    inside.locator(".regard-panel").first.wait_for()
    inside.get_by_role("button", name="Table").click()
    assert inside.locator(".regard-numbers tbody tr").count() == 6
    (frame,) = page.frames[1:]
    assert frame.evaluate("self.origin") == "null"
    reach = "try { parent.document.title; 'reached' } catch (error) { error.name }"
    assert frame.evaluate(reach) == "SecurityError"
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    assert not page.locator("img").evaluate(VISIBLE)


@pytest.mark.parametrize("labels", [6, 131])
@pytest.mark.parametrize("styled", [True, False])
def test_without_frames_there_is_a_picture(page: Any, labels: int, styled: bool):
    """As on GitHub, which leaves out frames and styles, and in notebooks that nobody trusts."""
    content = bundle(labels)
    html = FRAMES.sub("", content["text/html"])
    page.set_content(html if styled else STYLES.sub("", html))
    page.wait_for_function("document.querySelector('img').complete")
    assert page.locator("iframe").count() == 0
    assert page.locator("img").evaluate(VISIBLE)
    assert page.locator("img").get_attribute("alt") == content["text/plain"]
