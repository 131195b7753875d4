"""The kernel of best tokens, beside `log_softmax` and `topk`."""

import pytest
import torch

from regard.kernels.cpu import choose_best_tokens, supports_logits

NO = -torch.inf


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("rows", "size", "count"), [(1, 3, 1), (2, 15, 4), (5, 64, 10), (33, 1003, 5)])
@pytest.mark.parametrize("shift", [0.0, -300.0, 300.0])
def test_it_is_a_softmax_and_its_best(rows: int, size: int, count: int, shift: float):
    logits = torch.randn(rows, size) * 4 + shift
    forbidden = [0, size - 1]
    expected = logits.log_softmax(-1).index_fill(1, torch.tensor(forbidden), NO).topk(min(count, size))
    best = choose_best_tokens(logits, count, forbidden)
    assert best is not None
    scores, tokens = best
    torch.testing.assert_close(scores[:, :size], expected.values, atol=1e-4, rtol=1e-5)
    some = scores > NO
    assert torch.equal(tokens[some], expected.indices[some[:, :size]])


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("bad", [NO, torch.nan, torch.inf])
def test_rows_without_a_token_or_with_an_infinite_one(bad: float):
    logits = torch.zeros(2, 100)
    best = choose_best_tokens(logits, 2, [0, 1])
    assert best is not None
    assert best[1].tolist() == [[2, 3], [2, 3]]  # equally good ones in their order
    logits[1, 7 if bad != NO else slice(None)] = bad
    assert choose_best_tokens(logits, 2, [0, 1]) is None


def test_what_it_does_not_serve():
    logits = torch.zeros(1, 5)
    assert not supports_logits(logits.double())
    assert not supports_logits(logits.requires_grad_())
