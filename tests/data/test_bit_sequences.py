"""Bit sequences follow the paper, step by step, and a user's text becomes the same."""

import re
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.tasks.algorithmic import Algorithmic, AlgorithmicRun, Copy, Recall, RepeatCopy, collate_bits
from regard.tasks.meta_rl import Bandits, Environments, MetaRL, MetaRLRun, Processes, compute_action_values
from regard.tasks.pointer import ConvexHull, PointedSet, Sorting, collate_sets
from regard.text.kinds import END, IGNORED, PAD, START


def test_copy():
    data = Copy(width=3)
    found = data.parse("011 100")
    assert found.inputs.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
    assert found.target.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_repeat_copy_scales_the_number_and_ends_with_a_mark():
    data = RepeatCopy(width=2, most_repeats=10)
    found = data.parse("01 11 x2")
    assert found.target.tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert len(found) == 2 + 1 + 5
    numbers = [data.repeat(found.target[:1, :2], count).inputs[1, 2] for count in range(1, 11)]
    assert np.mean(numbers) == pytest.approx(0, abs=1e-6)
    assert np.var(numbers) == pytest.approx(1, abs=1e-6)
    assert RepeatCopy(most_repeats=1).load().train[0].inputs.max() == 1


def test_recall_asks_for_an_item_and_wants_the_next():
    data = Recall(width=2, vectors=2)
    found = data.parse("01,11 10,00 11,11 ? 10,00")
    marks = found.inputs[:, 2:].tolist()
    assert marks == [[1, 0], [0, 0], [0, 0]] * 3 + [[0, 1], [0, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
    assert found.inputs[4:6, :2].tolist() == found.inputs[10:12, :2].tolist() == [[1, 0], [0, 0]]
    sequence = data.sample(3, np.random.default_rng(0))
    items = [sequence.inputs[start : start + 2, :2].tolist() for start in (1, 4, 7)]
    assert sequence.target.tolist() == items[items.index(sequence.inputs[10:12, :2].tolist()) + 1]


def test_lengths_are_between_the_bounds_and_beyond_them_on_request():
    data = Copy(train=300, least=2, most=4)
    assert {len(each.target) for each in data.load().train} == {2, 3, 4}
    assert {len(each.target) for each in data.sample_many(3, (120, 120))} == {120}


def test_a_batch_has_targets_for_the_last_steps_only():
    data = Copy(width=2)
    batch = collate_bits([data.parse(text) for text in ("01", "11 10 01")])
    assert batch.inputs.shape == (2, 7, 3)
    assert batch.lengths.tolist() == [3, 7]
    assert batch.predicted.int().tolist() == [[0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]
    assert batch.targets.tolist() == [[0, 1], [1, 1], [1, 0], [0, 1]]
    assert not batch.inputs[0, 3:].any()
    assert torch.equal(batch.to("cpu").predicted, batch.predicted)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (Copy(width=3), ["011 10", "10 11", "012", " "]),
        (RepeatCopy(width=2), ["01 11", "01 x0", "01 x1001", "01 xx2", "x3"]),
        (Recall(width=2), ["01,11,00 10,00,11", "01,11,00 ? 01,11", "01,11,00 ? 01,11,00 01,11,00", "? 01,11,00"]),
    ],
)
def test_what_cannot_be_understood(data: Any, lines: list[str]):
    run = AlgorithmicRun(Algorithmic(data=data), torch.nn.Identity())
    for line in lines:
        with pytest.raises(InputError, match=rf"^a: {re.escape(repr(line))}; expected (vectors|items) of "):
            run.parse(line, "a")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Copy(least=5, most=3), "copy: least is 5 and most 3; expected 1 <= least <= most"),
        (lambda: Recall(least=1), "recall: least is 1 and most 6; expected 2 <= least <= most"),
    ],
)
def test_sizes_that_do_not_fit(make: Any, said: str):
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)


def test_sorting():
    splits = Sorting(train=50, valid=3, test=0, least=2, most=7, seed=3).load()
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (50, 3, 0)
    assert {len(each.elements) for each in splits.train} == set(range(2, 8))
    for each in splits.train:
        found = [each.elements[place] for place in each.target]
        assert found == sorted(each.elements)
    assert Sorting().solve([(0.5,), (0.1,), (0.5,)]) == [1, 0, 2]


def test_convex_hulls_have_all_points_on_their_left_and_turn_once():
    for each in ConvexHull(train=200, valid=1, test=1, least=3, most=11, seed=3).load().train:
        corners = [each.elements[place] for place in each.target]
        turned = 0.0
        for (ax, ay), (bx, by) in pairwise([*corners, corners[0]]):
            for x, y in each.elements:
                assert (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= -1e-12
            turned += ax * by - bx * ay
        assert turned > 0  # the area, by the shoelace formula: counter-clockwise
        assert len(corners) >= 3
        assert each.target[0] == min(each.target)


def test_sets_differ_between_splits_and_seeds():
    one, other = Sorting(train=3, valid=3, test=3).load(), Sorting(train=3, valid=3, test=3, seed=2).load()
    assert len({each.elements for each in (*one.train, *one.valid, *one.test, *other.train)}) == 12
    assert one == Sorting(train=3, valid=3, test=3).load()


def test_sizes_of_sets_that_cannot_be():
    with pytest.raises(InputError, match="least is 8 and most 7; expected 1 <= least <= most"):
        Sorting(least=8, most=7)
    with pytest.raises(InputError, match="expected 3 <= least"):
        ConvexHull(least=2)


def test_batches_are_padded_and_shifted():
    sets = [PointedSet(((0.5, 1.0), (0.25, 0.0)), (1, 0)), PointedSet(((0.125, 2.0),), (0,))]
    batch = collate_sets(sets).to("cpu")
    assert batch.elements.tolist() == [[[0.5, 1.0], [0.25, 0.0]], [[0.125, 2.0], [0.0, 0.0]]]
    assert batch.lengths.tolist() == [2, 1]
    assert batch.target_in.tolist() == [[START, END + 2, END + 1], [START, END + 1, PAD]]
    assert batch.target_out.tolist() == [[END + 2, END + 1, END], [END + 1, END, IGNORED]]
    assert batch.target_tokens == 5


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
    pulled = Bandits(arms=2).parse("0.25 1")
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
    ("data", "lines"),
    [(Bandits(arms=2), ["0.2 0.3 0.4", "0.2 1.5", "0.2 nan", "a b"]), (SMALL, ["-1", "9" * 30, "", "seven"])],
)
def test_environments_that_cannot_be(data: Any, lines: list[str]):
    run = MetaRLRun(MetaRL(data=data), torch.nn.Identity())
    for line in lines:
        with pytest.raises(InputError, match=rf"^a: {line!r}; expected (2 probabilities|a whole number)"):
            run.parse(line, "a")
