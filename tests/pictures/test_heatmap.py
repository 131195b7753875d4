"""Matrices, several of them, and lines between labels."""

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from regard.errors import InputError
from regard.maps import Alignment
from regard.pictures import heatmap
from regard.pictures.canvas import choose_scale_end, plotting
from regard.pictures.heatmap import MAX_COLUMNS, multiples
from regard.pictures.views import MAX_LINES, WIDEST, lines


def labels(ticks: Any) -> list[str]:
    return [tick.get_text() for tick in ticks]


def no_part_is_cut(figure: Any) -> None:
    with plotting():  # which is how it is written
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) > -0.02
    assert box.x1 < width + 0.02
    assert box.y1 < height + 0.02


def overlap(boxes: list[Any]) -> bool:
    return any(one.overlaps(two) for number, one in enumerate(boxes) for two in boxes[:number])


@pytest.mark.usefixtures("chinese")
def test_source_on_top_target_down_the_side(alignment):
    axes = heatmap(alignment).axes[0]
    assert labels(axes.get_xticklabels())[:2] == list(alignment.source[:2])
    assert labels(axes.get_yticklabels()) == ["The", "مرحبا", "␣"]
    assert axes.yaxis_inverted()
    np.testing.assert_array_equal(axes.collections[0].get_array(), alignment.weights)
    assert axes.collections[0].get_clim() == (0, 1)


@pytest.mark.parametrize("shape", [(1, 1), (2, 13), (17, 3), (70, 60)])
def test_cells_are_equal_squares(shape):
    figure = heatmap(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0]))
    figure.draw_without_rendering()
    box = figure.axes[0].get_window_extent()
    assert box.width / shape[1] == pytest.approx(box.height / shape[0])
    assert box.width / shape[1] > 7  # dots of 72 per inch


@pytest.mark.parametrize("title", ["", "A title that is much longer than the matrix is wide, so the figure widens"])
def test_everything_is_inside_and_no_label_meets_another(title):
    source = ("Donaudampfschifffahrtsgesellschaft", "fährt", "$x^2$", "nicht", "</s>")
    figure = heatmap(Alignment(np.eye(4, 5), source, ("one", "two", "a rather long target label", "four")), title=title)
    no_part_is_cut(figure)
    for ticks in (figure.axes[0].get_xticklabels(), figure.axes[0].get_yticklabels()):
        assert not overlap([tick.get_window_extent() for tick in ticks])
    assert "∎ end of text" in figure.get_suptitle()


@pytest.mark.usefixtures("chinese")
def test_short_labels_stand_upright_or_are_stacked_and_long_ones_are_turned():
    def rotations(*source):
        ticks = heatmap(Alignment(np.zeros((1, len(source))), source, ("t",))).axes[0].get_xticklabels()
        return {tick.get_text(): tick.get_rotation() for tick in ticks}

    assert rotations("aa", "a", "longer") == {"aa": 90, "a": 0, "longer": 90}
    assert rotations("注意", "longer") == {"注\n意": 0, "longer": 90}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_show_is_still_a_picture(shape):
    figure = heatmap(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0]))
    assert not figure.axes[0].collections
    no_part_is_cut(figure)


def test_a_line_says_that_no_query_prefers_a_key():
    even, uneven = np.full((2, 6), 1 / 6), np.array([[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], [1 / 6] * 6])
    figures = [heatmap(Alignment(item, tuple("abcdef"), ("x", "y"))) for item in (even, uneven, np.zeros((2, 6)))]
    assert ["nearly even" in figure.get_suptitle() for figure in figures] == [True, False, False]


def test_axes_are_named_by_their_roles():
    two = Alignment(np.eye(2), ("a", "b"), ("c", "d"))
    figures = heatmap(Alignment(np.eye(2), ("a", "b"), ("a", "b"))), heatmap(two)
    figures = (*figures, heatmap(two, sides=("first text", "second text")))
    assert [(figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) for figure in figures] == [
        ("keys →", "← queries"),
        ("source (keys) →", "← target (queries)"),
        ("first text (keys) →", "← second text (queries)"),
    ]


@pytest.mark.parametrize(
    ("weights", "end"),
    [
        (np.full((3, 20), 0.05), 0.2),  # nearly even: four times an even weight
        (np.full((3, 20), 0.05) + 0.2 * np.eye(3, 20), 0.3),
        (np.eye(3, 20), 1.0),
        (np.zeros((3, 20)), 1.0),
    ],
)
def test_the_scale_of_small_weights(weights: np.ndarray, end: float):
    assert choose_scale_end(weights) == pytest.approx(end)
    assert choose_scale_end(weights[None]) == pytest.approx(end)


MAPS = np.random.default_rng(7).dirichlet(np.ones(3), size=(5, 2)) / 4
NAMES = tuple(f"map {number}" for number in range(5))
MAP_LABELS = ("Das", "注意", "مرحبا"), ("a", "$b$")


def cells(figure: Any) -> np.ndarray:
    return np.ma.asarray(figure.axes[0].images[0].get_array()).filled(np.nan)


@pytest.mark.usefixtures("chinese")
def test_a_matrix_a_map_in_rows_of_layers():
    figure = multiples(MAPS, NAMES, (2, 3), MAP_LABELS)
    names = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    for name, weights in zip(NAMES, MAPS, strict=True):
        left, top = names[name]
        np.testing.assert_array_equal(cells(figure)[top : top + 2, left : left + 3], weights)
    tops = [top for _, top in names.values()]
    assert tops[0] == tops[1] < tops[2] == tops[3] == tops[4]
    assert np.isfinite(cells(figure)).sum() == MAPS.size


