from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from regard.errors import InputError
from regard.maps import Alignment
from regard.pictures.shaded_text import MAX_PARTS, reading
from regard.pictures.style import hex_color

WEIGHTS = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
WORDS = "the", "cat", "sat"


def boxes(figure) -> list[Any]:
    return [each for each in figure.artists if isinstance(each, Rectangle)]


def colours(figure) -> list[str]:
    return ["#" + "".join(f"{round(part * 255):02x}" for part in each.get_facecolor()[:3]) for each in boxes(figure)]


def test_the_text_once_a_row_shaded_by_its_weights():
    figure = reading(Alignment(WEIGHTS, WORDS, ("le", "chat")), title="$x$")
    assert colours(figure) == [hex_color(weight) for weight in WEIGHTS.ravel()]
    shown = [text.get_text() for text in figure.texts]
    assert shown.count("cat") == 2
    assert {"le", "chat", "$x$"} <= set(shown)


def test_the_scale_is_said_and_weights_above_look_like_it():
    figure = reading(Alignment(WEIGHTS, WORDS, ("le", "chat")), vmax=0.5)
    assert colours(figure)[3:] == [hex_color(0.5), hex_color(1.0), hex_color(0.0)]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["0", "0.25", "0.5"]


def test_what_reads_is_framed_where_it_stands():
    own = boxes(_own(1))
    places = [(round(each.get_x(), 6), each.get_y()) for each in own]
    assert [each.get_fill() for each in own] == [True, True, True, False, True, True, True, False]
    assert (places[3], places[7]) == (places[1], places[6])
    assert all(each.get_fill() for each in boxes(_own(None)))


def _own(first: int | None):
    return reading(Alignment(WEIGHTS, WORDS, WORDS[1:]), first=first)


@pytest.mark.usefixtures("chinese")
def test_from_the_right_where_the_script_is_written_so():
    figure = reading(Alignment(WEIGHTS, ("كان", "الطفل", "注意"), ("one", "two")))
    left = [each.get_x() for each in boxes(figure)[:3]]
    assert left == sorted(left, reverse=True)
    (reader,) = [text for text in figure.texts if text.get_text() == "one"]
    assert reader.get_position()[0] > left[0]


def test_long_texts_are_broken_and_everything_is_inside():
    words = tuple(f"word{number}" for number in range(70))
    figure = reading(Alignment(np.zeros((2, 70)), words, ("one", "two")))
    edges = [each.get_window_extent() for each in boxes(figure)]
    assert len({round(edge.y0) for edge in edges}) > 8
    assert min(min(edge.x0, edge.y0) for edge in edges) >= 0
    assert max(edge.x1 for edge in edges) <= figure.bbox.x1


def test_too_much_is_refused():
    side = int(MAX_PARTS**0.5) + 1
    with pytest.raises(InputError, match=r"78 rows of 78 pieces are 6,084; at most 6,000 are drawn: choose rows"):
        reading(Alignment(np.zeros((side, side)), ("s",) * side, ("t",) * side))
