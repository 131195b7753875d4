"""Bandits and tabular processes against closed forms and against the enumeration of all policies in NumPy."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.tasks.meta_rl import (
    Bandits,
    Environments,
    Processes,
    compute_action_values,
)

PULLED = Bandits(arms=3, pulls=7)
SMALL = Processes(states=2, actions=3, episodes=5, horizon=2)


def small(count: int = 1) -> Environments:
    found = SMALL.sample_seeded(count, "some")
    means, leads = found.means.double(), found.transitions.double()
    return Environments(means, leads, compute_action_values(means, leads, 2), 5, 0.0)


def optimum(environments: Environments) -> torch.Tensor:
    """The expected reward of an episode under the best policy."""
    return environments.action_values[:, 0, 0].amax(-1)


def returns(each: Environments, policy: tuple[int, ...]) -> float:
    """The expected reward of an episode under a policy: an action for each step and state, in NumPy."""
    means, leads = each.means[0].numpy(), each.transitions[0].numpy()
    states = means.shape[0]
    at, total = np.eye(states)[0], 0.0
    for step in range(each.horizon):
        chosen = policy[step * states : (step + 1) * states]
        total += sum(at[state] * means[state, action] for state, action in enumerate(chosen))
        at = np.stack([at[state] * leads[state, action] for state, action in enumerate(chosen)]).sum(0)
    return total


def test_the_optimum_is_the_best_of_all_policies():
    each = small()
    best = max(returns(each, policy) for policy in product(range(3), repeat=4))
    assert optimum(each).item() == pytest.approx(best, rel=1e-12)


def test_regrets_add_up_to_what_a_policy_falls_behind():
    each = small()
    losses = each.action_values.amax(-1, keepdim=True) - each.action_values
    means, leads, lost = each.means[0], each.transitions[0].numpy(), losses[0].numpy()
    for policy in ((0, 1, 2, 0), (2, 2, 1, 1)):
        at, missed = np.eye(2)[0], 0.0
        for step in range(2):
            chosen = policy[2 * step : 2 * step + 2]
            missed += sum(at[state] * lost[step, state, action] for state, action in enumerate(chosen))
            at = np.stack([at[state] * leads[state, action] for state, action in enumerate(chosen)]).sum(0)
        assert optimum(each).item() - returns(each, policy) == pytest.approx(missed, rel=1e-12)
    assert means.shape == (2, 3)


def test_a_bandit_has_one_state_and_its_regret_is_that_of_the_arm():
    each = PULLED.sample_seeded(11, "a")
    states, rewards, regrets = each.step(torch.zeros(11, dtype=torch.int64), torch.arange(11) % 3, 0)
    probabilities = each.means[:, 0]
    assert PULLED.steps == 7
    torch.testing.assert_close(regrets, probabilities.amax(-1, keepdim=True) - probabilities)
    torch.testing.assert_close(optimum(each), probabilities.amax(-1))
    assert not states.any()
    assert set(rewards.tolist()) <= {0.0, 1.0}


def test_what_is_drawn_is_distributed_as_it_should_be():
    arms = Bandits(arms=5).sample_seeded(20_000, "arms").means
    assert arms.mean().item() == pytest.approx(1 / 2, abs=0.005)
    assert arms.var().item() == pytest.approx(1 / 12, abs=0.002)
    assert arms.amax(-1).mean().item() == pytest.approx(5 / 6, abs=0.005)
    found = Processes(states=7, actions=3).sample_seeded(2_000, "processes")
    torch.testing.assert_close(found.transitions.sum(-1), torch.ones(2_000, 7, 3))
    assert found.transitions.min() >= 0
    assert found.transitions.var().item() == pytest.approx((1 / 7) * (6 / 7) / 8, rel=0.03)  # flat Dirichlet
    assert (found.means.mean().item(), found.means.var().item()) == pytest.approx((1, 1), abs=0.03)


def test_rewards_and_moves_are_drawn_as_the_process_says():
    one = SMALL.sample_seeded(1, "one")
    means, leads = (part.expand(40_000, *part.shape[1:]) for part in (one.means, one.transitions))
    many = Environments(means, leads, compute_action_values(means, leads, 2), 5, 1.0)
    now = torch.zeros(40_000, dtype=torch.int64)
    states, rewards, _ = many.step(now, torch.full((40_000,), 1), 0, torch.Generator().manual_seed(7))
    assert rewards.mean().item() == pytest.approx(one.means[0, 0, 1].item(), abs=0.03)
    assert rewards.var().item() == pytest.approx(1, abs=0.03)
    assert states.double().mean().item() == pytest.approx(one.transitions[0, 0, 1, 1].item(), abs=0.02)
    pulled = Bandits(arms=2).read("0.25 1", "text 1")
    arms = replace(
        pulled,
        means=pulled.means.expand(40_000, 1, 2),
        transitions=pulled.transitions.expand(40_000, 1, 2, 1),
        action_values=pulled.action_values.expand(40_000, 1, 1, 2),
    )
    _, rewards, _ = arms.step(now, now, 0)
    assert rewards.mean().item() == pytest.approx(0.25, abs=0.01)


def test_what_an_agent_sees():
    each, now, actions = small(2), torch.zeros(2, dtype=torch.int64), torch.tensor([2, 1])
    first = each.observe(now, 0)
    assert first.shape == (2, SMALL.observation_width)
    assert first[0].tolist() == [1, 0, 0, 0, 0, 0, 1]
    states, rewards, _ = each.step(now, actions, 0)
    observation = each.observe(states, 1, actions, rewards)
    torch.testing.assert_close(observation[:, :2], torch.eye(2, dtype=torch.float64)[states])
    torch.testing.assert_close(observation[:, 2:5], torch.eye(3, dtype=torch.float64)[actions])
    torch.testing.assert_close(observation[:, 5], each.means[[0, 1], 0, actions])
    assert not observation[:, 6].any()
    states, rewards, _ = each.step(states, actions, 1)
    assert not states.any()  # a new episode, in the first state
    assert each.observe(states, 2, actions, rewards)[:, 6].all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Bandits(train=0), "bandits: train is 0; expected 1 to"),
        (lambda: Bandits(arms=2).read("0.2 0.3 0.4", "text 1"), "text 1: '0.2 0.3 0.4'; expected 2 probabilities"),
        (lambda: Bandits(arms=2).read("0.2 1.5", "text 1"), "expected 2 probabilities"),
        (lambda: Bandits(arms=2).read("0.2 nan", "text 1"), "expected 2 probabilities"),
        (lambda: Bandits(arms=2).read("a b", "text 1"), "expected 2 probabilities"),
        (lambda: SMALL.read("-1", "text 2"), "text 2: '-1'; expected a whole number, the seed"),
        (lambda: SMALL.read("9" * 30, "text 2"), "expected a whole number, the seed"),
        (lambda: SMALL.read("", "text 2"), "expected a whole number, the seed"),
    ],
)
def test_what_cannot_be(make: Any, said: str):
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)
