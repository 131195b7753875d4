"""Adaptive softmax: a distribution, its loss by hand and with a gradient, and settings that do not fit."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.models.language_model import AdaptiveSoftmax
from regard.nn.layers import Output, TokenEmbedding
from regard.nn.output import AdaptiveOutput, CopyFeatures, CopyOutput
from regard.text.kinds import IGNORED

VOCABULARY, WIDTH, CUTOFFS = 13, 5, (4, 9)
TARGETS = torch.tensor([[1, 3, 4, 8], [9, 12, IGNORED, IGNORED]])


def layer(cutoffs: tuple[int, ...] = CUTOFFS, tied: TokenEmbedding | None = None) -> AdaptiveOutput:
    output = AdaptiveOutput(WIDTH, VOCABULARY, tied, cutoffs=cutoffs).double()
    torch.nn.init.normal_(output.bias)
    return output


def features() -> Tensor:
    return torch.randn(2, 4, WIDTH, dtype=torch.float64, requires_grad=True)


def test_two_steps_by_hand():
    """A word of a cluster has the probability of the cluster among what is told first, times its own within it."""
    output, given = layer(), features()
    assert output.clusters is not None
    logits = functional.linear(given, output.weight, output.bias)
    first = torch.cat([logits[..., :4], output.clusters(given)], -1).softmax(-1)
    wanted = [
        first[..., :4],
        first[..., 4:5] * logits[..., 4:9].softmax(-1),
        first[..., 5:] * logits[..., 9:].softmax(-1),
    ]
    found = output(given).exp()
    torch.testing.assert_close(found, torch.cat(wanted, -1))
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]))


def test_the_loss_and_its_gradient_are_those_of_the_distribution():
    output, given = layer(), features()
    wanted = functional.nll_loss(output(given).flatten(0, 1), TARGETS.flatten(), ignore_index=IGNORED, reduction="sum")
    found, each = output.loss(given, TARGETS)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(each.sum(), wanted.detach())
    assert (each != 0).tolist() == (TARGETS != IGNORED).tolist()
    inputs = given, *output.parameters()
    for one, other in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(wanted, inputs), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("output", [layer(), Output(WIDTH, VOCABULARY).double()], ids=["adaptive", "full"])
def test_likelihoods_have_a_gradient_by_row(output: Output):
    given, rows = features().flatten(0, 1), torch.tensor([0, 1, 2, 3, 4, 5])
    targets = TARGETS.flatten()[rows]
    wanted = output(given[rows]).log_softmax(-1)[rows, targets]
    torch.testing.assert_close(output.log_prob(given[rows], targets), wanted)
    assert torch.autograd.gradcheck(lambda x: output.log_prob(x[rows], targets), given)


def test_words_may_be_copied_beside_it():
    """The mixture's probabilities sum to 1 and its loss is theirs."""
    output, given = CopyOutput(layer()), features().flatten(0, 1)[:2]
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]).double()
    tokens, gate = torch.tensor([[1, 13, 10], [12, 12, 3]]), torch.tensor([0.3, -0.8]).double()
    copying = CopyFeatures(given, gate, weights, tokens, given.new_zeros(2, 1))
    logs = output(copying)
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(2).double())
    told = torch.tensor([10, 12])
    batched = CopyFeatures(*(each[:, None] for each in vars(copying).values()))
    found, _ = output.loss(batched, told[:, None])
    torch.testing.assert_close(found, -logs[[0, 1], told].sum())


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"smoothing is 0\.1"):
        layer().loss(features(), TARGETS, 0.1)
    with pytest.raises(ValueError, match=r"cutoffs are \[9, 4\]; expected at least one id, each above"):
        AdaptiveSoftmax(cutoffs=(9, 4))
