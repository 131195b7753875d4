"""The strongest positions of a long source."""

import numpy as np
import pytest

from regard.maps.alignment import OMITTED, Alignment, is_long, select_strongest
from regard.pictures.heatmap import heatmap
from regard.tasks.attribution import BEGINNING, Attribution, shorten_title
from regard.tasks.options import GeneratedText


def long_map(sources: int = 200) -> Alignment:
    weights = np.full((2, sources), 0.5 / sources)
    weights[0, 0] = weights[1, sources // 2] = 0.5
    return Alignment(weights, tuple(f"w{place}" for place in range(sources)), ("a", "b"))


@pytest.mark.parametrize(("shape", "long"), [((2, 65), True), ((2, 64), False), ((17, 68), False), ((0, 65), True)])
def test_a_long_source_is_one_of_many_positions_and_few_targets(shape, long):
    assert is_long(Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0])) is long


def test_the_strongest_positions_stay_in_order_between_their_neighbours():
    found = select_strongest(long_map(), count=6)
    assert found.alignment.source == ("w0", "w1", OMITTED, "w99", "w100", "w101", OMITTED)
    assert found.gaps == (2, 6)
    assert found.alignment.weights[:, list(found.gaps)].sum() == 0
    assert found.alignment.weights[0, 0] == found.alignment.weights[1, 4] == 0.5
    assert found.note == (
        "5 of 200 source tokens, those with most weight and their neighbors; … stands for others, which have 49 % of "
        "the weight"
    )


def test_the_columns_of_gaps_are_grey():
    plain, marked = heatmap(long_map(5)), heatmap(long_map(5), gaps=(1, 3))
    assert len(marked.axes[0].patches) == len(plain.axes[0].patches) + 2


def test_the_picture_of_a_long_source_has_its_strongest_positions_on_a_scale_of_its_own():
    prediction = GeneratedText("a b", 0.0, True, ("a", "b"), None)
    found = Attribution(prediction, "text", (), long_map(600)).figure()
    shown = {label.get_text() for label in found.axes[0].get_xticklabels()}
    assert {"w0", "w300"} < shown
    assert len(shown) < 60
    assert found.axes[0].collections[0].get_clim() == (0, 0.5)
    assert "of 600 source tokens" in found.get_suptitle()


def test_a_long_source_is_the_title_by_its_first_words():
    assert shorten_title("a short source") == "a short source"
    assert shorten_title("word " * 90) == f"{'word ' * 29}word …"
    assert shorten_title("字" * 400) == f"{'字' * BEGINNING} …"
    found = Attribution(GeneratedText("a b", 0.0, True, ("a", "b"), None), "word " * 90, (), long_map(9))
    assert found.heading == f"{'word ' * 29}word …"
