"""The Turing machine against the equations of Graves 2014, with loops over rows, in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import Attend
from regard.attention.align import Addressing
from regard.attention.align.location import sharpen, shift_weights
from regard.attention.masks import as_mask, padding
from regard.attention.memory import BLANK_CONTENT, Memory, Tape
from regard.attention.record import record
from regard.attention.scores import Content
from regard.models.turing_machine import TuringMachine, TuringMachineConfig
from regard.testing import check_attention
from tests.oracle.reference import drawn, numbers, sigmoid, softmax, step_lstm

SHIFT = 2


def address(tape: Any, said: Any, last: Any) -> Any:
    """Equations 5 to 9 for one head, which says k, beta, g, s and gamma."""
    rows, width = tape.shape
    key, strength, gate = np.tanh(said[:width]), np.logaddexp(0, said[width]), sigmoid(said[width + 1])
    moves, power = softmax(said[width + 2 : -1]), 1 + np.logaddexp(0, said[-1])
    cosines = np.array([key @ row / np.sqrt(key @ key) / np.sqrt(row @ row) for row in tape])
    mixed = gate * softmax(strength * cosines) + (1 - gate) * last
    moved = np.zeros(rows)
    for i in range(rows):
        for j in range(rows):
            for place, probability in enumerate(moves):
                if (i - j) % rows == (place - SHIFT) % rows:
                    moved[i] += mixed[j] * probability
    return moved**power / (moved**power).sum()


def write(tape: Any, heads: list[tuple[Any, Any, Any]]) -> Any:
    """Equations 3 and 4, all erasing before all adding."""
    for weights, erase, _ in heads:
        tape = tape * (1 - np.outer(weights, erase))
    for weights, _, add in heads:
        tape = tape + np.outer(weights, add)
    return tape


def test_addressing():
    width = 3
    attend = Attend(Content(width + 1 + 2 * SHIFT + 3, width), Addressing(SHIFT))
    tape = torch.randn(1, 7, width, dtype=torch.float64)
    queries = torch.randn(1, 5, width + 1 + 2 * SHIFT + 3, dtype=torch.float64)
    found = attend.read(queries, attend.prepare(Memory(tape, tape)), weights=True)
    last = np.eye(7)[0]
    assert found.weights is not None
    for place in range(5):
        last = address(numbers(tape[0]), numbers(queries[0, place]), last)
        np.testing.assert_allclose(numbers(found.weights[0, place]), last, rtol=1e-12)
        np.testing.assert_allclose(numbers(found.context[0, place]), last @ numbers(tape[0]), rtol=1e-12)
    np.testing.assert_allclose(numbers(found.state[0]), last, rtol=1e-12)


def test_a_shift_by_hand():
    weights = torch.tensor([0.5, 0.25, 0.25, 0.0])
    assert shift_weights(weights, torch.tensor([0.0, 0.0, 1.0])).tolist() == [0.0, 0.5, 0.25, 0.25]
    assert shift_weights(weights, torch.tensor([1.0, 0.0, 0.0])).tolist() == [0.25, 0.25, 0.0, 0.5]
    assert shift_weights(weights, torch.tensor([0.0, 1.0, 0.0])).tolist() == weights.tolist()
    assert shift_weights(weights, torch.tensor([0.5, 0.5, 0.0])).tolist() == [0.375, 0.25, 0.125, 0.25]
    with pytest.raises(ValueError, match="3 keys, fewer than the shift of 5; it would wrap more than once"):
        shift_weights(torch.ones(3), torch.ones(11))


def test_sharpening_by_hand():
    weights = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    found = sharpen(weights, torch.tensor([2.0], dtype=torch.float64))
    assert found.tolist() == pytest.approx([4 / 6, 1 / 6, 1 / 6, 0])
    even = sharpen(torch.full((128,), 1 / 128), torch.tensor([50.0]))  # each power alone is 0 in float32
    assert even.tolist() == pytest.approx([1 / 128] * 128)


def test_erasing_comes_before_adding():
    tape = Tape(torch.randn(2, 5, 3, dtype=torch.float64))
    weights = torch.rand(2, 2, 5, dtype=torch.float64)
    erase, add = torch.rand(2, 2, 3, dtype=torch.float64), torch.randn(2, 2, 3, dtype=torch.float64)
    found = tape.write(weights, erase, add)
    for row in range(2):
        heads = [(numbers(weights[row, h]), numbers(erase[row, h]), numbers(add[row, h])) for h in range(2)]
        np.testing.assert_allclose(numbers(found.rows[row]), write(numbers(tape.rows[row]), heads), rtol=1e-12)
    turned = tape.write(weights.flip(1), erase.flip(1), add.flip(1))
    torch.testing.assert_close(turned.rows, found.rows)
    torch.testing.assert_close(tape.select(torch.tensor([1, 1])).rows[0], tape.rows[1])


def test_gradients():
    tape, last = torch.randn(1, 5, 2, dtype=torch.float64), torch.rand(1, 5, dtype=torch.float64).softmax(-1)
    queries = torch.randn(1, 2, 8, dtype=torch.float64)
    attend = Attend(Content(8, 2), Addressing(1))

    def read(*given: torch.Tensor) -> torch.Tensor:
        return attend.read(given[0], attend.prepare(Memory(given[1], given[1])), given[2]).context

    def written(*given: torch.Tensor) -> torch.Tensor:
        return Tape(given[0]).write(*given[1:]).rows

    parts = (torch.rand(1, 3, 5), torch.rand(1, 3, 2), torch.randn(1, 3, 2))
    assert torch.autograd.gradcheck(read, [each.requires_grad_() for each in (queries, tape, last)])
    assert torch.autograd.gradcheck(written, [each.double().requires_grad_() for each in (tape.detach(), *parts)])


def test_laws_of_attention():
    """But those that a ring of keys breaks, which padding makes longer, and that a query owes nothing to others."""
    without = [
        "the_order_of_keys_changes_nothing",
        "a_key_hidden_from_one_query_is_inert_for_it",
        "padding_and_batch_size_change_nothing",
    ]
    check_attention(Attend(Content(11, 5), Addressing(1)), widths=(11, 5, 7), keys=17, without=without)


def test_a_masked_row_takes_no_weight_and_an_empty_tape_is_read_as_nothing():
    attend = Attend(Content(8, 2), Addressing(1))
    queries, tape = torch.randn(2, 3, 8), torch.randn(2, 5, 2)
    memory = Memory(tape, tape, padding(torch.tensor([5, 3]), 5))
    found = attend.read(queries, attend.prepare(memory), weights=True).weights
    assert found is not None
    assert not found[1, :, 3:].any()
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 3))
    closed = attend(queries, Memory(tape, tape, as_mask(torch.zeros(2, 1, 5, dtype=torch.bool))))
    assert not closed.any()
    assert not attend(queries, Memory(tape[:, :0], tape[:, :0])).any()


def test_queries_that_are_too_narrow_or_missing():
    with pytest.raises(ValueError, match="queries of width 5 hold no key of width 5"):
        Content(5, 5)
    with pytest.raises(ValueError, match="addressing needs the queries"):
        Addressing()(torch.zeros(1, 2, 3))


@pytest.mark.parametrize("controller", ["lstm", "feed-forward"])
def test_the_whole_machine(controller: Any):
    """Two reading heads and two writing ones: x_t and the last reads, controller, heads, output."""
    torch.manual_seed(5)
    config = TuringMachineConfig(controller=controller, width=5, rows=7, tape_width=3, reads=2, writes=2, shift=SHIFT)
    model = drawn(TuringMachine(4, 2, config))
    inputs = torch.randn(1, 6, 4, dtype=torch.float64)
    with record(model, only="heads") as maps:
        found = model(inputs)[0]
    assert maps["heads"].shape == (1, 4, 6, 7)  # reading heads first
    state = np.full((7, 3), BLANK_CONTENT), np.tile(np.eye(7)[0], (4, 1)), np.zeros(6), np.zeros(5), np.zeros(5)
    for step in range(6):
        wanted, state = advanced(model, numbers(inputs[0, step]), state)
        np.testing.assert_allclose(numbers(found[step]), wanted, rtol=1e-10)
        np.testing.assert_allclose(numbers(maps["heads"][0, :, step]), state[1], rtol=1e-10)


def advanced(model: Any, inputs: Any, state: Any) -> tuple[Any, Any]:
    """A step: the output, and the next tape, weights of all heads, reads, and the controller's state and cell."""
    tape, last, read, hidden, cell = state
    hidden, cell = controlled(model, np.concatenate([inputs, read]), hidden, cell)
    said = numbers(model.heads.instructions.weight) @ hidden + numbers(model.heads.instructions.bias)
    queries, erase, add = np.split(said, [4 * 11, 4 * 11 + 6])
    last = np.array([address(tape, query, each) for query, each in zip(np.split(queries, 4), last, strict=True)])
    read = np.concatenate([weights @ tape for weights in last[:2]])
    heads = zip(last[2:], np.split(sigmoid(erase), 2), np.split(np.tanh(add), 2), strict=True)
    wanted = numbers(model.output.weight) @ np.concatenate([hidden, read]) + numbers(model.output.bias)
    return wanted, (write(tape, list(heads)), last, read, hidden, cell)


def controlled(model: Any, inputs: np.ndarray, hidden: Any, cell: Any) -> tuple[Any, Any]:
    """A step of the controller."""
    if model.config.controller == "feed-forward":
        linear = model.controller.inputs
        return np.tanh(numbers(linear.weight) @ inputs + numbers(linear.bias)), cell
    return step_lstm(model.controller.cell, inputs, hidden, cell)
