"""The tests run with shapes and types in regard's signatures checked at every call; see tests/conftest.py."""

from typing import Any

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from torch import Tensor

from regard.attention.align import softmax


def test_signatures_are_checked():
    softmax(torch.zeros(2, 3, 5))
    with pytest.raises(jaxtyping.TypeCheckError):
        softmax(torch.zeros(2, 3, 5, dtype=torch.int64))


def test_each_form_of_a_call_is_checked():
    """Known arguments with a result of another size, known sizes in other places, and each again."""
    results = [torch.zeros(3), torch.zeros(3), torch.zeros(2)]
    called: list[int] = []

    def function(left: Float[Tensor, " row"], others: list[Float[Tensor, " row"]]) -> Float[Tensor, " row"]:
        called.append(len(others))
        return results[len(called) - 1]

    checked: Any = jaxtyping.jaxtyped(function, typechecker=beartype)
    for result in results[:2]:
        assert checked(torch.ones(3), [torch.ones(3)]) is result
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match=r"return value of .*function"):
            checked(torch.ones(3), others=[torch.ones(3)])
        results.append(results[-1])
        with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
            checked(torch.ones(3), [torch.ones(3)])
        results.append(results[-1])
    assert called == [1] * 6
    for arguments in ((torch.ones(3), [torch.ones(2)]), (torch.ones(3).long(), []), (torch.ones(3), torch.ones(3))):
        with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of .*function"):
            checked(*arguments)
    assert called == [1] * 6
