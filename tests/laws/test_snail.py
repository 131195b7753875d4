"""The laws of SNAIL: no position sees its future, and padding and the rest of a batch change nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.attention.record import record
from regard.models.snail import FewShotSnail, Snail, SnailConfig, acting, classifying
from regard.tasks.few_shot import cross_entropy

STATES = torch.randn(3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([7, 4, 1])


@pytest.fixture(params=[acting, classifying])
def network(request: pytest.FixtureRequest) -> Snail:
    torch.manual_seed(5)
    make: Callable[..., Snail] = request.param
    return make(5, 7, 3).double().eval()


def test_padding_and_the_rest_of_the_batch_change_nothing(network: Snail):
    whole, spoilt = network(STATES, LENGTHS), STATES.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        spoilt[row, length:] = torch.nan
        alone = network(STATES[row : row + 1, :length])
        torch.testing.assert_close(whole[row, :length], alone[0], rtol=1e-12, atol=1e-12)
    assert torch.equal(network(spoilt, LENGTHS), whole)


def test_nan_in_padding_leaves_the_gradient_alone(network: Snail):
    spoilt, gradients = STATES.clone(), []
    spoilt[1, 4:] = torch.nan
    for states in (STATES, spoilt):
        network.zero_grad()
        network(states, LENGTHS)[1, :4].square().sum().backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_no_position_sees_its_future(network: Snail):
    changed = STATES.clone()
    changed[:, 4:] += 1
    torch.testing.assert_close(network(changed)[:, :4], network(STATES)[:, :4], rtol=0, atol=0)
    torch.testing.assert_close(network(STATES[:, :4]), network(STATES)[:, :4], rtol=1e-12, atol=1e-12)


def test_recorded_equals_unrecorded(network: Snail):
    with record(network) as maps:
        found = network(STATES)
    torch.testing.assert_close(found, network(STATES), rtol=1e-12, atol=1e-12)
    for weights in maps.values():
        assert weights.shape == (3, 7, 7)
        assert not weights.triu(1).any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 7, dtype=torch.float64))


def test_one_position_and_no_sequence(network: Snail):
    assert network(STATES[:, :1]).shape == (3, 1, network.width)
    assert network(STATES[:0]).shape == (0, 7, network.width)


@pytest.fixture
def model() -> FewShotSnail:
    torch.manual_seed(5)
    made = FewShotSnail(2, 3, SnailConfig(side=19, code_filters=3, width=5, filters=2)).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


IMAGES = torch.randn(3, 7, 1, 19, 19, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 1]])


def test_an_episode_is_answered_as_if_it_were_alone(model: FewShotSnail):
    model.eval()
    whole = model(IMAGES, LABELS)
    for row in range(3):
        torch.testing.assert_close(model(IMAGES[row : row + 1], LABELS[row : row + 1])[0], whole[row])


def test_questions_are_answered_as_if_each_were_alone(model: FewShotSnail):
    model.eval()
    whole, shown = model(IMAGES, LABELS[:, :5]), IMAGES[:, :5]
    assert whole.shape == (3, 2, 2)
    for number in range(2):
        alone = model(torch.cat([shown, IMAGES[:, 5 + number :][:, :1]], 1), LABELS[:, :5])
        torch.testing.assert_close(alone[:, 0], whole[:, number])
    expected = torch.tensor([[0, 1], [1, 1], [0, 0]])
    alone = -whole.log_softmax(-1).gather(-1, expected[..., None]).sum()
    torch.testing.assert_close(cross_entropy(whole, expected), alone)


def test_every_parameter_learns(model: FewShotSnail):
    cross_entropy(model(IMAGES, LABELS), torch.tensor([[0], [1], [1]])).backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


@pytest.mark.parametrize("grad", [True, False])
def test_steps_equal_one_pass(network: Snail, grad: bool):
    whole, state, found = network(STATES), network.start(3), []
    with torch.set_grad_enabled(grad):
        for inputs in STATES.unbind(1):
            output, state = network.step(inputs, state)
            found.append(output)
    torch.testing.assert_close(torch.stack(found, 1), whole, rtol=1e-12, atol=1e-12)


def test_steps_go_on_with_the_rows_that_are_chosen(network: Snail):
    rows, state = torch.tensor([2, 0, 2]), network.start(3)
    for inputs in STATES[:, :4].unbind(1):
        _, state = network.step(inputs, state)
    picked, found = state.select(rows), []
    for inputs in STATES[rows, 4:].unbind(1):
        output, picked = network.step(inputs, picked)
        found.append(output)
    torch.testing.assert_close(torch.stack(found, 1), network(STATES)[rows, 4:], rtol=1e-12, atol=1e-12)


def test_recorded_steps_equal_one_recorded_pass(network: Snail):
    with record(network) as whole:
        network(STATES)
    state = network.start(3)
    with record(network) as maps:
        for inputs in STATES.unbind(1):
            _, state = network.step(inputs, state)
    for name, weights in whole.items():
        torch.testing.assert_close(maps[name], weights, rtol=1e-12, atol=1e-12)
