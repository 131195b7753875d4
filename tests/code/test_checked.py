"""The tests run with shapes and types in regard's signatures checked at every call; see tests/conftest.py."""

import jaxtyping
import pytest
import torch

from regard.attention.align import softmax


def test_signatures_are_checked():
    softmax(torch.zeros(2, 3, 5))
    with pytest.raises(jaxtyping.TypeCheckError):
        softmax(torch.zeros(2, 3, 5, dtype=torch.int64))
