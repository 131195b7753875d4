import numpy as np
import pytest

from regard.maps import Alignment
from regard.pictures import heatmap
from regard.pictures.style import choose_scale_end, plotting


def drawn(figure):
    axes, bar = figure.axes
    return axes, bar, [text.get_text() for text in axes.get_xticklabels()]


def test_source_on_top_target_down_the_side(alignment):
    axes, _, source = drawn(heatmap(alignment))
    assert source == ["Das", "Haus", "ist", "groß", "."]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["The", "مرحبا", "␣"]
    assert axes.yaxis_inverted()
    np.testing.assert_array_equal(axes.collections[0].get_array(), alignment.weights)


def test_the_scale_is_fixed():
    faint = Alignment(np.full((2, 3), 0.01), ("a", "b", "c"), ("x", "y"))
    axes, bar, _ = drawn(heatmap(faint))
    assert axes.collections[0].get_clim() == (0, 1)
    assert bar.get_ylim() == (0, 1)
    assert bar.get_title() == ""


def test_the_name_of_a_short_axis_ends_above_the_legend():
    figure = heatmap(Alignment(np.ones((1, 2)), ("a", "</s>"), ("b",)))
    name, legend = (
        next(each for each in figure.texts if part in each.get_text()) for part in ("target", "end of text")
    )
    assert name.get_window_extent().y0 >= legend.get_window_extent().y1


@pytest.mark.parametrize("shape", [(1, 1), (2, 13), (17, 3), (70, 60)])
def test_cells_are_equal_squares(shape):
    figure = heatmap(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0]))
    box = figure.axes[0].get_window_extent()
    assert box.width / shape[1] == pytest.approx(box.height / shape[0])


def test_the_figure_grows_with_the_labels():
    widths = [
        heatmap(Alignment(np.zeros((3, count)), ("s",) * count, ("t",) * 3)).get_size_inches()[0]
        for count in (2, 11, 47, 101)
    ]
    assert widths == sorted(set(widths))


@pytest.mark.parametrize("title", ["", "A title that is much longer than the matrix is wide, so the figure widens"])
def test_everything_is_inside_and_no_label_meets_another(title):
    source = ("Donaudampfschifffahrtsgesellschaft", "fährt", "$x^2$", "nicht", "</s>")
    figure = heatmap(Alignment(np.eye(4, 5), source, ("one", "two", "a rather long target label", "four")), title=title)
    axes, bar = figure.axes
    for side in (axes.get_xticklabels(), axes.get_yticklabels()):
        boxes = [text.get_window_extent() for text in side]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        boxes += [text.get_window_extent() for text in [*bar.get_yticklabels(), *figure.texts]]
        assert min(min(box.x0, box.y0) for box in boxes) >= 0
        assert max(box.x1 for box in boxes) <= figure.bbox.x1
        assert max(box.y1 for box in boxes) <= figure.bbox.y1


@pytest.mark.usefixtures("chinese")
def test_short_labels_stand_upright_long_ones_are_turned():
    def rotation(source):
        figure = heatmap(Alignment(np.zeros((1, len(source))), source, ("t",)))
        return [text.get_rotation() for text in figure.axes[0].get_xticklabels()]

    assert rotation(("a", "b")) == [0, 0]
    assert rotation(("aa", "a", "longer")) == [90, 0, 90]
    assert rotation(("注意", "longer")) == [0, 90]


@pytest.mark.usefixtures("chinese")
def test_characters_that_stand_upright_are_stacked():
    figure = heatmap(Alignment(np.zeros((1, 2)), ("注意", "longer"), ("t",)))
    with plotting():
        figure.canvas.draw()
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["注\n意", "longer"]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_show_is_still_a_picture(shape):
    figure = heatmap(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0]))
    assert not figure.axes[0].collections
    assert min(figure.get_size_inches()) > 0


def test_a_row_of_zeros_is_white():
    weights = np.array([[0.0, 0.0], [1.0, 0.0]])
    figure = heatmap(Alignment(weights, ("a", "b"), ("x", "y")))
    mesh = figure.axes[0].collections[0]
    colours = mesh.to_rgba(weights)
    np.testing.assert_array_equal(colours[0], np.ones((2, 4)))
    assert colours[1, 0, :3].max() < 0.35


def test_groups_of_rows_are_named_at_their_first_row_left_of_all_labels():
    rows = Alignment(np.eye(5), tuple("abcde"), ("ein", "Hund", "läuft", "a", "dog"))
    figure = heatmap(rows, groups={0: "german", 3: "english"})
    figure.canvas.draw()
    names = [next(each for each in figure.texts if each.get_text() == name) for name in ("german", "english")]
    labels = [each.get_window_extent() for each in figure.axes[0].get_yticklabels()]
    for name, first in zip(names, (0, 3), strict=True):
        place = name.get_window_extent()
        assert place.x1 < min(each.x0 for each in labels)
        assert abs((place.y0 + place.y1) - (labels[first].y0 + labels[first].y1)) < 8
    assert [line.get_ydata()[0] for line in figure.axes[0].lines] == [3]  # pyright: ignore[reportIndexIssue]


def test_a_line_says_that_no_query_prefers_a_key():
    even, uneven = np.full((2, 6), 1 / 6), np.array([[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], [1 / 6] * 6])
    notes = [
        [text.get_text() for text in heatmap(Alignment(each, tuple("abcdef"), ("x", "y")), title="t").texts]
        for each in (even, uneven, np.zeros((2, 6)))
    ]
    assert ["nearly even: no query prefers a key" in each for each in notes] == [True, False, False]


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
