"""The package's own tests: `pip install -e . && pytest`."""

import torch

from regard.attention import Attend
from regard.testing import check_attention
from regard_interpolation.model import Interpolator, Laplace
from regard_interpolation.task import collate, waves


def test_the_score_obeys_the_laws_of_attention():
    check_attention(Attend(Laplace(0.7)))


def test_a_known_point_is_its_own_nearest():
    points = torch.tensor([[[0.0, 1.0], [2.0, 5.0], [4.0, -3.0]]])
    heights = Interpolator(scale=0.01)(points[..., 0], points)
    torch.testing.assert_close(heights, points[..., 1])


def test_curves_are_functions_of_the_seed():
    assert waves(3, "a") == waves(3, "a") != waves(3, "b")
    assert [each.shape for each in collate(waves(3, "a"))] == [(3, 1), (3, 12, 2), (3, 1)]
