"""The planted bugs fit the code."""

from tests.code.mutants import MUTANTS, PACKAGE


def test_every_bug_can_be_planted():
    unfit = [
        f"{mutant.name}: {mutant.file} has the text {count} times"
        for mutant in MUTANTS
        if (count := (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old)) != 1
    ]
    assert not unfit


def test_there_are_enough_and_names_are_unique():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


def test_bugs_change_the_code():
    assert [mutant.name for mutant in MUTANTS if mutant.old == mutant.new] == []
