import numpy as np
import pytest

from regard.pictures import style
from regard.pictures.page import stylesheet


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
    assert style.hex_color(0.0) == "#ffffff"
    assert style.palette()[-1].max() < 80
    assert style.hex_color(1.7) == style.hex_color(1.0)


def test_cells_shrink_and_never_grow_with_more_labels():
    cells = [style.cell_side(count) for count in (0, 1, 30, 60, 200, 512)]
    assert cells == sorted(cells, reverse=True)
    assert cells[-1] > 0.1


def test_resolution_bounds_the_picture():
    assert style.resolution(3.0, 5.0) == 200
    assert style.resolution(70.0, 3.0) * 70 <= 7000


# Machado 2009 (10.1109/TVCG.2009.113): what eyes without one kind of cone see, on linear sRGB.
SEEN = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def oklab(colours):
    """Linear sRGB to Oklab (Ottosson 2020)."""
    to_lms = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    to_lms += [[0.0883024619, 0.2817188376, 0.6299787005]]
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    to_lab += [[0.0259040371, 0.7827717662, -0.8086757660]]
    return np.cbrt(np.clip(colours, 0, 1) @ np.transpose(to_lms)) @ np.transpose(to_lab)


def of_hex(colours):
    return linear(np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in colours]))


@pytest.mark.parametrize("colours", [style.COLORS, style.DARK_COLORS], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN)
def test_colours_of_heads_are_told_apart_by_everybody(eyes, colours):
    seen = oklab(of_hex(colours) @ np.transpose(SEEN[eyes]))
    apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(len(seen), 1)]
    assert apart.min() > 0.14


def contrast(first, second):
    """WCAG 2.1, relative luminance: 1 to 21."""
    bright, dark = sorted((float(each @ [0.2126, 0.7152, 0.0722]) for each in (first, second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_lines_and_letters_stand_out_from_what_is_behind_them():
    (paper, ink), shades = of_hex([style.PAPER, style.INK]), linear(style.palette())
    assert min(contrast(colour, paper) for colour in of_hex(style.COLORS)) > 2.99
    (dark,) = of_hex([style.DARK_PAPER])
    assert min(contrast(colour, dark) for colour in of_hex(style.DARK_COLORS)) > 2.99
    assert f"--paper: {style.DARK_PAPER}" in stylesheet()
    for step, shade in enumerate(shades):
        assert contrast(paper if step / 255 > style.DARK else ink, shade) > 4


def test_two_sides_of_nothing():
    both = style.diverging()
    np.testing.assert_array_equal(both[255:], style.palette())
    assert (both[255] == 255).all()
    assert (np.diff(linear(both[:256]).sum(-1)[::5]) > 0).all()
