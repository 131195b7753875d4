"""The form of a law, and its tolerance."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

Pairs = Iterator[tuple[Tensor, Tensor]]
"""The results of a law: pairs of the found and the expected tensor."""

TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 5e-2,
}
"""The absolute and relative tolerance of every law, and of the sum of a row of weights,
in each precision."""


def hold(
    laws: Iterable[Callable[[Any], Pairs]], subject: Any, tolerance: float
) -> None:
    """Raise AssertionError for the first law with a differing pair.

    NaN differs from everything.
    """
    for law in laws:
        name = law.__name__.replace("_", " ")
        for result, expected in law(subject):
            problem = ""
            if result.shape != expected.shape:
                problem = f"got shape {(*result.shape,)} for {(*expected.shape,)}"
            elif not torch.allclose(result, expected, rtol=tolerance, atol=tolerance):
                difference = (result - expected).abs().max()
                problem = f"the largest difference is {difference:.3g}"
            if problem:
                raise AssertionError(f"{name}: {problem}")
