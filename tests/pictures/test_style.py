import numpy as np
import pytest

from regard.pictures import style


def linear(colours):
    value = colours / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("dark", [False, True])
def test_brightness_runs_in_one_direction(dark):
    brightness = linear(style.palette(dark)) @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(brightness[::5])
    assert (steps > 0).all() if dark else (steps < 0).all()
    assert abs(brightness[-1] - brightness[0]) > 0.7


def test_nothing_is_white_and_one_is_dark():
    assert style.hex_colour(0.0) == "#ffffff"
    assert style.palette()[-1].max() < 80
    assert style.hex_colour(1.7) == style.hex_colour(1.0)


def test_cells_shrink_and_never_grow_with_more_labels():
    cells = [style.sizes(count).cell for count in (0, 1, 30, 60, 200, 512)]
    assert cells == sorted(cells, reverse=True)
    assert cells[-1] > 0.1


def test_resolution_bounds_the_picture():
    assert style.resolution(3.0, 5.0) == 200
    assert style.resolution(70.0, 3.0) * 70 <= 7000
