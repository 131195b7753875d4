from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.maps.lookups import TapeUse
from regard.pictures.panels import tape
from regard.pictures.write import write_figure


def use(reads: int = 1, writes: int = 1, steps: int = 7, rows: int = 11) -> TapeUse:
    weights = np.zeros((reads + writes, steps, rows))
    weights[:, np.arange(steps), np.arange(steps) % 5] = 1
    outputs = np.where(np.arange(steps)[:, None] < 3, np.nan, 0.5 * np.ones((steps, 2)))
    return TapeUse(np.eye(steps, 3), outputs, weights[:reads], weights[reads:])


def test_only_rows_of_use_are_drawn():
    weights = np.zeros((1, 3, 7))
    found = TapeUse(np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((1, 3, 7)), weights)
    assert found.rows == 1
    weights[0, 1, 4] = 0.5
    weights[0, 2, 6] = 0.001
    assert found.rows == 5


def test_as_lookups_a_step_is_named_by_what_it_takes_or_says():
    outputs = np.array([[np.nan, np.nan], [np.nan, np.nan], [0.9, 0.2]])
    reading, writing = np.random.default_rng(3).dirichlet(np.ones(7), (2, 2, 3))
    given = TapeUse(np.array([[1, 0, 0], [0, 0, 0.522], [0, 0, 0]]), outputs, reading, writing[:1])
    read, wrote = given.lookups()
    assert read.target == wrote.target == ("0: in 100", "1: in 00 0.52", "2: out 10")
    assert read.source == wrote.source == tuple(f"row {row}" for row in range(7))
    assert (read.name, wrote.name) == ("reads from the tape", "writes to the tape")
    np.testing.assert_allclose(read.weights, reading[None], rtol=1e-6)
    np.testing.assert_allclose(wrote.weights, writing[None, :1], rtol=1e-6)
    assert [each.weights.shape for each in use(reads=2, steps=4).lookups()] == [(1, 2, 4, 4), (1, 1, 4, 4)]


def test_a_panel_a_head():
    names = [axes.get_title(loc="left") for axes in tape(use(reads=2)).axes]
    assert names == [
        "inputs",
        "outputs",
        "writes to the tape",
        "reads from the tape (head 1)",
        "reads from the tape (head 2)",
    ]


@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (241, 128)])
def test_any_size(steps: int, rows: int, tmp_path: Path):
    weights = np.ones((1, steps, rows))
    write_figure(tape(TapeUse(np.zeros((steps, 3)), np.zeros((steps, 2)), weights, weights)), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert 0 < picture.width < 4000


def test_the_scale_is_stated():
    assert tape(use()).texts[0].get_text() == "white 0, dark 1, grey: no target"
    blank = TapeUse(np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((1, 3, 7)), np.zeros((1, 3, 7)))
    assert tape(blank).texts[0].get_text() == "white 0, dark 1"
