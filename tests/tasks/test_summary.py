"""The summary of the data before training, for every task, and the data that it warns of or refuses."""

import json
from pathlib import Path

import pytest

from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.catalog import TASKS
from regard.tasks.summary import DataSummary
from tests.witness.cases import CASES


def summary_of(recipe: str, folder: Path, *settings: str) -> DataSummary:
    """The summary of a recipe with these settings, without training."""
    config = run_file.read(path_of(recipe), list(settings))
    with RunDirectory.create(folder / "run") as run:
        found = TASKS[config.task].setup(config, run, 1).data
    assert found is not None
    return found


def witnessed(recipe: str, folder: Path) -> list[str]:
    """The settings of a recipe for a test, and its files."""
    return [each for each in CASES[recipe].options(folder) if each != "--set"]


ONE_OF_EACH_TASK = (
    "dates translate-many language-gpt2 bert elmo classify entailment spans vit captions sorting copy few-shot bandits"
)


@pytest.mark.parametrize("recipe", ONE_OF_EACH_TASK.split())
def test_every_task_has_a_summary_of_its_data(recipe: str, tmp_path: Path):
    found = summary_of(recipe, tmp_path, *witnessed(recipe, tmp_path))
    assert found.rows["train"].count > found.rows["valid"].count > 0
    lines = found.lines()
    assert lines[0].startswith("train ")
    assert found.unit in lines[0]
    assert json.loads(json.dumps(found.to_json()))["unit"] == found.unit
    assert found.lengths or found.images
    assert not [warning for warning in found.warnings if "single training example" not in warning], recipe


@pytest.mark.parametrize(("recipe", "each"), [("classify", 0), ("bert", 0), ("vit", 50), ("few-shot", 10)])
def test_the_speed_counts_what_the_model_reads(recipe: str, each: int, tmp_path: Path):
    """Tokens of texts, positions of images, images of episodes: not classes or blanks."""
    config = run_file.read(path_of(recipe), witnessed(recipe, tmp_path))
    with RunDirectory.create(tmp_path / "run") as run:
        setup = TASKS[config.task].setup(config, run, 1)
    indices = setup.objective.batches(0)[0]
    batch = setup.objective.batch(0, indices)
    found = setup.objective.loss(setup.model, batch, 1, None)
    assert found.read == (each * len(indices) if each else int(batch.lengths.sum()))
