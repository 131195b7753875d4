"""Charts: the same lines give the same picture, and every point is on it."""

import numpy as np
import pytest

from regard.pictures.chart import Chart, Grid, charts

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


def test_one_line_needs_no_legend():
    (axes,) = charts([Chart("", "", "", {"only": [(0.0, 1.0)]})]).axes
    assert axes.get_legend() is None


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="got no chart"):
        charts([])


def test_a_grid_has_a_cell_and_its_number_for_each():
    (axes,) = charts([Grid("t", "head", {"one": [12.34, 80.0], "two": [5.0]})]).axes
    assert sorted(text.get_text() for text in axes.texts) == ["12.3", "5", "80"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    (mesh,) = axes.collections
    shown = np.ma.asarray(mesh.get_array())
    assert np.ma.getmaskarray(shown).tolist() == [[False, False], [False, True]]


def test_whole_numbers_are_not_parted():
    (axes,) = charts([Chart("", "layer", "", {"only": [(0.0, 50.0), (1.0, 99.0), (2.0, 99.5)]})]).axes
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
