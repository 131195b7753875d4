"""The served page in a real browser: the alternatives of a beam, and two runs side by side."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser.conftest import Visit
from tests.browser.test_serve_page import SOURCE, ask, finished, of, tokens
from tests.serve import made
from tests.serve.serving import serving


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (19, 23, 3), dtype=np.uint8)).save(path)
    return path


def answer(page: Any) -> None:
    page.get_by_role("button", name="Answer", exact=True).click()


def searched(page: Any, *wanted: Any) -> None:
    """The alternatives of a beam of three are those, and that of the third is seen."""
    page.get_by_label("Width of the beam").fill("3")
    page.get_by_role("button", name="Search").click()
    finished(page, "3 alternatives")
    found = page.locator("#list button")
    assert [each.strip() for each in found.locator("bdi").all_text_contents()] == [each.text.strip() for each in wanted]
    before = page.locator("#view .regard-place").screenshot()
    found.nth(2).click()
    finished(page, "that of the alternative")
    assert [each.get_attribute("aria-pressed") for each in found.all()] == ["false", "false", "true"]
    page.get_by_role("button", name="Table", exact=True).click()
    assert page.locator("#view tbody th").all_inner_texts() == [
        *(each for each in wanted[2].tokens if each != "</s>"),
        *(["</s>"] if wanted[2].finished else []),
    ]
    page.get_by_role("button", name="Matrix", exact=True).click()
    assert page.locator("#view .regard-place").screenshot() != before


def test_alternatives_of_a_translation(visit: Visit):
    run = made.translator()
    (wanted,) = run.predict([SOURCE], beam=3, n_best=3)
    with serving(of(run)) as address:
        page = visit(address)
        ask(page)
        finished(page)
        searched(page, wanted, *wanted.alternatives)


def test_alternatives_of_what_follows_a_prompt(visit: Visit):
    run = made.writer()
    (wanted,) = run.predict(["the house"], tokens=4, beam=3, n_best=3)
    with serving(of(run)) as address:
        page = visit(address)
        page.get_by_label("Beginning of the text").fill("the house")
        page.get_by_text("How it is written").click()
        page.get_by_label("Temperature").fill("")
        page.get_by_label("Tokens", exact=True).fill("4")
        answer(page)
        finished(page)
        searched(page, wanted, *wanted.alternatives)


def test_alternatives_of_a_caption(visit: Visit, picture: Path):
    run = made.teller()
    (wanted,) = run.predict([picture], beam=3, n_best=3)
    with serving(of(run)) as address:
        page = visit(address)
        page.get_by_label("Image").set_input_files(picture)
        answer(page)
        finished(page)
        searched(page, wanted, *wanted.alternatives)


def test_two_runs_side_by_side(visit: Visit):
    """Beside a run stand those of its kind; each half has the answer and the picture of one of them."""
    runs = {"small": made.translator(), "wide": made.translator("transformer")}
    with serving(*(of(run, name) for name, run in runs.items()), of(made.critic(), "critic")) as address:
        page = visit(address)
        other = page.get_by_label("Compare with")
        assert other.locator("option").all_inner_texts() == ["no other run", "wide"]
        ask(page)
        finished(page)
        assert len(tokens(page)) > 0
        other.select_option("wide")  # the same is asked again
        finished(page, "small and wide, side by side")
        assert tokens(page) == []
        said = [each.inner_text() for each in page.locator("#plain .two > span > span").all()]
        assert said == [run.predict([SOURCE], beam=1)[0].text for run in runs.values()]
        assert page.locator("#view .regard-panel").count() == 2
        chosen = page.locator("#view .regard-panel").get_by_label("Lookups").locator("option:checked")
        assert chosen.all_inner_texts() == ["small", "wide"]
        page.get_by_label("norms").check()
        page.locator("#view option", has_text="norms").first.wait_for(state="attached")
        finished(page, "side by side")
        page.get_by_label("Map", exact=True).first.select_option(label="norms")
        ask(page, "ein Baum")
        finished(page, "side by side")
        page.locator("#view").get_by_text("norms").nth(1).wait_for(state="attached")
        maps = page.get_by_label("Map", exact=True).locator("option:checked")
        assert maps.all_inner_texts() == ["norms", "norms"]
        other.select_option("")
        finished(page)
        assert page.locator("#view .regard-panel").count() == 1
        page.get_by_label("Run", exact=True).select_option("critic")
        assert other.is_hidden()
        page.get_by_label("Run", exact=True).select_option("wide")
        assert other.locator("option").all_inner_texts() == ["no other run", "small"]


def test_two_runs_that_tell_classes(visit: Visit, picture: Path):
    with serving(of(made.beholder(), "one"), of(made.beholder(), "two"), of(made.teller(), "teller")) as address:
        page = visit(address)
        page.get_by_label("Image").set_input_files(picture)
        page.get_by_label("Compare with").select_option("two")
        answer(page)
        finished(page, "one and two, side by side")
        assert page.locator("#plain .two meter").count() == 4
        assert page.locator("#view .regard-picture").count() == 2
        page.get_by_label("Run", exact=True).select_option("teller")
        assert page.get_by_label("Compare with").is_hidden()


def test_what_one_of_two_runs_cannot_show_is_said(visit: Visit):
    with serving(of(made.translator("transformer"), "wide"), of(made.translator(), "small")) as address:
        page = visit(address)
        page.get_by_label("Compare with").select_option("small")
        page.get_by_label("rollout").check()
        ask(page)
        page.locator("#status.bad", has_text="small: there is no rollout of this run's model").wait_for()
