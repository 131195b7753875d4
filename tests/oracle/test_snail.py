"""SNAIL's blocks against the equations of Mishra 2018, with loops over positions, in NumPy; and its two networks."""

from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.record import record
from regard.models.snail import (
    ACTING,
    CLASSIFYING,
    AttentionBlock,
    DenseBlock,
    FewShotSnail,
    ImageCode,
    Snail,
    SnailConfig,
    TemporalConvolution,
    prototype_logits,
)
from regard.tasks.few_shot import EpisodeBatch, cross_entropy, episode_loss
from tests.oracle.reference import drawn, numbers, sigmoid, softmax


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return numbers(layer.weight) @ x + numbers(layer.bias)


def dense(block: DenseBlock, x: np.ndarray) -> np.ndarray:
    """[x_t; tanh(f_t) * sigmoid(g_t)] from x_t and x_{t-d}."""
    found = []
    for place in range(len(x)):
        before = x[place - block.dilation] if place >= block.dilation else np.zeros(x.shape[1])
        signal, gate = np.split(linear(block.both, np.concatenate([before, x[place]])), 2)
        found.append(np.concatenate([x[place], np.tanh(signal) * sigmoid(gate)]))
    return np.array(found)


def attention(block: AttentionBlock, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, weights = [], np.zeros((len(x), len(x)))
    for place in range(len(x)):
        query = linear(block.query, x[place])
        scores = [query @ linear(block.key, x[past]) / np.sqrt(len(query)) for past in range(place + 1)]
        weights[place, : place + 1] = softmax(scores)
        values = np.array([linear(block.value, x[past]) for past in range(place + 1)])
        found.append(np.concatenate([x[place], weights[place, : place + 1] @ values]))
    return np.array(found), weights


@pytest.mark.parametrize("dilation", [1, 2, 11])
def test_a_dense_block(dilation: int):
    block, states = drawn(DenseBlock(3, 5, dilation)), torch.randn(1, 7, 3, dtype=torch.float64)
    np.testing.assert_allclose(numbers(block(states)[0]), dense(block, numbers(states[0])), rtol=1e-12)
    assert block.width == 8


def test_an_attention_block():
    block, states = drawn(AttentionBlock(3, 5, 2)), torch.randn(1, 7, 3, dtype=torch.float64)
    with record(block, only="*") as maps:
        found = block(states)
    wanted, weights = attention(block, numbers(states[0]))
    np.testing.assert_allclose(numbers(found[0]), wanted, rtol=1e-12)
    np.testing.assert_allclose(numbers(maps["attend"][0]), weights, rtol=1e-12)
    assert block.width == 5


@pytest.mark.parametrize(
    ("positions", "dilations"),
    [(1, [1]), (2, [1]), (5, [1, 2, 4]), (6, [1, 2, 4]), (8, [1, 2, 4]), (26, [1, 2, 4, 8, 16])],
)
def test_dilations_reach_from_the_last_position_to_the_first(positions: int, dilations: list[int]):
    block = drawn(TemporalConvolution(3, positions, 2))
    assert [each.dilation for each in block] == dilations
    assert block.width == 3 + 2 * len(dilations)
    states = torch.randn(1, positions, 3, dtype=torch.float64, requires_grad=True)
    block(states)[0, -1].sum().backward()
    assert states.grad is not None
    assert states.grad.abs().sum(-1).gt(0).all()


def test_a_whole_network():
    network = drawn(Snail(ACTING, 3, 5, 2))
    states = torch.randn(1, 5, 3, dtype=torch.float64)
    wanted = numbers(states[0])
    for block in network:
        if isinstance(block, AttentionBlock):
            wanted, _ = attention(block, wanted)
        else:
            for each in block:
                wanted = dense(each, wanted)
    np.testing.assert_allclose(numbers(network(states)[0]), wanted, rtol=1e-12)
    assert network.width == wanted.shape[1]


def test_the_sizes_of_the_paper():
    few = Snail(CLASSIFYING, 64 + 5, 5 * 5 + 1, 128)
    assert [type(block).__name__ for block in few] == ["AttentionBlock", "TemporalConvolution"] * 2 + ["AttentionBlock"]
    assert [block.query.out_features for block in few if isinstance(block, AttentionBlock)] == [64, 256, 512]
    assert [block.value.out_features for block in few if isinstance(block, AttentionBlock)] == [32, 128, 256]
    assert few.width == 69 + 32 + 5 * 128 + 128 + 5 * 128 + 256
    bandit = Snail(ACTING, 32, 100, 32)
    assert bandit.width == 32 + 2 * 7 * 32 + 32
    assert ImageCode(SnailConfig()).output.in_features == 64


def test_gradients():
    states = torch.randn(1, 4, 2, dtype=torch.float64, requires_grad=True)
    for block in (drawn(DenseBlock(2, 3, 2)), drawn(AttentionBlock(2, 3, 2))):
        assert torch.autograd.gradcheck(block, states)


def test_the_loss_is_that_of_the_last_image():
    model = drawn(FewShotSnail(3, 2, SnailConfig(side=16, code_filters=3, width=5, filters=2)))
    images, labels = torch.randn(2, 7, 1, 16, 16, dtype=torch.float64), torch.tensor([[0, 1, 2, 2, 1, 0]] * 2)
    logits = model(images, labels)
    answers = torch.tensor([2, 0])
    wanted = -logits[:, 0].log_softmax(-1)[torch.arange(2), answers].sum()
    torch.testing.assert_close(cross_entropy(logits, answers[:, None]), wanted)
    codes = model.code(images[0])
    known = torch.cat([torch.eye(3, dtype=torch.float64)[labels[0]], torch.zeros(1, 3, dtype=torch.float64)])
    network = model.network(torch.cat([codes, known], -1)[None])
    np.testing.assert_allclose(numbers(logits[0, 0]), linear(model.output, numbers(network[0, -1])), rtol=1e-10)


def test_prototypes_are_means():
    random = np.random.default_rng(3)
    support, queries = random.normal(size=(2, 5, 3)), random.normal(size=(2, 4, 3))
    labels = [[0, 1, 1, 2, 1], [2, 2, 0, 1, 0]]
    found = prototype_logits(torch.tensor(np.concatenate([support, queries], 1)), torch.tensor(labels), 3)
    for row, number, way in np.ndindex(2, 4, 3):
        mean = np.mean([code for code, label in zip(support[row], labels[row], strict=True) if label == way], 0)
        assert found[row, number, way].item() == pytest.approx(-(((queries[row, number] - mean) ** 2).sum()))


def test_the_loss_of_prototypes_is_beside_the_networks():
    model = drawn(FewShotSnail(2, 2, SnailConfig(side=16, code_filters=3, width=5, filters=2))).eval()
    images, labels = torch.randn(3, 6, 1, 16, 16, dtype=torch.float64), torch.tensor([[0, 1, 1, 0]] * 3)
    answers = torch.tensor([[1, 0], [0, 0], [0, 1]])
    codes = torch.stack([model.code(each) for each in images])
    near = prototype_logits(codes, labels, 2)
    missed = -near.log_softmax(-1).gather(-1, answers[..., None]).sum()
    batch = EpisodeBatch(images, labels, answers)
    alone, both = episode_loss(model, batch), episode_loss(model, batch, 0.3)
    torch.testing.assert_close(both, alone + 0.3 * missed)
    assert missed.item() > 1e-3
