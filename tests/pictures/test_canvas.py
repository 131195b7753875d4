"""Titles, colours, sizes and charts."""

from dataclasses import replace

import numpy as np
import pytest

from regard.pictures import canvas
from regard.pictures.canvas import TITLE_LETTERS, grid_figure, plotting
from regard.pictures.chart import Chart, Grid, charts
from regard.pictures.page import stylesheet
from regard.tasks.options import GeneratedText
from tests.attribution.untrained import writing


def test_a_long_title_is_wrapped_and_details_are_never_cut():
    title = "word " * 300 + "\nnorms of weight × value, source 0:4, target 4:8"
    with plotting(title):
        figure, ((axes,),) = grid_figure(title, 1, 1, (4.5, 1.0), "a note", "")
        figure.draw_without_rendering()
    first, *details = figure.get_suptitle().splitlines()
    assert len(first) == TITLE_LETTERS
    assert first.endswith("…")
    assert details == ["norms of weight × value, source 0:4, target 4:8", "a note"]
    box = figure.texts[0].get_window_extent()
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= axes.get_window_extent().y1
    assert axes.get_window_extent().height > 0.6 * figure.dpi


def test_an_output_that_ends_at_its_length_limit_is_marked():
    found = writing().attribute("the cat")
    assert isinstance(found.prediction, GeneratedText)
    assert not found.prediction.finished
    assert found.heading.splitlines()[-1] == "the output reached the length limit unfinished"
    ended = replace(found, prediction=replace(found.prediction, finished=True))
    assert "unfinished" not in ended.heading
    empty = replace(ended, prediction=replace(found.prediction, finished=True, text=" "))
    assert empty.heading.splitlines()[-1] == "the output is empty"
    forced = replace(ended, options=replace(found.options, target="the cat"))
    assert forced.heading.splitlines()[-1] == "the output was given (--force), not predicted"


def linear(colours):
    value = colours / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("dark", [False, True])
def test_brightness_runs_in_one_direction(dark):
    brightness = linear(canvas.palette(dark)) @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(brightness[::5])
    assert (steps > 0).all() if dark else (steps < 0).all()
    assert abs(brightness[-1] - brightness[0]) > 0.7


def test_nothing_is_white_and_one_is_dark():
    assert canvas.hex_color(0.0) == "#ffffff"
    assert canvas.palette()[-1].max() < 80
    assert canvas.hex_color(1.7) == canvas.hex_color(1.0)


def test_cells_shrink_and_never_grow_with_more_labels():
    cells = [canvas.cell_side(count) for count in (0, 1, 30, 60, 200, 512)]
    assert cells == sorted(cells, reverse=True)
    assert cells[-1] > 0.1
    assert canvas.resolution(3.0, 5.0) == 200
    assert canvas.resolution(70.0, 3.0) * 70 <= 7000


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


@pytest.mark.parametrize("colours", [canvas.COLORS, canvas.DARK_COLORS], ids=["light", "dark"])
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
    (paper, ink), shades = of_hex([canvas.PAPER, canvas.INK]), linear(canvas.palette())
    assert min(contrast(colour, paper) for colour in of_hex(canvas.COLORS)) > 2.99
    (dark,) = of_hex([canvas.DARK_PAPER])
    assert min(contrast(colour, dark) for colour in of_hex(canvas.DARK_COLORS)) > 2.99
    assert f"--paper: {canvas.DARK_PAPER}" in stylesheet()
    for step, shade in enumerate(shades):
        assert contrast(paper if step / 255 > canvas.DARK else ink, shade) > 4


def test_two_sides_of_nothing():
    both = canvas.diverging()
    np.testing.assert_array_equal(both[255:], canvas.palette())
    assert (both[255] == 255).all()
    assert (np.diff(linear(both[:256]).sum(-1)[::5]) > 0).all()


LINES = {"a $x$ line": [(1.0, 2.0), (10.0, 20.0)], "another": [(1.0, 3.0), (10.0, 5.0), (100.0, 1.0)]}


def test_every_line_is_drawn_with_its_points_scales_and_names():
    figure = charts([Chart("cost $", "width", "seconds", LINES, ("log", "linear"))])
    (axes,) = figure.axes
    drawn = {line.get_label(): list(map(tuple, np.asarray(line.get_xydata()).tolist())) for line in axes.get_lines()}
    assert drawn == LINES
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert axes.get_title(loc="left") == "cost $"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(LINES)
    styles = {(line.get_color(), line.get_marker()) for line in axes.get_lines()}
    assert len(styles) == 2


def test_a_grid_has_a_cell_and_its_number_for_each():
    (axes,) = charts([Grid("t", "head", {"one": [12.34, 80.0], "two": [5.0]})]).axes
    assert sorted(text.get_text() for text in axes.texts) == ["12.3", "5", "80", "–"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    (mesh,) = axes.collections
    shown = np.ma.asarray(mesh.get_array())
    assert np.ma.getmaskarray(shown).tolist() == [[False, False], [False, True]]


def test_one_line_needs_no_legend_and_whole_numbers_are_not_parted():
    (axes,) = charts([Chart("", "layer", "", {"only": [(0.0, 50.0), (1.0, 99.0), (2.0, 99.5)]})]).axes
    assert axes.get_legend() is None
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def many(count: int) -> dict[str, list[tuple[float, float]]]:
    return {f"line {number}": [(1.0, number + 1.0), (10.0, 5.0)] for number in range(count)}


def test_five_charts_stand_in_two_rows():
    figure = charts([Chart(str(number), "", "", many(1)) for number in range(5)])
    places = [axes.get_subplotspec() for axes in figure.axes]
    found = [(place.rowspan.start, place.colspan.start) for place in places if place is not None]
    assert found == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert figure.get_size_inches()[1] == 2 * charts([Chart("", "", "", many(1))]).get_size_inches()[1]


def test_more_lines_than_colours_are_told_apart():
    (axes,) = charts([Chart("", "", "", many(20))]).axes
    styles = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) == 20
