"""Validation examples are a random or stratified share of the training set, never rows at equal distances."""

from collections import Counter
from pathlib import Path

import pytest

from regard.data.splits import choose_from_strata, choose_groups
from regard.errors import InputError
from regard.tasks.classification.data import LabelledTables


def table(folder: Path, labels: list[str]) -> str:
    path = folder / "a.csv"
    path.write_text("text,label\n" + "".join(f"text {n},{label}\n" for n, label in enumerate(labels)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("period", [2, 5, 10])
def test_classes_in_turn_are_all_held_out(period: int, tmp_path: Path):
    data = LabelledTables(train=table(tmp_path, [f"class {n % period}" for n in range(400)]))
    splits = data.load()
    assert len(splits.valid) == 40
    assert Counter(example.label for example in splits.valid) == {f"class {n}": 40 // period for n in range(period)}
    assert data.load() == splits
    assert LabelledTables(train=str(data.train), split_seed=2).load().valid != splits.valid


def test_the_only_row_of_a_class_stays_in_training():
    strata = ["a"] * 30 + ["b"] * 30 + ["single"]
    for seed in range(20):
        assert 60 not in choose_from_strata(strata, 0.1, seed)


def test_numbers_are_held_out_over_their_range():
    rows = choose_from_strata([float(n) for n in range(100)], 0.1, 1)
    assert [row // 10 for row in rows] == list(range(10))


def test_groups_stay_together():
    groups = [n // 3 for n in range(60)]
    rows = choose_groups(groups, 0.2, 1)
    assert len(rows) == 12
    assert {groups[row] for row in rows}.isdisjoint(group for row, group in enumerate(groups) if row not in rows)


def test_too_few_examples(tmp_path: Path):
    with pytest.raises(InputError, match=r"a.csv: 1 rows are too few to hold some out; give data.valid"):
        LabelledTables(train=table(tmp_path, ["a"])).load()
