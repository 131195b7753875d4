"""The form of a law, and its tolerance."""

from collections.abc import Iterable, Iterator

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


def hold(laws: Iterable[tuple[str, Pairs]], tolerance: float) -> None:
    """Raise AssertionError for the first law with a differing pair.

    NaN differs from everything.
    """
    for name, pairs in laws:
        for got, expected in pairs:
            law = name.replace("_", " ")
            if got.shape != expected.shape:
                raise AssertionError(
                    f"{law}: got shape {tuple(got.shape)} for {tuple(expected.shape)}"
                )
            if not torch.allclose(got, expected, rtol=tolerance, atol=tolerance):
                raise AssertionError(
                    f"{law}: the largest difference is {(got - expected).abs().max():.3g}"
                )
