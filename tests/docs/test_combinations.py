"""The guide's tables of combinations are those that running each combination gives."""

import inspect

import pytest

from docs.making import combinations
from regard.attention import align, history, scores
from regard.models.catalog import CAPTIONERS, MODELS
from tests.code.tree import ROOT

PAGE = (ROOT / "docs/guide/memory-and-lookup.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("made", [combinations.combinations, combinations.run_files])
@pytest.mark.slow
def test_the_page_has_the_table(made):
    assert f"\n\n{made()}\n\n" in PAGE, "put what `python -m docs.making.combinations` prints into the page"


@pytest.mark.parametrize(
    ("module", "base", "tried"),
    [
        (scores, scores.Score, combinations.SCORES),
        (align, align.Align, combinations.ALIGNMENTS),
        (history, history.History, combinations.HISTORIES),
    ],
)
def test_all_that_there_are_are_tried(module, base: type, tried: dict):
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, base)]
    missing = {each.__name__ for each in classes if not inspect.isabstract(each) and each not in tried}
    assert not missing, f"docs/making/combinations.py has no row for {missing}"
    assert set(tried) <= set(classes)


def test_every_model_of_a_run_file_is_named_with_a_reason():
    missing = {*MODELS, *CAPTIONERS, "pointer-network"} - {*combinations.REASONS, "pretrained"}
    assert not missing, f"docs/making/combinations.py has no reason for {missing}"
    rows = combinations.run_files().splitlines()[2:]
    assert {row.split("`")[1] for row in rows} == set(combinations.REASONS)
