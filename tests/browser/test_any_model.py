"""Pages of transformers models in a real browser: every family's opens, without an error, and shows what a token
reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from regard.hub.open_run import open_states
from regard.pictures import View
from tests.hub.tiny_folders import FAMILIES, example, tiny_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library

SOME = ("gpt2", "bart", "vit")
"""Families of the normal run; the others are slow."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOME else [pytest.mark.slow]) for name in FAMILIES]
)
def test_the_page_of_a_family_opens(opened: Callable[..., Any], tmp_path: Path, name: str):
    run = open_states(tiny_folder(name, tmp_path / name))
    found = run.attribute(run.parse(example(name, tmp_path)))
    page = opened(View(*found.lookups))
    first = page.locator(".regard-place").first.screenshot()
    on_image = found.lookups[0].patches is not None
    if not on_image:
        page.get_by_role("button", name="Lines", exact=True).click()
    tokens = page.locator(".regard-thumbs button" if on_image else '.regard-token[data-side="target"]')
    tokens.first.wait_for()
    assert tokens.count() >= len(found.lookups[0].target)
    tokens.nth(1).hover()
    assert page.locator(".regard-status").first.inner_text().strip()
    assert page.locator(".regard-place").first.screenshot() != first
