import numpy as np
import pytest

from regard.maps import Alignment


@pytest.fixture
def alignment():
    weights = np.random.default_rng(7).dirichlet(np.ones(5), size=3)
    return Alignment(weights, ("Das", "Haus", "ist", "groß", "."), ("The", "مرحبا", " "))
