from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from regard.errors import InputError
from regard.pictures.style import plotting
from regard.pictures.views import MAX_LINES, WIDEST, lines

WORDS = ("Das", "注意", "groß", "مرحبا", "</s>")
WEIGHTS = np.array([[[0.6, 0.3, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0, 1.0], [0.2] * 5]])


def drawn(figure, samples: int) -> list[Any]:
    """The lines of each head, without the samples of the legend."""
    return [each for each in figure.artists if isinstance(each, LineCollection)][samples:]


def figure(threshold: float = 0.15):
    return lines(WEIGHTS, WORDS, ("a", "b"), ("layer 0, head 0", "layer 0, head 1"), threshold=threshold, title="$x$")


@pytest.mark.usefixtures("chinese")
def test_a_line_for_each_weight_that_is_not_under_the_threshold():
    first, second = drawn(figure(), 2)
    assert (len(first.get_segments()), len(second.get_segments())) == (2, 6)
    np.testing.assert_allclose(sorted(first.get_linewidths()), [0.3 * WIDEST, 0.6 * WIDEST])
    assert [len(each.get_segments()) for each in drawn(figure(0.0), 2)] == [3, 6]
    assert [len(each.get_segments()) for each in drawn(figure(1.0), 2)] == [0, 1]


@pytest.mark.usefixtures("chinese")
def test_from_what_reads_at_the_left_to_what_is_read_at_the_right():
    (_, second), places = drawn(figure(), 2), {}
    for text in figure().texts:
        places[text.get_text()] = text.get_position()
    begin, end = second.get_segments()[-1]
    assert places["a"][0] < begin[0] < end[0] < places["∎"][0]
    assert abs(begin[1] - places["a"][1]) < 0.1
    assert abs(end[1] - places["∎"][1]) < 0.1


@pytest.mark.usefixtures("chinese")
def test_everything_is_named_and_the_threshold_is_said():
    shown = {text.get_text() for text in figure().texts}
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


def test_everything_is_inside():
    found = lines(np.ones((1, 1, 1)), ("Donaudampfschifffahrtsgesellschaft",), ("y" * 60,), ("h",), title="t" * 60)
    with plotting():  # which is how it is written
        boxes = [text.get_window_extent() for text in found.texts]
    assert min(min(box.x0, box.y0) for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= found.bbox.x1
    assert max(box.y1 for box in boxes) <= found.bbox.y1


def test_heads_that_nobody_could_tell_apart():
    styles = set()
    for each in drawn(lines(np.ones((MAX_LINES, 1, 1)), ("a",), ("b",), ("h",) * MAX_LINES), 0)[:MAX_LINES]:
        styles.add((tuple(each.get_colors()[0]), str(each.get_linestyles()[0])))
    assert len(styles) == MAX_LINES
    with pytest.raises(InputError, match="17 heads are too many for lines; choose at most 16"):
        lines(np.ones((MAX_LINES + 1, 1, 1)), ("a",), ("b",), ("h",) * (MAX_LINES + 1))


def test_a_picture_without_a_line_says_so():
    shown = [text.get_text() for text in lines(np.full((1, 1, 9), 1 / 9), WORDS[:1] * 9, ("a",), ("h",)).texts]
    assert "no weight is larger" in " ".join(shown)
