from dataclasses import replace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from regard.data.tokens import Parts
from regard.errors import InputError
from regard.maps import TextWeights
from regard.pictures import shaded_text as module
from regard.pictures.shaded_text import draw_shaded_text, explain_colors
from regard.pictures.style import diverging
from regard.tasks.attribution import shade_parts, shade_text
from regard.text import Tokenizer, TokenizerSettings

FOUND = TextWeights(
    ("a", "dreadful", "film", "."), np.array([0.1, 0.8, 0.0, -0.1]), "negative", (0, 0, 1, 1), (False,) * 4
)


def boxes(figure) -> list[Rectangle]:
    return [each for each in figure.artists if isinstance(each, Rectangle)]


def test_each_word_has_the_colour_of_its_weight_and_sign():
    figure = draw_shaded_text(FOUND, title="negative 0.97\ngradient × input")
    found = [np.round(np.array(each.get_facecolor()[:3]) * 255) for each in boxes(figure)]
    np.testing.assert_array_equal(found, diverging()[[255 + 26, 255 + 204, 255, 255 - 26]])
    shown = {text.get_text() for text in figure.texts}
    assert {*FOUND.labels, "negative 0.97", "gradient × input"} <= shown
    assert "share of each word: blue for negative, orange against it" in shown
    assert [each.get_text() for each in figure.axes[0].get_xticklabels()] == ["-1", "0", "1"]


def test_the_scale_ends_at_the_greatest_share_but_at_least_at_four_times_an_even_one():
    def end(weights: np.ndarray) -> str:
        words = TextWeights(("a",) * len(weights), weights, "x", (0,) * len(weights), (False,) * len(weights))
        return draw_shaded_text(words).axes[0].get_xticklabels()[-1].get_text()

    assert end(np.full(20, 0.05)) == "0.2"
    assert end(np.array([0.62, *np.full(19, 0.02)])) == "0.7"


def test_a_second_text_begins_a_line_and_long_texts_are_broken():
    places = [each.get_y() for each in boxes(draw_shaded_text(FOUND))]
    assert places[0] == places[1] < places[2] == places[3]
    many = TextWeights(("word",) * 60, np.ones(60), "x", (0,) * 60, (False,) * 60)
    figure = draw_shaded_text(many)
    assert len({each.get_y() for each in boxes(figure)}) > 3
    assert max(each.get_x() + each.get_width() for each in boxes(figure)) < module.TEXT_WIDTH
    assert {text.get_text() for text in figure.texts} == {"word", "share of each word", module.NO_WORD}


def test_one_frame_for_neighbours_of_a_line():
    figure = draw_shaded_text(replace(FOUND, framed=frozenset({0, 1, 3})))
    one, two, _, last = (each for each in boxes(figure) if each.get_fill())
    frames = [each for each in boxes(figure) if not each.get_fill()]
    spans = [(each.get_x(), each.get_x() + each.get_width(), each.get_y()) for each in frames]
    assert spans == [
        (pytest.approx(first.get_x()), pytest.approx(end.get_x() + end.get_width()), first.get_y())
        for first, end in ((one, two), (last, last))
    ]


def test_parts_of_a_word_without_blanks_stand_flush():
    glued = TextWeights(("ab", "cd", "ef"), np.ones(3), "x", (0, 0, 0), (False, True, False))
    first, second, third = boxes(draw_shaded_text(glued))
    overlap = first.get_x() + first.get_width() - second.get_x()
    assert overlap == pytest.approx(module.LARGE.space)
    assert third.get_x() - second.get_x() - second.get_width() == pytest.approx(0.0, abs=1e-6)


def test_the_meaning_of_the_colours_is_not_cut_at_the_edge():
    found = TextWeights(FOUND.labels, FOUND.weights, "a class of a rather long name", FOUND.texts, FOUND.glued, True)
    figure = draw_shaded_text(replace(found, framed=frozenset({0})))
    boxes = [text.get_window_extent() for text in figure.texts]
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    lines = [text.get_text() for text in figure.texts if text.get_text() not in FOUND.labels]
    assert " ".join(lines) == explain_colors(replace(found, framed=frozenset({0})))
    assert len(lines) == 2


def test_text_beyond_what_was_read_is_an_ellipsis():
    letters = Tokenizer.train(TokenizerSettings("word", 50), ["a b c d"])
    found = shade_text(letters, ["a b c d", "c d", "d"], [np.ones(3), np.ones(2), np.zeros(0)], "x")
    assert found.labels == ("a", "b", "c", "…", "c", "d", "…")
    assert found.texts == (0, 0, 0, 0, 1, 1, 2)
    assert found.weights[3] == 0


def test_a_text_of_too_many_words():
    with pytest.raises(InputError, match="the text has 6,001 words; at most 6,000 are drawn"):
        draw_shaded_text(TextWeights(("a",) * 6001, np.ones(6001), "x", (0,) * 6001, (False,) * 6001))


def test_a_word_of_several_pieces_has_their_mean_and_the_key_says_so():
    pieces = Parts(("playing", "now"), (0, 0, 1), (False, False))
    found = shade_parts([pieces], [np.array([0.1, 0.3, 0.4])], "the class")
    np.testing.assert_allclose(found.weights, [0.25, 0.5])
    assert "weight of a word: the mean of its pieces" in {each.get_text() for each in draw_shaded_text(found).texts}
    assert not shade_parts([Parts(("a",), (0,), (False,))], [np.array([1.0])], "the class").averaged


@pytest.mark.parametrize(
    ("weights", "even"),
    [
        ([0.55, 0.45], True),
        ([0.65, 0.35], False),
        ([0.3, 0.36, 0.34], True),
        ([0.3, 0.45, 0.25], False),
        ([1.0], False),
    ],
)
def test_a_text_of_a_few_words_is_said_to_be_even_where_they_hardly_differ(weights: list[float], even: bool):
    count = len(weights)
    found = shade_parts([Parts(tuple("abc"[:count]), tuple(range(count)), (False,) * count)], [np.array(weights)], "x")
    assert (module.NO_WORD in {each.get_text() for each in draw_shaded_text(found).texts}) == even
