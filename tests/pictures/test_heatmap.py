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


def texts(figure):
    return {text.get_text(): text for text in figure.texts}


def test_source_on_top_target_down_the_side(alignment):
    figure = heatmap(alignment)
    axes, labels = figure.axes[0], texts(figure)
    places = {label: labels[label].get_position() for label in (*alignment.source, "The", "مرحبا", "␣")}
    source, target = [places[label] for label in alignment.source], [places[label] for label in ("The", "مرحبا", "␣")]
    assert source == sorted(source)
    assert len({y for _, y in source}) == 1
    assert target == sorted(target, key=lambda place: place[1])  # inches from the top
    assert len({x for x, _ in target}) == 1
    assert axes.yaxis_inverted()
    np.testing.assert_array_equal(axes.collections[0].get_array(), alignment.weights)
    assert axes.collections[0].get_clim() == (0, 1)


def test_the_name_of_a_short_axis_ends_above_the_legend():
    shown = texts(heatmap(Alignment(np.ones((1, 2)), ("a", "</s>"), ("b",))))
    name, legend = shown["← target (queries)"], shown["∎ end of text"]
    assert name.get_window_extent().y0 >= legend.get_window_extent().y1


@pytest.mark.parametrize("shape", [(1, 1), (2, 13), (17, 3), (70, 60)])
def test_cells_are_equal_squares(shape):
    figure = heatmap(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0]))
    box = figure.axes[0].get_window_extent()
    assert box.width / shape[1] == pytest.approx(box.height / shape[0])


@pytest.mark.parametrize("title", ["", "A title that is much longer than the matrix is wide, so the figure widens"])
def test_everything_is_inside_and_no_label_meets_another(title):
    source = ("Donaudampfschifffahrtsgesellschaft", "fährt", "$x^2$", "nicht", "</s>")
    figure = heatmap(Alignment(np.eye(4, 5), source, ("one", "two", "a rather long target label", "four")), title=title)
    shown = texts(figure)
    for side in (source[:-1], ("one", "two", "a rather long target label", "four")):
        boxes = [shown[label].get_window_extent() for label in side]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    boxes = [text.get_window_extent() for text in [*figure.axes[1].get_yticklabels(), *figure.texts]]
    assert min(min(box.x0, box.y0) for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    assert max(box.y1 for box in boxes) <= figure.bbox.y1


@pytest.mark.usefixtures("chinese")
def test_short_labels_stand_upright_or_are_stacked_and_long_ones_are_turned():
    def rotations(*source):
        shown = texts(heatmap(Alignment(np.zeros((1, len(source))), source, ("t",))))
        return {label: text.get_rotation() for label, text in shown.items() if set(label) <= set("abnlogerx注意\n")}

    assert rotations("a", "b") == {"a": 0, "b": 0}
    assert rotations("aa", "a", "longer") == {"aa": 90, "a": 0, "longer": 90}
    assert rotations("注意", "longer") == {"注\n意": 0, "longer": 90}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_show_is_still_a_picture(shape):
    figure = heatmap(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0]))
    assert not figure.axes[0].collections
    assert min(figure.get_size_inches()) > 0


def test_groups_of_rows_are_named_at_their_first_row_left_of_all_labels():
    rows = Alignment(np.eye(5), tuple("abcde"), ("ein", "Hund", "läuft", "eat", "dog"))
    figure = heatmap(rows, groups={0: "german", 3: "english"})
    shown = {label: text.get_window_extent() for label, text in texts(figure).items()}
    for name, first in (("german", "ein"), ("english", "eat")):
        assert shown[name].x1 < min(shown[label].x0 for label in rows.target)
        assert abs((shown[name].y0 + shown[name].y1) - (shown[first].y0 + shown[first].y1)) < 8
    assert [line.get_ydata()[0] for line in figure.axes[0].lines] == [3]  # pyright: ignore[reportIndexIssue]


def test_a_line_says_that_no_query_prefers_a_key():
    even, uneven = np.full((2, 6), 1 / 6), np.array([[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], [1 / 6] * 6])
    notes = [texts(heatmap(Alignment(item, tuple("abcdef"), ("x", "y")))) for item in (even, uneven, np.zeros((2, 6)))]
    assert ["nearly even: no query prefers a key" in note for note in notes] == [True, False, False]


def test_axes_are_named_by_their_roles():
    assert {"keys →", "← queries"} <= set(texts(heatmap(Alignment(np.eye(2), ("a", "b"), ("a", "b")))))
    two = Alignment(np.eye(2), ("a", "b"), ("c", "d"))
    assert {"source (keys) →", "← target (queries)"} <= set(texts(heatmap(two)))
    pair = heatmap(two, sides=("first text", "second text"))
    assert {"first text (keys) →", "← second text (queries)"} <= set(texts(pair))


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


def panels(figure):
    return figure.axes[:-1]


