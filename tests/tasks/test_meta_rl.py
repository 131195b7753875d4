"""Acting in new environments: it learns in seconds, reports its actions, and refuses what does not fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.bandits import RandomAgent
from regard import load
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.meta_rl import (
    ActionPrediction,
    MetaRL,
    MetaRLRun,
    act,
    compute_metrics,
    learn_from_regrets,
    learn_from_rewards,
    setup,
)

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
SMALL = "data={kind: processes, states: 3, actions: 2, episodes: 2, horizon: 3, train: 640, valid: 7, test: 11}"


def config(*settings: str, recipe: str = "bandits") -> MetaRL:
    found = run_file.read(path_of(recipe), [*QUICK, *settings])
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
    uniform = compute_metrics(RandomAgent(2), config().data.make_batches(400, "test"), torch.device("cpu"))
    # Without knowing anything, half of the mean difference of two arms is lost at each of eight pulls.
    assert uniform["regret"] == pytest.approx(8 / 6, abs=0.1)
    assert result["test/regret"] < 0.75 * uniform["regret"]
    assert result["test/late-share"] > uniform["late-share"] + 5


def test_it_learns_from_drawn_rewards_alone(tmp_path: Path):
    learning = "learning={signal: reward, entropy: 0.02, entropy_end: 0, trace: 0.9}"
    more = ("training.steps=150", "training.batch_tokens=4096", "training.learning_rate=1e-2")
    result = launch.train(config(learning, *more), tmp_path / "run")
    assert result["test/regret"] < 0.75 * 8 / 6  # as above
    assert result["test/late-share"] > 80


def test_what_cannot_be_known_outside_is_read_for_regrets_alone(tmp_path: Path):
    task: Any = setup(config(), RunDirectory.create(tmp_path / "run"), 1).objective
    done = act(task.actor, task.batch(0, task.batches(0)[0]))
    hidden = replace(done, regrets=torch.full_like(done.regrets, torch.nan))
    logits, guesses = task.actor(done.inputs)
    assert learn_from_rewards(logits, guesses, hidden, task.config.learning).isfinite()
    assert learn_from_regrets(logits, guesses, done, task.config.learning).isfinite()
    assert learn_from_regrets(logits, guesses, hidden, task.config.learning).isnan()


def test_figures_are_those_of_what_was_done(folder: Path):
    run = opened(folder)
    (environments,) = run.config.data.make_batches(50, "x")
    found = run.evaluate([environments])
    done = act(run.model, environments, torch.Generator().manual_seed(1))
    best = environments.means[:, 0].amax(-1)
    lost = best[:, None] - environments.means[:, 0].gather(1, done.actions)
    assert found["regret"] == pytest.approx(lost.sum(1).mean().item(), rel=1e-5)
    assert found["standard-error"] == pytest.approx(lost.sum(1).std(correction=0).item() / 50**0.5, rel=1e-4)
    assert found["reward"] == pytest.approx(done.rewards.sum(1).mean().item(), rel=1e-5)
    assert found["share"] == pytest.approx(100 * (1 - lost.sum() / (8 * best.sum())).item(), rel=1e-5)
    assert found["late-share"] == pytest.approx(100 * (1 - lost[:, -1].sum() / best.sum()).item(), rel=1e-5)


def test_one_pass_tells_the_probabilities_that_it_acted_by(folder: Path):
    run = opened(folder)
    (environments,) = run.config.data.make_batches(7, "x")
    done = act(run.model, environments, torch.Generator().manual_seed(1))
    state, steps = run.model.start(7), []
    for inputs in done.inputs.unbind(1):
        logits, state = run.model.step(inputs, state)
        steps.append(logits)
    torch.testing.assert_close(run.model(done.inputs)[0], torch.stack(steps, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["{name: snail, width: 5, filters: 3}", "{name: gru, width: 7}"])
@pytest.mark.parametrize("data", [SMALL, "data={kind: bandits, arms: 3, pulls: 6, train: 640, valid: 7, test: 11}"])
def test_both_kinds_train_with_both_models(model: str, data: str, tmp_path: Path):
    quick = ("training.steps=2", "training.batch_tokens=64", "training.warmup=0")
    found = launch.train(config(data, f"model={model}", *quick), tmp_path / "run")
    assert 0 < found["test/regret"] < 100
    assert found["test/share"] < 100


def test_batches_are_functions_of_seed_epoch_and_index(tmp_path: Path):
    task: Any = setup(config(), RunDirectory.create(tmp_path / "run"), 1).objective
    one, other = (task.batch(3, task.batches(3)[1]) for _ in range(2))
    assert torch.equal(one.means, other.means)
    assert one.means.shape == (128, 1, 2)
    assert not torch.equal(task.batch(4, task.batches(3)[1]).means, one.means)


def test_what_it_looked_at(folder: Path):
    run = opened(folder)
    attribution = run.attribute("0.9 0.1")
    done, looked = attribution.prediction, attribution.weights
    assert isinstance(done, ActionPrediction)
    assert looked.weights.shape == (8, 8)
    np.testing.assert_allclose(looked.weights.sum(-1), 1, rtol=1e-5)
    assert not np.triu(looked.weights, 1).any()
    assert looked.target == tuple(map(str, done.actions))
    assert looked.source[0] == "begin"
    (again,) = run.predict(["0.9 0.1"])
    assert again == done
    assert done.regret == pytest.approx(0.8 * done.actions.count(2), rel=1e-5)
    assert set(done.places) == {1}


def test_commands(regard, folder: Path, tmp_path: Path):
    code, output, _ = regard("predict", str(folder), "0.9 0.1", "--json")
    found = json.loads(output)
    assert (code, found["environment"], len(found["actions"])) == (0, "0.9 0.1", 8)
    code, output, _ = regard("show", str(folder), "0.9 0.1", "--out", str(tmp_path / "a.png"))
    assert (code, output.splitlines()[0]) == (0, " ".join(map(str, found["actions"])))
    assert (tmp_path / "a.png").stat().st_size > 1000
    code, output, _ = regard("evaluate", str(folder), "--json")
    assert (code, json.loads(output)["regret"]) == (
        0,
        pytest.approx(json.loads((folder / "result.json").read_text())["test/regret"], rel=1e-4),
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "{}", "0.9"), "text 1: '0.9'; expected 2 probabilities"),
        (
            ("predict", "{}", "0.9 0.1", "--beam", "2"),
            "option beam is not supported where a run of the task",
        ),
        (
            ("show", "{}", "0.9 0.1", "--out", "x.png", "--beam", "2"),
            "the option beam is not supported where a run of the task meta-rl",
        ),
        (("evaluate", "{}", "file"), "a run of the task meta-rl is scored on its own test set only"),
        (("generate", "{}", "1"), "does not continue prompts, but one of the recipe characters-gpt2 does"),
    ],
)
def test_commands_refuse(regard, folder: Path, arguments: tuple[str, ...], said: str):
    code, _, errors = regard(*(each.format(folder) for each in arguments))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["data.arms=0"], "--set data.arms: got 0, expected a number >= 2"),
        (["data.pulls=0"], "--set data.pulls: got 0, expected a number >= 1"),
        ([SMALL, "data.horizon=0"], "--set data.horizon: got 0, expected a number >= 1"),
        ([SMALL, "data.states=0"], "--set data.states: got 0, expected a number >= 1"),
        (["learning.discount=1.5"], "--set learning.discount: got 1.5, expected a number <= 1"),
        (["learning.signal=rewards"], "--set learning.signal: got 'rewards', expected regret or reward"),
        (["training.batch_tokens=7"], "example 0 has 8 tokens, more than a batch of 7"),
        (["training.label_smoothing=0.1"], "not for actions"),
    ],
)
def test_settings_that_cannot_be(settings: list[str], said: str, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        launch.train(config(*settings), tmp_path / "run")
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_recurrent_model_has_nothing_to_show(tmp_path: Path):
    launch.train(config("model={name: gru, width: 5}", "training.steps=1", "training.warmup=0"), tmp_path / "run")
    with pytest.raises(InputError, match="a model gru does not attend to anything"):
        opened(tmp_path / "run").attribute("0.5 0.5")


def test_no_test_set_and_no_list(folder: Path):
    with pytest.raises(InputError, match="there is no test set"):
        opened(folder).evaluate([])
    with pytest.raises(TypeError, match="examples is one str"):
        opened(folder).predict("0.9 0.1")
