import numpy as np
import pytest

from regard.errors import InputError
from regard.pictures.heatmap import MAX_COLUMNS, multiples
from regard.pictures.style import plotting

WEIGHTS = np.random.default_rng(7).dirichlet(np.ones(3), size=(5, 2)) / 4
NAMES = tuple(f"map {number}" for number in range(5))
LABELS = ("Das", "注意", "مرحبا"), ("a", "$b$")


def panels(figure):
    return figure.axes[:-1]


@pytest.mark.usefixtures("chinese")
def test_a_matrix_a_map_in_rows_of_layers():
    found = panels(multiples(WEIGHTS, NAMES, (2, 3), LABELS))
    for axes, weights in zip(found, WEIGHTS, strict=True):
        np.testing.assert_array_equal(axes.collections[0].get_array(), weights)
    tops = [round(axes.get_position().y1, 6) for axes in found]
    assert tops[0] == tops[1] > tops[2] == tops[3] == tops[4]


@pytest.mark.parametrize(("asked", "most"), [(None, 0.3), (0.1, 0.1), (1.0, 1.0)])
def test_one_scale_which_the_bar_says(asked: float | None, most: float):
    weights = WEIGHTS * 0.21 / WEIGHTS.max()
    figure = multiples(weights, NAMES, (5,), vmax=asked)
    assert {axes.collections[0].get_clim() for axes in panels(figure)} == {(0, most)}
    ticks = [text.get_text() for text in figure.axes[-1].get_yticklabels()]
    assert ticks == ["0", f"{most / 2:g}", f"{most:g}"]


@pytest.mark.usefixtures("chinese")
def test_pieces_are_named_where_there_is_room():
    named = {text.get_text() for text in multiples(WEIGHTS, NAMES, (5,), LABELS).texts}
    assert {"Das", "注\n意", "مرحبا", "a", "$b$"} <= named
    many = multiples(np.zeros((12, 40, 40)), ("m",) * 12, (6, 6), (("s",) * 40, ("t",) * 40))
    labels = [text.get_text() for text in many.texts]
    assert 5 <= labels.count("s") // 6 == labels.count("t") // 2 < 40  # too many for the room: some, on the outer edge
    some = multiples(np.zeros((4, 24, 24)), ("m",) * 4, (4,), (("s",) * 24, ("t",) * 24))
    assert [text.get_text() for text in some.texts].count("t") == 24


@pytest.mark.usefixtures("chinese")
def test_everything_is_inside_and_nothing_overlaps():
    names = [f"a rather long name {number}" for number in range(5)]
    figure = multiples(WEIGHTS, names, (2, 3), LABELS, title="t" * 50)
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


def test_row_56_512_pieces_of_144_heads_are_refused():
    with pytest.raises(InputError, match=r"144 maps of 512 x 512 weights are 37.7 million cells; at most 4 million"):
        multiples(np.broadcast_to(np.zeros(1), (144, 512, 512)), ("m",) * 144, (12,) * 12)


@pytest.mark.parametrize("shape", [(1, 0, 3), (1, 3, 0), (2, 1, 1)])
def test_small_ones_are_drawn(shape):
    assert min(multiples(np.zeros(shape), ("m",) * shape[0], (shape[0],)).get_size_inches()) > 0