@pytest.mark.usefixtures("chinese")
def test_a_matrix_a_map_in_rows_of_layers():
    found = panels(multiples(MAPS, NAMES, (2, 3), MAP_LABELS))
    for axes, weights in zip(found, MAPS, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    tops = [round(axes.get_position().y1, 6) for axes in found]
    assert tops[0] == tops[1] > tops[2] == tops[3] == tops[4]


@pytest.mark.parametrize(("asked", "most"), [(None, 0.3), (0.1, 0.1), (1.0, 1.0)])
def test_one_scale_which_the_bar_says(asked: float | None, most: float):
    weights = MAPS * 0.21 / MAPS.max()
    figure = multiples(weights, NAMES, (5,), vmax=asked)
    assert {axes.images[0].get_clim() for axes in panels(figure)} == {(0, most)}
    ticks = [text.get_text() for text in figure.axes[-1].get_yticklabels()]
    assert ticks == ["0", f"{most / 2:g}", f"{most:g}"]


@pytest.mark.usefixtures("chinese")
def test_pieces_are_named_where_there_is_room():
    named = {text.get_text() for text in multiples(MAPS, NAMES, (5,), MAP_LABELS).texts}
    assert {"Das", "注\n意", "مرحبا", "a", "$b$"} <= named
    many = multiples(np.zeros((12, 40, 40)), ("m",) * 12, (6, 6), (("s",) * 40, ("t",) * 40))
    labels = [text.get_text() for text in many.texts]
    assert 5 <= labels.count("s") // 6 == labels.count("t") // 2 < 40  # too many for the room: some, on the outer edge
    some = multiples(np.zeros((4, 24, 24)), ("m",) * 4, (4,), (("s",) * 24, ("t",) * 24))
    assert [text.get_text() for text in some.texts].count("t") == 24


@pytest.mark.usefixtures("chinese")
def test_everything_of_several_maps_is_inside_and_nothing_overlaps():
    names = [f"a rather long name {number}" for number in range(5)]
    figure = multiples(MAPS, names, (2, 3), MAP_LABELS, title="t" * 50)
    with plotting():  # which is how it is written
        boxes = {text.get_text(): text.get_window_extent() for text in figure.texts}
    assert min(min(box.x0, box.y0) for box in boxes.values()) >= 0
    assert max(box.x1 for box in boxes.values()) <= figure.bbox.x1
    assert max(box.y1 for box in boxes.values()) <= figure.bbox.y1
    for group in ([axes.get_window_extent() for axes in panels(figure)], [boxes[name] for name in (*names, "Das")]):
        assert not any(a.overlaps(b) for i, a in enumerate(group) for b in group[:i])


def test_a_long_layer_is_broken():
    count = MAX_COLUMNS + 3
    found = panels(multiples(np.ones((count, 2, 2)), ("m",) * count, (count,)))
    assert len({round(axes.get_position().y1, 6) for axes in found}) == 2


def test_512_pieces_of_144_heads_are_refused():
    with pytest.raises(InputError, match=r"144 maps of 512 x 512 weights are 37.7 million cells; at most 4 million"):
        multiples(np.broadcast_to(np.zeros(1), (144, 512, 512)), ("m",) * 144, (12,) * 12)


WORDS = ("Das", "注意", "groß", "مرحبا", "</s>")
WEIGHTS = np.array([[[0.6, 0.3, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0, 1.0], [0.2] * 5]])


def collections(figure, samples: int) -> list[Any]:
    """The lines of each head, without the samples of the legend."""
    return [each for each in figure.artists if isinstance(each, LineCollection)][samples:]


def line_figure(threshold: float = 0.15):
    return lines(WEIGHTS, WORDS, ("a", "b"), ("layer 0, head 0", "layer 0, head 1"), threshold=threshold, title="$x$")


@pytest.mark.usefixtures("chinese")
def test_a_line_for_each_weight_that_is_not_under_the_threshold():
    first, second = collections(line_figure(), 2)
    assert (len(first.get_segments()), len(second.get_segments())) == (2, 6)
    np.testing.assert_allclose(sorted(first.get_linewidths()), [0.3 * WIDEST, 0.6 * WIDEST])
    assert [len(each.get_segments()) for each in collections(line_figure(0.0), 2)] == [3, 6]
    assert [len(each.get_segments()) for each in collections(line_figure(1.0), 2)] == [0, 1]


@pytest.mark.usefixtures("chinese")
def test_from_what_reads_at_the_left_to_what_is_read_at_the_right():
    (_, second), places = collections(line_figure(), 2), {}
    for text in line_figure().texts:
        places[text.get_text()] = text.get_position()
    begin, end = second.get_segments()[-1]
    assert places["a"][0] < begin[0] < end[0] < places["∎"][0]
    assert abs(begin[1] - places["a"][1]) < 0.1
    assert abs(end[1] - places["∎"][1]) < 0.1


@pytest.mark.usefixtures("chinese")
def test_everything_is_named_and_the_threshold_is_said():
    shown = {text.get_text() for text in line_figure().texts}
    assert {
        *WORDS[:-1],
        "∎",
        "∎ end of text",
        "a",
        "b",
        "target (queries)",
        "source (keys)",
        "layer 0, head 1",
        "$x$",
    } <= shown
    assert "a line is as wide as its weight; weights under 0.15 have none" in shown


def test_all_of_a_picture_of_lines_is_inside():
    found = lines(np.ones((1, 1, 1)), ("Donaudampfschifffahrtsgesellschaft",), ("y" * 60,), ("h",), title="t" * 60)
    with plotting():  # which is how it is written
        boxes = [text.get_window_extent() for text in found.texts]
    assert min(min(box.x0, box.y0) for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= found.bbox.x1
    assert max(box.y1 for box in boxes) <= found.bbox.y1


def test_heads_that_nobody_could_tell_apart():
    styles = set()
    for each in collections(lines(np.ones((MAX_LINES, 1, 1)), ("a",), ("b",), ("h",) * MAX_LINES), 0)[:MAX_LINES]:
        styles.add((tuple(each.get_colors()[0]), str(each.get_linestyles()[0])))
    assert len(styles) == MAX_LINES
    with pytest.raises(InputError, match="17 heads are too many for lines; choose at most 16"):
        lines(np.ones((MAX_LINES + 1, 1, 1)), ("a",), ("b",), ("h",) * (MAX_LINES + 1))


def test_a_picture_without_a_line_says_so():
    shown = [text.get_text() for text in lines(np.full((1, 1, 9), 1 / 9), WORDS[:1] * 9, ("a",), ("h",)).texts]
    assert "no weight is larger" in " ".join(shown)
