import numpy as np
import pytest

from regard.errors import InputError
from regard.maps import Alignment
from regard.pictures.text import choose_fonts


@pytest.fixture
def alignment():
    weights = np.random.default_rng(7).dirichlet(np.ones(5), size=3)
    return Alignment(weights, ("Das", "Haus", "ist", "groß", "."), ("The", "مرحبا", " "))


@pytest.fixture
def chinese() -> None:
    """Skips a test where no font has what it draws, and says what to install."""
    try:
        choose_fonts(["注意"])
    except InputError as error:
        pytest.skip(str(error))
