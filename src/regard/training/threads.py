"""The number of PyTorch's threads in training: the setting, the environment, or one for a small model."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.training.settings import Training

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the environment that give PyTorch its number of threads."""
SMALL = 20_000_000
"""Parameters of a model below which one thread is chosen: the parts of its operations are too short to wait for each
other (docs/guide/training.md has the measurements)."""


def choose_threads(
    settings: Training, parameters: int, began: int | None = None
) -> int:
    """The number of threads of each process.

    The first of these decides: `settings.threads`; a variable of the environment; `began`, the number that a resumed
    run began with; one for a small model; PyTorch's own choice.
    """
    if settings.threads:
        return settings.threads
    if any(os.environ.get(name) for name in VARIABLES):
        return torch.get_num_threads()
    if began is not None:
        return began
    return 1 if parameters < SMALL else torch.get_num_threads()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use this number of threads inside, and the former number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
