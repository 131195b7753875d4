"""The memory of a recorded reduction: what is kept, and one group of queries by all keys."""

import pytest
import torch

from regard.maps.reductions import Entropy, Greatest, Reduced, Reduction, gather_groups


@pytest.mark.parametrize("reduce", [Greatest(3), Entropy()], ids=["greatest", "entropy"])
def test_groups_of_queries_gathered_in_one_tensor(reduce: Reduction):
    weights = torch.rand(2, 5, 23, 11).softmax(-1)
    whole = reduce.of(weights)
    found = gather_groups((reduce.of(some) for some in weights.split(7, -2)), 23)
    assert isinstance(found, Reduced)
    torch.testing.assert_close(found.values, whole.values)
    assert (found.places is None) == (whole.places is None)
    if whole.places is not None and found.places is not None:
        assert torch.equal(found.places, whole.places)
