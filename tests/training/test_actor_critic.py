"""The actor-critic's loss against sums written out in NumPy, and its gradient against the enumeration of all that can
happen."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.tasks.meta_rl import ActorCritic, compute_advantages, compute_loss

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
    assert compute_loss(logits, guesses, actions, rewards, SETTINGS).item() == pytest.approx(wanted, rel=1e-12)


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
        first = means + torch.einsum("bsan,bn->bsa", leads, means.amax(-1))
        worth = torch.stack([first, means], 1)[0, [0, 1, 0, 1], states]
        self.regrets = worth.amax(-1, keepdim=True) - worth
        moved = leads[0, states[:, ::2], self.actions[:, ::2], states[:, 1::2]]
        taken = self.logits.softmax(-1).gather(-1, self.actions[..., None])[..., 0]
        gave = torch.where(had == 1, expected, 1 - expected)
        self.likely = taken.prod(1) * gave.prod(1) * moved.prod(1)


def test_the_loss_is_expected_to_raise_the_reward():
    """Of every course of a process, weighed by how likely it is, though the critic guesses anything."""
    tiny, plain = Tiny(), ActorCritic(discount=1.0, trace=1.0, entropy=0.0, value=0.0)
    assert tiny.likely.sum().item() == pytest.approx(1, rel=1e-12)
    wanted = torch.autograd.grad((tiny.likely * tiny.rewards.sum(1)).sum(), tiny.tables, retain_graph=True)
    logits = tiny.logits.detach().requires_grad_()
    total = compute_loss(logits, tiny.guesses, tiny.actions, -tiny.regrets, plain)
    (each,) = torch.autograd.grad(total, logits)  # of one course nothing depends on another
    found = torch.autograd.grad(tiny.logits, tiny.tables, -each * tiny.likely.detach()[:, None, None])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        assert other.abs().max() > 1e-4
