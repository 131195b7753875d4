"""Connectionist temporal classification against the sum over all paths, in NumPy float64."""

import itertools

import numpy as np
import torch

from regard.nn.output import Connectionist

BLANK = 2
TARGETS = torch.tensor([[3, 3, 1], [4, 0, 0], [1, 3, 0]])
TARGET_LENGTHS = torch.tensor([3, 1, 2])
LENGTHS = torch.tensor([5, 1, 3])


def emitted(path: tuple[int, ...]) -> list[int]:
    """The tokens of a path: repeats once, without blanks."""
    return [token for token, _ in itertools.groupby(path) if token != BLANK]


def by_paths(head: Connectionist, states: np.ndarray, tokens: list[int]) -> float:
    """-log p(tokens | states), summed over all paths."""
    weight, bias = head.linear.weight.detach().numpy(), head.linear.bias.detach().numpy()
    scores = states @ weight.T + bias
    probabilities = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    paths = itertools.product(range(probabilities.shape[1]), repeat=len(states))
    found = sum(
        np.prod([row[token] for row, token in zip(probabilities, path, strict=True)])
        for path in paths
        if emitted(path) == tokens
    )
    return float(-np.log(found))


def test_the_loss_is_the_sum_over_all_paths():
    head, states = Connectionist(7, 5).double(), torch.randn(3, 5, 7).double()
    rows = zip(states.numpy(), LENGTHS.tolist(), TARGETS.tolist(), TARGET_LENGTHS.tolist(), strict=True)
    expected = sum(by_paths(head, row[:keys], tokens[:count]) for row, keys, tokens, count in rows)
    found = head(states, LENGTHS, TARGETS, TARGET_LENGTHS, blank=BLANK)
    np.testing.assert_allclose(found.item(), expected, rtol=1e-12)


def test_padding_has_no_influence():
    head, states = Connectionist(7, 5).double(), torch.randn(3, 5, 7).double()
    before = head(states, LENGTHS, TARGETS, TARGET_LENGTHS, blank=BLANK)
    padding = torch.arange(5) >= LENGTHS[:, None]
    noisy = states.masked_fill(padding[..., None], 1e3).requires_grad_()
    after = head(
        noisy, LENGTHS, TARGETS.where(torch.arange(3) < TARGET_LENGTHS[:, None], 4), TARGET_LENGTHS, blank=BLANK
    )
    after.backward()
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)
    assert noisy.grad is not None
    assert not noisy.grad[padding].any()


def test_gradients():
    head = Connectionist(3, 5).double()
    states = torch.randn(3, 5, 3).double().requires_grad_()
    torch.autograd.gradcheck(lambda values: head(values, LENGTHS, TARGETS, TARGET_LENGTHS, blank=BLANK), states)


def test_fewer_keys_than_the_tokens_need_count_0():
    head, states = Connectionist(7, 5).double(), torch.randn(1, 2, 7).double()
    assert head(states, torch.tensor([2]), torch.tensor([[3, 3]]), torch.tensor([2]), blank=BLANK) == 0
