"""The memory of a recorded reduction: what is kept, and one group of queries by all keys."""

import pytest
import torch

from benchmarks import report
from regard.maps.reductions import Entropy, Greatest, Kept, Reduction, gathered


@pytest.mark.parametrize("reduce", [Greatest(3), Entropy()], ids=["greatest", "entropy"])
def test_groups_of_queries_gathered_in_one_tensor(reduce: Reduction):
    weights = torch.rand(2, 5, 23, 11).softmax(-1)
    whole = reduce.of(weights)
    found = gathered((reduce.of(some) for some in weights.split(7, -2)), 23)
    assert isinstance(found, Kept)
    torch.testing.assert_close(found.values, whole.values)
    assert (found.places is None) == (whole.places is None)
    if whole.places is not None and found.places is not None:
        assert torch.equal(found.places, whole.places)


@pytest.mark.parametrize("kind", ["greatest 4", "entropy"])
def test_twelve_layers_of_2000_tokens(kind: str):
    """Before one tensor had the results of all groups, the four greatest of one head grew by 271 megabytes."""
    pytest.importorskip("transformers")
    megabytes, _ = report.apart("long_inputs", "measured", kind, "2000")
    assert megabytes < 130
