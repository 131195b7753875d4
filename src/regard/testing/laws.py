"""What a law is, and how closely it must hold."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

Pairs = Iterator[tuple[Tensor, Tensor]]
"""What a law yields: what came out beside what it must equal."""

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 5e-2}


def hold(laws: Iterable[tuple[str, Pairs]], tolerance: float) -> None:
    """Raises AssertionError for the first law of which a pair differs; NaN differs from everything."""
    for name, pairs in laws:
        for got, expected in pairs:
            law = name.replace("_", " ")
            if got.shape != expected.shape:
                raise AssertionError(f"{law}: got shape {tuple(got.shape)} for {tuple(expected.shape)}")
            if not torch.allclose(got, expected, rtol=tolerance, atol=tolerance):
                raise AssertionError(f"{law}: the largest difference is {(got - expected).abs().max():.3g}")
