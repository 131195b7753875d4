"""The published suite finds what is broken: one module for each law that breaks it and, as far as possible, only it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.observer import find_observer
from regard.attention.record import report
from regard.attention.scores import ScaledDot
from regard.testing import check_attention, check_decoder
from tests.laws import cases

Weigh = Callable[[Tensor, Tensor], Tensor]


class Own(nn.Module):
    """A user's attention: written out, and recording what it weighs."""

    def __init__(self, weigh: Weigh):
        super().__init__()
        self.weigh = weigh

    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        scores = query @ memory.key.mT
        open_everywhere = torch.ones_like(scores, dtype=torch.bool)
        allowed = open_everywhere if memory.mask is None else memory.mask.dense().expand_as(scores)
        weights = self.weigh(scores, allowed)
        if find_observer(self) is not None:
            report(self, weights)
        return weights @ memory.value


def right(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~allowed, 0.0)


def test_a_right_module_of_the_users_passes():
    check_attention(Own(right))


@pytest.mark.parametrize(
    ("law", "weigh"),
    [
        ("hidden from one query", lambda scores, allowed: scores.softmax(-1)),
        (
            "hidden from one query",
            lambda scores, allowed: right(scores, allowed.any(1, keepdim=True).expand_as(scores)),
        ),
        ("may read nothing", lambda scores, allowed: scores.masked_fill(~allowed, -torch.inf).softmax(-1)),
        ("may read nothing", lambda scores, allowed: scores.masked_fill(~allowed, -1e9).softmax(-1)),
        ("batch size", lambda scores, allowed: right(scores - scores.mean(0) / 7, allowed)),
        ("batch size", lambda scores, allowed: right(scores, allowed) * scores.shape[-1] / 7),
        ("future", lambda scores, allowed: right(scores, allowed | (scores.shape[-2:] == (5, 5)))),
        ("order of keys", lambda scores, allowed: right(scores + torch.arange(scores.shape[-1]), allowed)),
        ("sum to one", lambda scores, allowed: right(scores, allowed) / 2),
    ],
)
def test_a_broken_law_is_named(law: str, weigh: Weigh):
    with pytest.raises(AssertionError, match=law):
        check_attention(Own(weigh))


class Careless(Own):
    """Gives other results while watched."""

    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        return super().forward(query, memory) * (1.0 if find_observer(self) is None else 1.001)


def test_a_module_that_changes_while_watched():
    with pytest.raises(AssertionError, match="recording changes nothing: the largest difference is "):
        check_attention(Careless(right))


def test_a_module_that_hands_out_no_weights():
    class Summed(nn.Module):
        def forward(self, query: Tensor, memory: Memory) -> Tensor:
            allowed = torch.ones(1) if memory.mask is None else memory.mask.dense()
            allowed = allowed.expand(*query.shape[:-1], memory.key.shape[-2]).to(query)
            return allowed @ memory.value

    with pytest.raises(AssertionError, match=r"handed none to regard\.record"):
        check_attention(Summed())
    check_attention(Summed(), without=["rows_of_weights_sum_to_one"])


def test_a_law_that_does_not_exist_cannot_be_left_out():
    with pytest.raises(ValueError, match=r"without names \['gravity'\]; the laws are a_key_hidden"):
        check_attention(Own(right), without=["gravity"])


def test_a_wrong_shape_is_told():
    class Cut(Own):
        def forward(self, query: Tensor, memory: Memory) -> Tensor:
            return super().forward(query, memory)[:, : memory.key.shape[1]]

    with pytest.raises(AssertionError, match=r"got shape \(1, 3, 8\) for \(1, 1, 8\)"):
        check_attention(Cut(right))


def test_an_exception_of_the_module_passes_through():
    def refuse_empty(scores: Tensor, allowed: Tensor) -> Tensor:
        scores.max()
        return right(scores, allowed)

    with pytest.raises((RuntimeError, IndexError)):
        check_attention(Own(refuse_empty))


def test_nothing_of_the_callers_changes():
    module = Attend(ScaledDot()).train()
    before = torch.get_rng_state()
    check_attention(module)
    assert module.training
    assert torch.equal(before, torch.get_rng_state())
    model = cases.MODELS["transformer"]().train()
    batch = cases.sentences()
    memory = model.double().encoder(batch.tokens, batch.lengths)
    before = torch.get_rng_state()
    check_decoder(model.decoder, memory)
    assert model.decoder.training
    assert torch.equal(before, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in model.parameters())
