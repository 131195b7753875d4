"""Before anything of regard is imported: shapes in signatures become checked, the hub unreachable, sums repeatable."""

import os
import random

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")

import jaxtyping
import numpy as np
import pytest
import torch

jaxtyping.install_import_hook("regard", "beartype.beartype")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
