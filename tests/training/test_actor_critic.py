"""The actor-critic's loss against sums written out in NumPy, and its gradient against the enumeration of all that can
happen."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.tasks.meta_rl import (
    ActorCritic,
    compute_action_values,
    compute_advantages,
    compute_regret_loss,
    compute_reward_loss,
)

SETTINGS = ActorCritic(discount=0.9, trace=0.7, entropy=0.3, value=0.2)


def reference(rewards: np.ndarray, values: np.ndarray, discount: float, trace: float) -> np.ndarray:
    """Schulman 2016, equations 11 and 16, with two loops."""
    steps = len(rewards)
    later = [*values[1:], 0.0]
    errors = [rewards[t] + discount * later[t] - values[t] for t in range(steps)]
    return np.array([sum((discount * trace) ** (k - t) * errors[k] for k in range(t, steps)) for t in range(steps)])


def given() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, values, actions, and rewards of each action."""
    logits, rewards = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(2, 5, 3, dtype=torch.float64)
    return logits, torch.randn(2, 5, dtype=torch.float64), torch.randint(3, (2, 5)), rewards


def test_advantages():
    _, values, _, rewards = given()
    found = compute_advantages(rewards[..., 0], values, 0.9, 0.7)
    for row in range(2):
        wanted = reference(rewards[row, :, 0].numpy(), values[row].numpy(), 0.9, 0.7)
        np.testing.assert_allclose(found[row].numpy(), wanted, rtol=1e-12)


