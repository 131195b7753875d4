"""The two scores meet both tasks with models of one size."""

from pathlib import Path

import pytest

from regard.experiments.learning import COMPARED_SCORES, TASKS, languages
from regard.experiments.sweep import Setting
from regard.runs import run_file
from regard.runs.recipes import path_of


def test_both_scores_meet_both_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trained = {}

    def train(self: Setting, recipe: str, name: str, given: list[str]) -> dict[str, float]:
        trained[name] = run_file.read(path_of(recipe), given)
        return {"test/exact-match": trained[name].training.steps / 10, "seconds": 1.0}

    monkeypatch.setattr(Setting, "train", train)
    finding = languages(Setting(tmp_path))
    assert len(finding.rows) == len(trained) == len(TASKS) * len(COMPARED_SCORES) * 3
    assert {(row[0], row[1]) for row in finding.rows} == {(task, score) for task in TASKS for score in COMPARED_SCORES}
    assert all(row[3] == row[2] / 10 for row in finding.rows)
    models = [config.model for config in trained.values()]
    sizes = {(model.name, model.width, model.embedding, model.layers, model.dropout) for model in models}
    assert sizes == {("luong", 128, 64, 1, 0.0)}
    assert {config.model.score for config in trained.values()} == set(COMPARED_SCORES)
