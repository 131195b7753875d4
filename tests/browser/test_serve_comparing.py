"""The served page in a real browser: the alternatives of a beam, and two runs side by side."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser.conftest import Visit
from tests.browser.test_serve_page import SOURCE, finished, of, submit, tokens
from tests.serve import toys
from tests.serve.serving import serving


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (19, 23, 3), dtype=np.uint8)).save(path)
    return path


def answer(page: Any) -> None:
    page.get_by_role("button", name="Predict", exact=True).click()


def searched(page: Any, *expected: Any) -> None:
    """The alternatives of a beam of three are those, and that of the third is seen."""
    page.get_by_label("Beam size").fill("3")
    page.get_by_role("button", name="Run beam search").click()
    finished(page, "3 hypotheses")
    found = page.locator("#list button")
    assert [each.strip() for each in found.locator("bdi").all_text_contents()] == [
        each.text.strip() for each in expected
    ]
    before = page.locator("#view .regard-place").screenshot()
    found.nth(2).click()
    finished(page, "Attention of the alternative")
    assert [each.get_attribute("aria-pressed") for each in found.all()] == ["false", "false", "true"]
    first = page.locator('#view .regard-tabs [aria-pressed="true"]').inner_text()
    page.get_by_role("button", name="Table", exact=True).click()
    assert page.locator("#view tbody th").all_inner_texts() == [
        *({"<unk>": "\ufffd"}.get(each, each) for each in expected[2].tokens if each != "</s>"),
        *(["∎"] if expected[2].finished else []),
    ]
    page.locator("#view .regard-tabs").get_by_role("button", name=first, exact=True).click()
    assert page.locator("#view .regard-place").screenshot() != before


def test_alternatives_of_a_translation(visit: Visit):
    run = toys.translator()
    (expected,) = run.predict([SOURCE], beam=3, n_best=3)
    with serving(of(run)) as address:
        page = visit(address)
        submit(page)
        finished(page)
        searched(page, expected, *expected.alternatives)


def test_alternatives_of_a_continuation(visit: Visit):
    run = toys.language_model()
    (expected,) = run.predict(["the house"], tokens=4, beam=3, n_best=3)
    with serving(of(run)) as address:
        page = visit(address)
        page.get_by_label("Beginning of the text").fill("the house")
        page.get_by_text("Decoding options").click()
        page.get_by_label("Temperature").fill("")
        page.get_by_label("Tokens", exact=True).fill("4")
        answer(page)
        finished(page)
        searched(page, expected, *expected.alternatives)


def test_alternatives_of_a_caption(visit: Visit, picture: Path):
    run = toys.captioner()
    (expected,) = run.predict([picture], beam=3, n_best=3)
    with serving(of(run)) as address:
        page = visit(address)
        page.get_by_label("Image").set_input_files(picture)
        answer(page)
        finished(page)
        searched(page, expected, *expected.alternatives)


def test_two_runs_side_by_side(visit: Visit):
    """Beside a run stand those of its kind; each half has the answer and the picture of one of them."""
    runs = {"small": toys.translator(), "wide": toys.translator("transformer")}
    with serving(*(of(run, name) for name, run in runs.items()), of(toys.classifier(), "classifier")) as address:
        page = visit(address)
        other = page.get_by_label("Compare with")
        assert other.locator("option").all_inner_texts() == ["no other run", "wide"]
        submit(page)
        finished(page)
        assert len(tokens(page)) > 0
        other.select_option("wide")  # the same is asked again
        finished(page, "small and wide, side by side")
        assert tokens(page) == []
        texts = [each.inner_text() for each in page.locator("#plain .two > span > span").all()]
        assert texts == [run.predict([SOURCE], beam=1)[0].text for run in runs.values()]
        assert page.locator("#view .regard-panel").count() == 2
        chosen = page.locator("#view .regard-panel").get_by_label("Attention", exact=True).locator("option:checked")
        assert chosen.all_inner_texts() == ["small", "wide"]
        page.get_by_label("norms").check()
        page.locator("#view option", has_text="norms").first.wait_for(state="attached")
        finished(page, "side by side")
        page.get_by_label("Method", exact=True).first.select_option(label="norms")
        submit(page, "ein Baum")
        finished(page, "side by side")
        page.locator("#view").get_by_text("norms").nth(1).wait_for(state="attached")
        maps = page.get_by_label("Method", exact=True).locator("option:checked")
        assert maps.all_inner_texts() == ["norms", "norms"]
        other.select_option("")
        finished(page)
        assert page.locator("#view .regard-panel").count() == 1
        page.get_by_label("Run", exact=True).select_option("classifier")
        assert other.is_hidden()
        page.get_by_label("Run", exact=True).select_option("wide")
        assert other.locator("option").all_inner_texts() == ["no other run", "small"]


def test_two_classifiers(visit: Visit, picture: Path):
    with serving(of(toys.vit(), "one"), of(toys.vit(), "two"), of(toys.captioner(), "captioner")) as address:
        page = visit(address)
        page.get_by_label("Image").set_input_files(picture)
        page.get_by_label("Compare with").select_option("two")
        answer(page)
        finished(page, "one and two, side by side")
        assert page.locator("#plain .two meter").count() == 4
        assert page.locator("#view .regard-picture").count() == 2
        page.get_by_label("Run", exact=True).select_option("captioner")
        assert page.get_by_label("Compare with").is_hidden()


def test_a_map_that_one_of_two_runs_lacks_is_reported(visit: Visit):
    with serving(of(toys.translator("transformer"), "wide"), of(toys.translator(), "small")) as address:
        page = visit(address)
        page.get_by_label("Compare with").select_option("small")
        page.get_by_label("rollout").check()
        submit(page)
        page.locator("#status.bad", has_text="small: this run's model has no rollout").wait_for()
