"""Numbers from other sources."""

import math

import pytest
import torch

from regard.attention import attend
from regard.attention.align import softmax
from regard.attention.scores import Dot, Location, ScaledDot
from regard.nn.layers import Learned, LinearPositions, SinesThenCosines, Sinusoidal, sinusoids

DOUBLE = torch.float64


def test_scaled_products_of_112_and_96():
    query = torch.ones(1, 64, dtype=DOUBLE)
    key = torch.stack([torch.full((64,), 112 / 64, dtype=DOUBLE), torch.full((64,), 96 / 64, dtype=DOUBLE)])
    assert Dot()(query, key).tolist() == [[112, 96]]
    assert ScaledDot()(query, key).tolist() == [[14, 12]]
    _, weights = attend(query, key, key, score=ScaledDot())
    assert [round(weight, 2) for weight in weights[0].tolist()] == [0.88, 0.12]


def test_a_lookup_worked_out():
    """Weights 0.1, 0.1, 0.5, 0.1, 0.2 over the values of the words before."""
    wanted = torch.tensor([[0.1, 0.1, 0.5, 0.1, 0.2]], dtype=DOUBLE)
    value = torch.tensor([[1.0, 0], [0, 1], [2, 2], [3, -1], [5, 10]], dtype=DOUBLE)
    context, weights = attend(torch.ones(1, 1, dtype=DOUBLE), wanted.log().mT, value, score=Dot())
    torch.testing.assert_close(weights, wanted)
    torch.testing.assert_close(context, torch.tensor([[0.1 + 1.0 + 0.3 + 1.0, 0.1 + 1.0 - 0.1 + 2.0]], dtype=DOUBLE))


def test_first_encoding_of_width_512():
    """As printed, cut after four digits."""
    encoding = sinusoids(2, 512)
    assert encoding[0].tolist() == [0.0, 1.0] * 256
    cut = [math.trunc(number * 10_000) / 10_000 for number in encoding[1].tolist()]
    assert cut[:3] + cut[-2:] == [0.8414, 0.5403, 0.8218, 0.0001, 0.9999]


@pytest.mark.parametrize("width", [7, 8])
def test_sinusoids_against_the_formula(width: int):
    encoding = sinusoids(5, width, first=3)
    for row in range(5):
        for column in range(width):
            angle = (row + 3) / 10_000 ** ((column - column % 2) / width)
            assert encoding[row, column].item() == pytest.approx((math.cos if column % 2 else math.sin)(angle))


def test_positions_continue_where_the_past_ends():
    states = torch.randn(2, 7, 6)
    for positions in (Sinusoidal(), SinesThenCosines(), Learned(11, 6), LinearPositions(6)):
        whole = positions(states)
        parts = torch.cat([positions(states[:, :3]), positions(states[:, 3:], 3)], 1)
        torch.testing.assert_close(parts, whole)


def test_learned_positions_end_somewhere():
    with pytest.raises(ValueError, match="12 positions, but the model learned positions for at most 11"):
        Learned(11, 6)(torch.randn(1, 2, 6), 10)


def test_softmax_of_large_scores_does_not_overflow():
    scores = torch.tensor([[1e30, 0.0, -1e30]], dtype=DOUBLE)
    assert softmax(scores).tolist() == [[1.0, 0.0, 0.0]]
    assert softmax(scores, torch.tensor([[False, True, True]])).tolist() == [[0.0, 1.0, 0.0]]


def test_location_scores_use_the_first_rows_of_a_short_source():
    score = Location(5, 7)
    query = torch.randn(3, 5)
    long = score(query, torch.zeros(7, 2))
    assert torch.equal(score(query, torch.zeros(4, 2)), long[:, :4])
    with pytest.raises(
        ValueError, match="11 source positions, but location scores were made for at most 7; raise max_source"
    ):
        score(query, torch.zeros(11, 2))
    tail = Location(5, 7, ignore_tail=True)
    weights = softmax(tail(query, torch.zeros(11, 2)))
    assert not weights[:, 7:].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3))
