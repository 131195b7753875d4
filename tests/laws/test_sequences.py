"""The laws of models of sequences of vectors: SNAIL and the Turing machine."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.memory import BLANK_CONTENT
from regard.attention.record import record
from regard.models.snail import ACTING, CLASSIFYING, FewShotSnail, Snail, SnailConfig
from regard.models.turing_machine import TuringMachine, TuringMachineConfig
from regard.tasks.few_shot import cross_entropy

INPUTS = torch.randn(3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([7, 4, 1])


def turing(controller: Any) -> TuringMachine:
    config = TuringMachineConfig(controller=controller, width=7, rows=11, tape_width=3, reads=2, writes=1)
    return TuringMachine(5, 2, config)


MODELS = {
    "acting": lambda: Snail(ACTING, 5, 7, 3),
    "classifying": lambda: Snail(CLASSIFYING, 5, 7, 3),
    "lstm": lambda: turing("lstm"),
    "feed-forward": lambda: turing("feed-forward"),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(5)
    made = MODELS[request.param]().double().eval()
    for parameter in made.parameters() if isinstance(made, TuringMachine) else ():
        nn.init.normal_(parameter, std=0.5)
    return made


def step_through(model: Any, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
    outputs = []
    for part in inputs.split(1, 1):
        if isinstance(model, Snail):
            output, state = model.step(part[:, 0], state)
            output = output[:, None]
        else:
            output, state = model.run(part, state)
        outputs.append(output)
    return torch.cat(outputs, 1), state


def test_padding_and_the_rest_of_the_batch_change_nothing(model: Any):
    whole, spoilt = model(INPUTS, LENGTHS), INPUTS.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        spoilt[row, length:] = torch.nan
        alone = model(INPUTS[row : row + 1, :length])
        torch.testing.assert_close(whole[row, :length], alone[0], rtol=1e-12, atol=1e-12)
    assert torch.equal(model(spoilt, LENGTHS), whole)


def test_nan_in_padding_leaves_the_gradient_alone(model: Any):
    spoilt, gradients = INPUTS.clone(), []
    spoilt[1, 4:] = spoilt[2, 1:] = torch.nan
    inside = torch.arange(7) < LENGTHS[:, None]
    for inputs in (INPUTS, spoilt):
        model.zero_grad()
        model(inputs, LENGTHS)[inside].square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_no_position_sees_its_future(model: Any):
    changed = INPUTS.clone()
    changed[:, 4:] += 1
    torch.testing.assert_close(model(changed)[:, :4], model(INPUTS)[:, :4], rtol=0, atol=0)
    torch.testing.assert_close(model(INPUTS[:, :4]), model(INPUTS)[:, :4], rtol=1e-12, atol=1e-12)


def test_recorded_equals_unrecorded_in_one_pass_and_in_steps(model: Any):
    only = "*" if isinstance(model, Snail) else "heads"
    with record(model, only=only) as maps:
        found = model(INPUTS)
    torch.testing.assert_close(found, model(INPUTS), rtol=1e-12, atol=1e-12)
    with record(model, only=only) as stepped:
        step_through(model, INPUTS, model.start(3))
    for name, weights in maps.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
        torch.testing.assert_close(stepped[name], weights, rtol=1e-12, atol=1e-12)
        assert not isinstance(model, Snail) or not weights.triu(1).any()


@pytest.mark.parametrize("grad", [True, False])
def test_steps_equal_one_pass(model: Any, grad: bool):
    with torch.set_grad_enabled(grad):
        found, _ = step_through(model, INPUTS, model.start(3))
    torch.testing.assert_close(found, model(INPUTS), rtol=1e-12, atol=1e-12)


def test_steps_go_on_with_the_rows_that_are_chosen(model: Any):
    rows = torch.tensor([2, 0, 2])
    _, state = step_through(model, INPUTS[:, :4], model.start(3))
    found, _ = step_through(model, INPUTS[rows, 4:], state.select(rows))
    torch.testing.assert_close(found, model(INPUTS)[rows, 4:], rtol=1e-12, atol=1e-12)


def test_one_position_and_no_sequence(model: Any):
    width = model(INPUTS).shape[-1]
    assert model(INPUTS[:, :1]).shape == (3, 1, width)
    assert model(INPUTS[:0]).shape == (0, 7, width)


@pytest.mark.parametrize("controller", ["lstm", "feed-forward"])
def test_the_tape_may_be_longer_than_in_training(controller: str):
    model = turing(controller).double()
    assert model.start(2, 29).tape.rows.shape == (2, 29, 3)
    assert model.start(2).tape.rows.unique().tolist() == [BLANK_CONTENT]
    found = model(INPUTS, rows=29)
    assert found.shape == (3, 7, 2)
    assert model(INPUTS[:, :0]).shape == (3, 0, 2)
    found.square().sum().backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []
    with torch.autocast("cpu", torch.bfloat16):
        assert turing(controller)(INPUTS.float()).isfinite().all()


def test_a_tape_shorter_than_a_shift():
    with pytest.raises(ValueError, match="rows is 4, less than the 5 that shift 2 reaches"):
        TuringMachineConfig(rows=4, shift=2)


IMAGES = torch.randn(3, 7, 1, 19, 19, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 1]])


@pytest.fixture
def few() -> FewShotSnail:
    torch.manual_seed(5)
    made = FewShotSnail(2, 3, SnailConfig(side=19, code_filters=3, width=5, filters=2)).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def test_an_episode_and_a_question_are_answered_as_if_alone(few: FewShotSnail):
    few.eval()
    whole = few(IMAGES, LABELS[:, :5])
    assert whole.shape == (3, 2, 2)
    for row in range(3):
        torch.testing.assert_close(few(IMAGES[row : row + 1], LABELS[row : row + 1, :5])[0], whole[row])
    for number in range(2):
        images = torch.cat([IMAGES[:, :5], IMAGES[:, 5 + number :][:, :1]], 1)
        torch.testing.assert_close(few(images, LABELS[:, :5])[:, 0], whole[:, number])


def test_every_parameter_learns(few: FewShotSnail):
    cross_entropy(few(IMAGES, LABELS), torch.tensor([[0], [1], [1]])).backward()
    assert [name for name, each in few.named_parameters() if each.grad is None or not each.grad.any()] == []
