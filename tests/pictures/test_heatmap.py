import numpy as np
import pytest

from regard.maps import Alignment
from regard.pictures import heatmap
from regard.pictures.style import choose_scale_end


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
