"""The laws of a machine with a tape: rows of a batch and steps are what they are, whatever stands beside or behind."""

from typing import Any

import pytest
import torch
from torch import nn

from regard.attention.memory import BLANK_CONTENT
from regard.attention.record import record
from regard.models.turing_machine import TuringMachine, TuringMachineConfig


@pytest.fixture(params=["lstm", "feed-forward"])
def model(request: pytest.FixtureRequest) -> TuringMachine:
    torch.manual_seed(5)
    config = TuringMachineConfig(controller=request.param, width=7, rows=11, tape_width=3, reads=2, writes=1)
    made = TuringMachine(5, 2, config).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


INPUTS = torch.randn(3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([7, 4, 1])


def test_stepping_equals_one_pass(model: TuringMachine):
    whole = model(INPUTS)
    for parts in ([1] * 7, [3, 4], [2, 5]):
        state, found = model.start(3), []
        for part in INPUTS.split(parts, 1):
            logits, state = model.run(part, state)
            found.append(logits)
        torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-12, atol=1e-12)


def test_padding_and_the_rest_of_the_batch_change_nothing(model: TuringMachine):
    whole = model(INPUTS, LENGTHS)
    spoilt = INPUTS.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        spoilt[row, length:] = torch.nan
        alone = model(INPUTS[row : row + 1, :length])
        torch.testing.assert_close(whole[row, :length], alone[0], rtol=1e-12, atol=1e-12)
    assert torch.equal(model(spoilt, LENGTHS), whole)


def test_nan_in_padding_leaves_the_gradient_alone(model: TuringMachine):
    spoilt = INPUTS.clone()
    spoilt[1, 4:] = spoilt[2, 1:] = torch.nan
    inside = torch.arange(7) < LENGTHS[:, None]
    gradients = []
    for inputs in (INPUTS, spoilt):
        model.zero_grad()
        model(inputs, LENGTHS)[inside].square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


def test_no_step_sees_its_future(model: TuringMachine):
    changed = INPUTS.clone()
    changed[:, 4:] += 1
    torch.testing.assert_close(model(changed)[:, :4], model(INPUTS)[:, :4], rtol=0, atol=0)


def test_recorded_equals_unrecorded(model: TuringMachine):
    with record(model, only="heads") as maps:
        found = model(INPUTS)
    assert torch.equal(found, model(INPUTS))
    assert maps["heads"].shape == (3, 3, 7, 11)
    torch.testing.assert_close(maps["heads"].sum(-1), torch.ones(3, 3, 7, dtype=torch.float64))


def test_rows_of_a_state_are_selected(model: TuringMachine):
    _, state = model.run(INPUTS[:, :3], model.start(3))
    rows = torch.tensor([2, 0, 2])
    found, _ = model.run(INPUTS[rows, 3:], state.select(rows))
    torch.testing.assert_close(found, model(INPUTS)[rows, 3:], rtol=1e-12, atol=1e-12)


def test_nothing_stays_on_the_model(model: TuringMachine):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, second = model(INPUTS), model(INPUTS)
    assert torch.equal(first, second)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_the_tape_may_be_longer_than_in_training(model: TuringMachine):
    assert model.start(2, 29).tape.rows.shape == (2, 29, 3)
    assert model.start(2).tape.rows.unique().tolist() == [BLANK_CONTENT]
    assert model(INPUTS, rows=29).shape == (3, 7, 2)


def test_no_sequence_and_no_step(model: TuringMachine):
    assert model(INPUTS[:0]).shape == (0, 7, 2)
    assert model(INPUTS[:, :0]).shape == (3, 0, 2)


def test_a_tape_shorter_than_a_shift():
    with pytest.raises(ValueError, match="rows is 4, less than the 5 that shift 2 reaches"):
        TuringMachineConfig(rows=4, shift=2)


def test_half_precision_stays_finite():
    made: Any = TuringMachine(5, 2, TuringMachineConfig(width=7, rows=11, tape_width=3))
    with torch.autocast("cpu", torch.bfloat16):
        assert made(INPUTS.float()).isfinite().all()
