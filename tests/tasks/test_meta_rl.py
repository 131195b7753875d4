"""Acting in new environments: it learns in seconds, reports its actions, and refuses what does not fit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.bandits import RandomAgent
from regard import load
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.meta_rl import MetaRL, MetaRLRun, act, compute_metrics
from regard.tasks.options import TextPrediction

QUICK = [
    "data={kind: bandits, arms: 2, pulls: 8, train: 6400, valid: 100, test: 400}",
    "model={name: snail, width: 8, filters: 4}",
    "training.steps=100",
    "training.batch_tokens=1024",
    "training.learning_rate=5e-3",
    "training.warmup=10",
    "training.validate_every=0",
    "training.threads=1",
]


def config(*settings: str) -> MetaRL:
    found = run_file.read(path_of("bandits"), [*QUICK, *settings])
    assert isinstance(found, MetaRL)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("acting") / "run"
    launch.train(config(), out)
    return out


def opened(folder: Path) -> MetaRLRun:
    return load(folder, "cpu", task=MetaRLRun)


def test_it_learns_to_pull_the_better_arm(folder: Path):
    result = json.loads((folder / "result.json").read_text())
    uniform = compute_metrics(RandomAgent(2), config().data.tests(), torch.device("cpu"))
    # Without knowing anything, half of the mean difference of two arms is lost at each of eight pulls.
    assert uniform["regret"] == pytest.approx(8 / 6, abs=0.1)
    assert result["test/regret"] < 0.75 * uniform["regret"]
    assert result["test/late-share"] > uniform["late-share"] + 5


def test_figures_are_those_of_what_was_done(folder: Path):
    run = opened(folder)
    environments = run.config.data.sample_seeded(50, "x")
    found = run.evaluate([environments])
    done = act(run.model, environments, torch.Generator().manual_seed(1))
    best = environments.means.amax(-1)
    lost = best[:, None] - environments.means.gather(1, done.actions)
    assert found["regret"] == pytest.approx(lost.sum(1).mean().item(), rel=1e-5)
    assert found["standard-error"] == pytest.approx(lost.sum(1).std(correction=0).item() / 50**0.5, rel=1e-4)
    assert found["reward"] == pytest.approx(done.rewards.sum(1).mean().item(), rel=1e-5)
    assert found["share"] == pytest.approx(100 * (1 - lost.sum() / (8 * best.sum())).item(), rel=1e-5)
    assert found["late-share"] == pytest.approx(100 * (1 - lost[:, -1].sum() / best.sum()).item(), rel=1e-5)


def test_one_pass_tells_the_probabilities_that_it_acted_by(folder: Path):
    run = opened(folder)
    environments = run.config.data.sample_seeded(7, "x")
    done = act(run.model, environments, torch.Generator().manual_seed(1))
    state, steps = run.model.start(7), []
    for inputs in done.inputs.unbind(1):
        logits, state = run.model.step(inputs, state)
        steps.append(logits)
    torch.testing.assert_close(run.model(done.inputs)[0], torch.stack(steps, 1), rtol=1e-4, atol=1e-5)


def test_what_it_looked_at(folder: Path, tmp_path: Path):
    run = opened(folder)
    attribution = run.attribute("0.9 0.1")
    done, looked = attribution.prediction, attribution.weights
    assert isinstance(done, TextPrediction)
    values = done.values
    assert looked.weights.shape == (8, 8)
    np.testing.assert_allclose(looked.weights.sum(-1), 1, rtol=1e-5)
    assert not np.triu(looked.weights, 1).any()
    assert looked.target == tuple(map(str, values["actions"]))
    assert looked.source[0] == "begin"
    attribution.write(tmp_path / "a.png")
    (again,) = run.predict(["0.9 0.1"])
    assert again == done
    assert values["regret"] == pytest.approx(0.8 * values["actions"].count(2), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["data.arms=0"], "--set data.arms: got 0, expected a number >= 2"),
        (["learning.discount=1.5"], "--set learning.discount: got 1.5, expected a number <= 1"),
        (["training.label_smoothing=0.1"], "label_smoothing is not for this task"),
    ],
)
def test_settings_that_cannot_be(settings: list[str], said: str, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        launch.train(config(*settings), tmp_path / "run")
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()
