"""Recipes learn what they learned before, digit by digit, and runs of before are as good as new.

Sums of floating-point numbers depend on the processor, PyTorch and whether there is a C++ compiler. Where these are
what `tests/witness.json` was written on, everything is compared exactly. Elsewhere losses and scores are within
five ten-thousandths (instructions for other vectors change the seventh digit, which thirty updates amplify), and
figures are not compared: the last digit may turn a choice that they follow from.
"""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.code.tree import SOURCE
from tests.witness.cases import CASES
from tests.witness.record import ASKED, machine, old_run, recorded, trained

NEAR = 5e-4
WITNESS = recorded()
EXACT = WITNESS["machine"] == machine()


def check(found: Any, expected: Any) -> None:
    """Equal on the machine of the witness; elsewhere numbers that are near each other."""
    if EXACT:
        assert found == expected
    else:
        assert found == pytest.approx(expected, rel=NEAR, abs=NEAR)


def test_every_recipe_has_a_witness():
    shipped = {path.stem for path in (SOURCE / "runs" / "recipes").glob("*.yaml")}
    assert shipped == CASES.keys() == WITNESS["recipes"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CASES)
def test_the_first_updates_of_a_recipe(recipe: str, tmp_path: Path):
    found, expected = trained(recipe, tmp_path), WITNESS["recipes"][recipe]
    assert len(found["losses"]) == 30
    assert all(map(math.isfinite, found["losses"]))
    check(found["losses"], expected["losses"])
    assert found["figures"].keys() == expected["figures"].keys()
    if EXACT:
        assert found["figures"] == expected["figures"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_an_old_run_is_as_good_as_new(name: str, tmp_path: Path):
    found, expected = old_run(name, tmp_path), WITNESS["runs"][name]
    for answer, other in zip(found["answers"], expected["answers"], strict=True):
        assert {**answer, "score": 0} == {**other, "score": 0}
        check(answer["score"], other["score"])
    assert found["evaluated"] == expected["evaluated"]
    assert found["again"] == expected["again"]
    assert [line.split(": ")[2] for line in found["resumed"]["changes"]] == ["configuration.training.steps"]
    check(found["resumed"]["losses"], expected["resumed"]["losses"])
    if EXACT:
        assert found["resumed"] == expected["resumed"]