@pytest.mark.parametrize(("asked", "end"), [(None, 0.3), (0.1, 0.1), (1.0, 1.0)])
def test_one_scale_which_the_bar_says(asked: float | None, end: float):
    weights = MAPS * 0.21 / MAPS.max()
    figure = multiples(weights, NAMES, (5,), vmax=asked)
    assert figure.axes[0].images[0].get_clim() == (0, end)
    assert labels(figure.axes[-1].get_yticklabels()) == ["0", f"{end / 2:g}", f"{end:g}"]


@pytest.mark.usefixtures("chinese")
def test_pieces_are_named_where_there_is_room():
    axes = multiples(MAPS, NAMES, (5,), MAP_LABELS).axes[0]
    assert [label for label in labels(axes.get_xticklabels()) if label] == ["Das", "注\n意", "مرحبا"] * 5
    assert [label for label in labels(axes.get_yticklabels()) if label] == ["a", "$b$"]
    axes = multiples(np.zeros((12, 40, 40)), ("m",) * 12, (6, 6), (("s",) * 40, ("t",) * 40)).axes[0]
    counts = labels(axes.get_xticklabels()).count("s") // 6, labels(axes.get_yticklabels()).count("t") // 2
    assert 5 <= counts[0] == counts[1] < 40
    axes = multiples(np.zeros((4, 24, 24)), ("m",) * 4, (4,), (("s",) * 24, ("t",) * 24)).axes[0]
    assert labels(axes.get_yticklabels()).count("t") == 24


@pytest.mark.usefixtures("chinese")
def test_everything_of_several_maps_is_inside_and_nothing_overlaps():
    names = [f"a rather long name {number}" for number in range(5)]
    figure = multiples(MAPS, names, (2, 3), MAP_LABELS, title="t" * 50)
    no_part_is_cut(figure)
    assert not overlap([text.get_window_extent() for text in figure.axes[0].texts])


def test_a_long_layer_is_broken():
    count = MAX_COLUMNS + 3
    figure = multiples(np.ones((count, 2, 2)), ("m",) * count, (count,))
    assert len({text.get_position()[1] for text in figure.axes[0].texts}) == 2


def test_512_pieces_of_144_heads_are_refused():
    with pytest.raises(InputError, match=r"144 maps of 512 x 512 weights are 37.7 million cells; at most 4 million"):
        multiples(np.broadcast_to(np.zeros(1), (144, 512, 512)), ("m",) * 144, (12,) * 12)


WORDS = ("Das", "注意", "groß", "مرحبا", "</s>")
WEIGHTS = np.array([[[0.6, 0.3, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0, 1.0], [0.2] * 5]])


def line_figure(threshold: float = 0.15):
    names = ("layer 0, head 0", "layer 0, head 1")
    return lines(WEIGHTS, WORDS, ("a", "b"), names, threshold=threshold, title="$x$")


def collections(figure: Any) -> list[Any]:
    """The lines of each head."""
    return [item for item in figure.axes[0].collections if isinstance(item, LineCollection)]


@pytest.mark.usefixtures("chinese")
def test_a_line_for_each_weight_that_is_not_under_the_threshold():
    first, second = collections(line_figure())
    assert (len(first.get_segments()), len(second.get_segments())) == (2, 6)
    np.testing.assert_allclose(sorted(first.get_linewidths()), [0.3 * WIDEST, 0.6 * WIDEST])
    assert [len(head.get_segments()) for head in collections(line_figure(0.0))] == [3, 6]
    assert [len(head.get_segments()) for head in collections(line_figure(1.0))] == [0, 1]


@pytest.mark.usefixtures("chinese")
def test_from_what_reads_at_the_left_to_what_is_read_at_the_right():
    figure = line_figure()
    _, second = collections(figure)
    places = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    begin, end = second.get_segments()[-1]
    assert places["a"][0] < begin[0] < end[0] < places["∎"][0]
    assert abs(begin[1] - places["a"][1]) < 0.5
    assert abs(end[1] - places["∎"][1]) < 0.5


@pytest.mark.usefixtures("chinese")
def test_everything_is_named_and_the_threshold_is_said():
    figure = line_figure()
    shown = set(labels(figure.axes[0].texts))
    assert {*WORDS[:-1], "∎", "a", "b", "target (queries)", "source (keys)"} <= shown
    assert labels(figure.legends[0].get_texts()) == ["layer 0, head 0", "layer 0, head 1"]
    note = "a line is as wide as its weight; weights under 0.15 have none"
    assert figure.get_suptitle().splitlines() == ["$x$", note, "∎ end of text"]


def test_all_of_a_picture_of_lines_is_inside():
    no_part_is_cut(
        lines(np.ones((1, 1, 1)), ("Donaudampfschifffahrtsgesellschaft",), ("y" * 60,), ("h",), title="t" * 60)
    )


def test_heads_that_nobody_could_tell_apart():
    styles = set()
    for head in collections(lines(np.ones((MAX_LINES, 1, 1)), ("a",), ("b",), ("h",) * MAX_LINES)):
        styles.add((tuple(head.get_colors()[0]), str(head.get_linestyles()[0])))
    assert len(styles) == MAX_LINES
    with pytest.raises(InputError, match="17 heads are too many for lines; choose at most 16"):
        lines(np.ones((MAX_LINES + 1, 1, 1)), ("a",), ("b",), ("h",) * (MAX_LINES + 1))


def test_a_picture_without_a_line_says_so():
    figure = lines(np.full((1, 1, 9), 1 / 9), WORDS[:1] * 9, ("a",), ("h",))
    assert "no weight is larger" in figure.get_suptitle()
