from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import InputError
from regard.pictures.overlay import DARKEST, light, overlay
from regard.pictures.write import write_figure

PIXELS = np.full((6, 10, 1), 200, dtype=np.uint8)
WEIGHTS = np.array([[0.0, 0.0], [0.0, 1.0]])


def test_light_is_full_at_the_largest_weight_and_linear_between():
    found = light(WEIGHTS, 4, 8)
    np.testing.assert_allclose(found[0], DARKEST)
    np.testing.assert_allclose(found[-1, -2:], 1.0)
    np.testing.assert_allclose(found[3, 1:7], DARKEST + (1 - DARKEST) * np.array([0, 0.125, 0.375, 0.625, 0.875, 1]))
    np.testing.assert_allclose(light(np.zeros((2, 3)), 5, 7), DARKEST)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("channels", [1, 3])
def test_written_the_same_each_time(channels: int, suffix: str, tmp_path: Path):
    pixels = np.repeat(PIXELS, channels, 2)
    for name in ("a", "b"):
        write_figure(overlay(pixels, WEIGHTS, title="$cat$ 0.9"), tmp_path / f"{name}{suffix}", title="cat")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_the_darker_half_is_where_nobody_looks(tmp_path: Path):
    write_figure(overlay(np.full((8, 8, 1), 200, dtype=np.uint8), WEIGHTS), tmp_path / "a.png")
    drawn = np.asarray(Image.open(tmp_path / "a.png").convert("L")).astype(float)
    left, right = np.array_split(drawn[40:-80], 2, axis=1)
    assert left[:, 40:-40].std() < 1
    middle = right[:, 40:-40]
    assert middle[: len(middle) // 4].mean() < 60 < 150 < middle[-20:, -20:].mean()


@pytest.mark.parametrize(
    ("name", "message"), [("a.html", "cannot write '.html' pictures"), ("no/a.png", "no directory")]
)
def test_where_nothing_is_written(name: str, message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        write_figure(overlay(PIXELS, WEIGHTS), tmp_path / name)


def test_the_scale_is_stated():
    assert overlay(PIXELS, WEIGHTS).texts[0].get_text() == "darkest: 0, brightest: its greatest weight"
