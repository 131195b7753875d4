"""Cases of a machine with a tape are measured beyond the sizes of training."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import copy, report
from regard.models.turing_machine import TuringMachineConfig
from regard.runs import train as launch
from regard.tasks.algorithmic.config import Algorithmic
from regard.tasks.algorithmic.data import Recall, RepeatCopy
from regard.training.settings import Training

FEW: dict[str, Any] = {"train": 50, "valid": 5, "test": 5, "width": 2}
CASES = {
    "repeat-copy": (RepeatCopy(**FEW, most=2, most_repeats=2), ["3 x 1", "2 x 5"]),
    "recall": (Recall(**FEW, most=3), ["2", "5"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_case(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    data, columns = CASES[case]
    asked: list[str] = []

    def trained(recipe: str, name: str, settings: list[str]) -> Path:
        asked.extend([recipe, name, *settings])
        model = TuringMachineConfig(controller="feed-forward", width=5, rows=8, tape_width=3)
        training = Training(steps=1, batch_tokens=128, validate_every=0)
        launch.train(Algorithmic(data=data, model=model, training=training), tmp_path / "run")
        return tmp_path / "run"

    for name, value in {"SEEDS": {case: (1,)}, "REPEATS": ((3, 1), (2, 5)), "LENGTHS": {"recall": (2, 5)}}.items():
        monkeypatch.setattr(copy, name, value)
    monkeypatch.setattr(report, "trained", trained)
    copy.main(case)
    head, _, row = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert asked[:2] == [case, f"{case}-1"]
    assert "data.seed=1" in asked
    assert head == f"| case | seed | exact match | seconds | {' | '.join(f'bits at {each}' for each in columns)} |"
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == [case, "1"]
    assert all(float(cell) > 0 for cell in cells[-2:])


def test_sequences_are_as_long_as_is_said():
    found = copy.beyond(RepeatCopy(width=3), "repeat-copy")
    assert {name: {len(each.target) for each in some} for name, some in found.items()} == {
        f"{length} x {times}": {length * times + 1} for length, times in copy.REPEATS
    }
    recalled = copy.beyond(Recall(width=3), "recall")
    assert {name: {len(each) for each in some} for name, some in recalled.items()} == {
        str(items): {4 * items + 8} for items in copy.LENGTHS["recall"]
    }


def test_a_case_that_is_none_is_refused():
    with pytest.raises(SystemExit, match="no case: 9; expected some of 8, 20, repeat-copy, recall"):
        copy.main("9")