def test_advantages_at_the_ends_of_the_trace():
    _, values, _, rewards = given()
    had = rewards[..., 0]
    undiscounted = had.flip(1).cumsum(1).flip(1) - values
    torch.testing.assert_close(compute_advantages(had, values, 1.0, 1.0), undiscounted, rtol=1e-12, atol=1e-12)
    after = torch.nn.functional.pad(values[:, 1:], (0, 1))
    one_step = had + 0.9 * after - values
    torch.testing.assert_close(compute_advantages(had, values, 0.9, 0.0), one_step, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(compute_advantages(had, values, 0.0, 1.0), had - values, rtol=1e-12, atol=1e-12)


def test_the_loss():
    logits, guesses, actions, rewards = given()
    wanted = 0.0
    for row in range(2):
        chances = np.exp(logits[row].numpy())
        chances /= chances.sum(-1, keepdims=True)
        expected = (chances * rewards[row].numpy()).sum(-1)
        taken = np.array([rewards[row, t, actions[row, t]].item() for t in range(5)])
        gains = reference(taken, expected + guesses[row].numpy(), 0.9, 0.7)
        for t in range(5):
            later = gains[t] - taken[t] + expected[t]
            wanted += 0.2 * later**2 / 2 - expected[t] - np.log(chances[t, actions[row, t]]) * later
            wanted -= 0.3 * -float(chances[t] @ np.log(chances[t]))
    assert compute_regret_loss(logits, guesses, actions, rewards, SETTINGS).item() == pytest.approx(wanted, rel=1e-12)


def test_one_step_goes_where_the_expected_reward_rises():
    logits = torch.randn(1, 1, 5, dtype=torch.float64, requires_grad=True)
    rewards = torch.rand(1, 1, 5, dtype=torch.float64)
    chances = logits.softmax(-1)
    (wanted,) = torch.autograd.grad((chances * rewards).sum(), logits)
    plain = ActorCritic(entropy=0.0, value=0.0)
    found = torch.zeros_like(logits)
    for action in range(5):  # whatever was done, weighed by how likely that is
        total = compute_regret_loss(
            logits, torch.full((1, 1), 0.3, dtype=torch.float64), torch.tensor([[action]]), rewards, plain
        )
        found -= chances[0, 0, action].detach() * torch.autograd.grad(total, logits)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_gradient_is_expected_to_be_that_of_the_return():
    """Two steps; what the second one gives depends on what was done at the first, and so does its policy."""
    first = torch.randn(1, 3, dtype=torch.float64, requires_grad=True)
    second = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    gives, then = torch.randn(3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    chances = first.softmax(-1)[0]
    value = (chances * (gives + (second.softmax(-1) * then).sum(-1))).sum()
    wanted = torch.autograd.grad(value, (first, second))
    found = [torch.zeros_like(first), torch.zeros_like(second)]
    plain = ActorCritic(discount=1.0, trace=1.0, entropy=0.0, value=0.0)
    for action, other in product(range(3), repeat=2):
        logits = torch.stack([first[0], second[action]])[None]
        values = torch.tensor([[0.7, -0.2 + action]], dtype=torch.float64)  # as wrong as may be
        rewards = torch.stack([gives, then[action]])[None]
        total = compute_regret_loss(logits, values, torch.tensor([[action, other]]), rewards, plain)
        likely = chances[action] * second.softmax(-1)[action, other]
        for part, gradient in zip(found, torch.autograd.grad(total, (first, second)), strict=True):
            part -= likely.detach() * gradient
    for part, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(part, exact, rtol=1e-12, atol=1e-12)


def test_the_loss_of_sampled_rewards():
    logits, values, actions, rewards = given()
    wanted = 0.0
    for row in range(2):
        chances = np.exp(logits[row].numpy())
        chances /= chances.sum(-1, keepdims=True)
        gains = reference(rewards[row, :, 0].numpy(), values[row].numpy(), 0.9, 0.7)
        for t in range(5):
            wanted += 0.2 * gains[t] ** 2 / 2 - np.log(chances[t, actions[row, t]]) * gains[t]
            wanted -= 0.3 * -float(chances[t] @ np.log(chances[t]))
    values.requires_grad_()
    found = compute_reward_loss(logits, values, actions, rewards[..., 0], SETTINGS)
    assert found.item() == pytest.approx(wanted, rel=1e-12)
    (towards,) = torch.autograd.grad(found, values)
    gains = compute_advantages(rewards[..., 0], values.detach(), 0.9, 0.7)
    torch.testing.assert_close(towards, -0.2 * gains, rtol=1e-12, atol=1e-12)


EVERYTHING = torch.tensor(list(product(range(2), repeat=10)))
"""All that can happen in two episodes of two steps: an action, whether it gave 1, the state after it, an action and
whether it gave 1; and once more. Each of the four actions stands behind what was known when it was chosen."""
KNOWN = (0, 3, 5, 8)


class Tiny:
    """Every course that a process of two states can take, with how likely it is; the policy is a number for each action
    and everything that can have been seen before it."""

    def __init__(self) -> None:
        means, leads = torch.rand(1, 2, 2).double(), torch.rand(1, 2, 2, 2).double()
        leads /= leads.sum(-1, keepdim=True)
        self.tables = [torch.randn(1 << known, 2, dtype=torch.float64, requires_grad=True) for known in KNOWN]
        guesses = [torch.randn(1 << known, dtype=torch.float64) for known in KNOWN]
        seen = [(EVERYTHING[:, :known] << torch.arange(known)).sum(-1) for known in KNOWN]
        self.logits, self.guesses = (
            torch.stack([table[past] for table, past in zip(tables, seen, strict=True)], 1)
            for tables in (self.tables, guesses)
        )
        self.actions, had = EVERYTHING[:, KNOWN], EVERYTHING[:, [known + 1 for known in KNOWN]]
        states = torch.stack([torch.zeros_like(had[:, 0]), EVERYTHING[:, 2]] * 2, 1)
        states[:, 3] = EVERYTHING[:, 7]
        self.rewards, expected = had.double(), means[0, states, self.actions]
        worth = compute_action_values(means, leads, 2)[0, [0, 1, 0, 1], states]
        self.regrets = worth.amax(-1, keepdim=True) - worth
        moved = leads[0, states[:, ::2], self.actions[:, ::2], states[:, 1::2]]
        taken = self.logits.softmax(-1).gather(-1, self.actions[..., None])[..., 0]
        gave = torch.where(had == 1, expected, 1 - expected)
        self.likely = taken.prod(1) * gave.prod(1) * moved.prod(1)


@pytest.mark.parametrize("signal", ["regret", "reward"])
def test_both_signals_are_expected_to_raise_the_reward(signal: str):
    """Of every course of a process, weighed by how likely it is, though the critic guesses anything."""
    tiny, plain = Tiny(), ActorCritic(discount=1.0, trace=1.0, entropy=0.0, value=0.0)
    assert tiny.likely.sum().item() == pytest.approx(1, rel=1e-12)
    wanted = torch.autograd.grad((tiny.likely * tiny.rewards.sum(1)).sum(), tiny.tables, retain_graph=True)
    logits = tiny.logits.detach().requires_grad_()
    if signal == "regret":
        total = compute_regret_loss(logits, tiny.guesses, tiny.actions, -tiny.regrets, plain)
    else:
        total = compute_reward_loss(logits, tiny.guesses, tiny.actions, tiny.rewards, plain)
    (each,) = torch.autograd.grad(total, logits)  # of one course nothing depends on another
    found = torch.autograd.grad(tiny.logits, tiny.tables, -each * tiny.likely.detach()[:, None, None])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        assert other.abs().max() > 1e-4


def test_guesses_learn_what_came_later():
    logits, guesses, actions, rewards = given()
    guesses.requires_grad_()
    compute_regret_loss(logits, guesses, actions, rewards, SETTINGS).backward()
    expected = (logits.softmax(-1) * rewards).sum(-1)
    taken = rewards.gather(-1, actions[..., None])[..., 0]
    later = compute_advantages(taken, expected + guesses.detach(), 0.9, 0.7) - taken + expected
    torch.testing.assert_close(guesses.grad, -0.2 * later, rtol=1e-12, atol=1e-12)


def test_without_a_discount_nothing_later_counts():
    logits, _, actions, rewards = given()
    logits.requires_grad_()
    plain = ActorCritic(discount=0.0, entropy=0.0)
    total = compute_regret_loss(logits, torch.zeros(2, 5, dtype=torch.float64), actions, rewards, plain)
    expected = (logits.softmax(-1) * rewards).sum()
    torch.testing.assert_close(total, -expected, rtol=1e-12, atol=1e-12)
    ours, wanted = (torch.autograd.grad(each, logits)[0] for each in (total, -expected))
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-12)


def test_settings_from_the_first_update_to_the_last():
    settings = ActorCritic(discount=0.8, entropy=0.5, entropy_end=0.1)
    found = [settings.at_update(update, 5) for update in range(1, 6)]
    assert [each.discount for each in found] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert [each.entropy for each in found] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1])
    assert settings.at_update(1, 1).entropy == 0.5
