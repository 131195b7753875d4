"""Charts: the same lines give the same picture, and every point is on it."""

import numpy as np
import pytest

from regard.pictures.chart import LONG, Chart, Grid, Pairs, charts, png
from regard.pictures.style import COLORS, plotting

LINES = {"a $x$ line": [(1.0, 2.0), (10.0, 20.0)], "another": [(1.0, 3.0), (10.0, 5.0), (100.0, 1.0)]}


def test_the_same_bytes_for_the_same_charts():
    one = Chart("title", "x", "y", LINES, ("log", "linear"))
    first = png([one, one])
    assert first == png([one, one])
    assert first.startswith(b"\x89PNG")
    assert len(first) > 5000


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


def test_names_of_the_same_lines_are_told_once():
    """By the last of the charts that have them, which may have more."""
    shown = [Chart("a", "", "", many(4)), Chart("b", "", "", many(4)), Chart("c", "", "", many(5))]
    figure = charts([*shown, Chart("d", "", "", dict(reversed(many(4).items())))])
    assert [axes.get_legend() is not None for axes in figure.axes] == [False, False, True, True]


def test_more_lines_than_colours_are_told_apart():
    (axes,) = charts([Chart("", "", "", many(20))]).axes
    styles = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) == 20


def test_dashes_are_seen_beside_the_names_of_lines():
    lines = {f"line {number}": [(0.0, 1.0), (1.0, float(number))] for number in range(len(COLORS) + 1)}
    with plotting():
        legend = charts([Chart("t", "x", "y", lines)]).axes[0].get_legend()
    assert legend is not None
    assert legend.get_lines()[-1].get_linestyle() == "--"
    assert legend.handlelength == LONG


def test_pairs_have_both_numbers_on_one_line_and_a_remark():
    rows = {"one $x$": (2.0, 2.5), "two": (1.0, 0.75)}
    (axes,) = charts([Pairs("t", "x", rows, {"one $x$": "40 ms", "two": "3 ms"}, ("counted", "measured"))]).axes
    counted, measured = axes.get_lines()
    shown = [np.asarray(each.get_xdata()).tolist() for each in (counted, measured)]
    assert shown == [[2.0, 1.0], [2.5, 0.75]]
    assert [label.get_text() for label in axes.get_yticklabels()] == [*rows]
    assert [text.get_text() for text in axes.texts] == ["40 ms", "3 ms"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["counted", "measured"]
    low, high = axes.get_xlim()
    assert low == 0
    assert 2.5 < high <= 3
    assert axes.yaxis_inverted()
