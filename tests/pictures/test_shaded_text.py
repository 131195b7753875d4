"""Texts shaded by their weights: one text, documents with sentences, and a text for each row of a matrix."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from regard.data.tokens import Parts
from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights, TextWeights
from regard.pictures import shaded_text as module
from regard.pictures.canvas import INK, diverging, hex_color, plotting
from regard.pictures.shaded_text import (
    MAX_PARTS,
    MAX_WORDS,
    SMALL,
    ShadedText,
    draw_document,
    draw_shaded_text,
    explain_colors,
    reading,
)
from regard.pictures.text import is_right_to_left, visual_order
from regard.pictures.write import write
from regard.tasks.attribution import shade_parts, shade_text
from regard.text import Tokenizer, TokenizerSettings

FOUND = TextWeights(
    ("a", "dreadful", "film", "."), np.array([0.1, 0.8, 0.0, -0.1]), "negative", (0, 0, 1, 1), (False,) * 4
)


def words_of(figure: Any) -> list[Any]:
    """The words on a color."""
    return [text for text in figure.axes[0].texts if text.get_bbox_patch() is not None]


def boxes(figure: Any) -> list[Any]:
    return [word.get_bbox_patch() for word in words_of(figure)]


def test_each_word_has_the_colour_of_its_weight_and_sign():
    figure = draw_shaded_text(FOUND, title="negative 0.97\ngradient × input")
    found = [np.round(np.array(each.get_facecolor()[:3]) * 255) for each in boxes(figure)]
    np.testing.assert_array_equal(found, diverging()[[255 + 26, 255 + 204, 255, 255 - 26]])
    assert [word.get_text() for word in words_of(figure)] == list(FOUND.labels)
    key = "share of each word: blue for negative, orange against it"
    assert figure.get_suptitle().splitlines() == ["negative 0.97", "gradient × input", key]
    assert [each.get_text() for each in figure.axes[1].get_xticklabels()] == ["-1", "0", "1"]


def test_the_scale_ends_at_the_greatest_share_but_at_least_at_four_times_an_even_one():
    def end(weights: np.ndarray) -> str:
        words = TextWeights(("a",) * len(weights), weights, "x", (0,) * len(weights), (False,) * len(weights))
        return draw_shaded_text(words).axes[1].get_xticklabels()[-1].get_text()

    assert end(np.full(20, 0.05)) == "0.2"
    assert end(np.array([0.62, *np.full(19, 0.02)])) == "0.7"


def test_a_second_text_begins_a_line_and_long_texts_are_broken():
    places = [word.get_position()[1] for word in words_of(draw_shaded_text(FOUND))]
    assert places[0] == places[1] < places[2] == places[3]
    many = TextWeights(("word",) * 60, np.ones(60), "x", (0,) * 60, (False,) * 60)
    figure = draw_shaded_text(many)
    assert len({word.get_position()[1] for word in words_of(figure)}) > 3
    figure.draw_without_rendering()
    assert max(word.get_window_extent().x1 for word in words_of(figure)) <= figure.bbox.x1
    assert figure.get_suptitle().splitlines() == ["share of each word", module.NO_WORD]


def framed(figure: Any) -> list[bool]:
    return [to_hex(box.get_edgecolor(), keep_alpha=True) == f"{INK}ff" for box in boxes(figure)]


def test_words_are_framed():
    assert framed(draw_shaded_text(replace(FOUND, framed=frozenset({0, 1, 3})))) == [True, True, False, True]


def test_parts_of_a_word_without_blanks_stand_flush():
    glued = TextWeights(("ab", "cd", "ef"), np.ones(3), "x", (0, 0, 0), (False, True, False))
    figure = draw_shaded_text(glued)
    figure.draw_without_rendering()
    first, second, third = (Text.get_window_extent(word) for word in words_of(figure))
    assert abs(second.x0 - first.x1) < 5 < third.x0 - second.x1


def test_the_meaning_of_the_colours_is_not_cut_at_the_edge():
    found = replace(FOUND, name="a class of a rather long name", averaged=True, framed=frozenset({0}))
    figure = draw_shaded_text(found)
    figure.draw_without_rendering()
    (title,) = figure.texts
    assert title.get_window_extent().x1 <= figure.bbox.x1
    assert figure.get_suptitle() == explain_colors(found)


def test_text_beyond_what_was_read_is_an_ellipsis():
    letters = Tokenizer.train(TokenizerSettings("word", 50), ["a b c d"])
    found = shade_text(letters, ["a b c d", "c d", "d"], [np.ones(3), np.ones(2), np.zeros(0)], "x")
    assert found.labels == ("a", "b", "c", "…", "c", "d", "…")
    assert found.texts == (0, 0, 0, 0, 1, 1, 2)
    assert found.weights[3] == 0


def test_a_word_of_several_pieces_has_their_mean_and_the_key_says_so():
    pieces = Parts(("playing", "now"), (0, 0, 1), (False, False))
    found = shade_parts([pieces], [np.array([0.1, 0.3, 0.4])], "the class")
    np.testing.assert_allclose(found.weights, [0.25, 0.5])
    assert "weight of a word: the mean of its pieces" in draw_shaded_text(found).get_suptitle()
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
    assert (module.NO_WORD in draw_shaded_text(found).get_suptitle()) == even


def test_too_many_words_are_refused_before_anything_is_drawn(tmp_path: Path):
    count, side = MAX_WORDS + 1, int(MAX_PARTS**0.5) + 1
    document = DocumentWeights((("word",) * count,), np.ones(1), (np.full(count, 1 / count),))
    with pytest.raises(InputError, match=r"3,001 words; at most 3,000 are drawn.*write .html"):
        write(document, tmp_path / "a.png")
    write(document, tmp_path / "a.html")
    with pytest.raises(InputError, match="the text has 6,001 words; at most 6,000 are drawn"):
        draw_shaded_text(TextWeights(("a",) * 6001, np.ones(6001), "x", (0,) * 6001, (False,) * 6001))
    with pytest.raises(InputError, match=r"78 rows of 78 pieces are 6,084; at most 6,000 are drawn: choose rows"):
        reading(Alignment(np.zeros((side, side)), ("s",) * side, ("t",) * side))


def test_digits_keep_their_order_in_a_line_from_the_right():
    assert [is_right_to_left(text) for text in ("« مرحبا film", "12 film مرحبا", "...")] == [True, False, False]
    assert visual_order(["م", "ا", "·", "2", "0", "1", "8", "</s>", "ي"]) == [0, 1, 2, 6, 5, 4, 3, 7, 8]
    assert visual_order(["كان", "film", "noir", "،"]) == [0, 2, 1, 3]
    assert visual_order([]) == []


DOCUMENT = DocumentWeights(
    (("one", "two"), ("three",), ("four", "five", "six")),
    np.array([0.2, 0.0, 0.8]),
    (np.array([0.5, 0.5]), np.array([1.0]), np.array([0.1, 0.9, 0.0])),
)
NOTHING = DocumentWeights((), np.zeros(0), ())


def document_shades(document: DocumentWeights) -> list[str]:
    return [to_hex(box.get_facecolor()) for box in boxes(draw_document(document))]


def test_shades_are_shares_of_the_greatest():
    """Each sentence and then its words, whose weights are multiplied by the root of that of the sentence."""
    words = np.sqrt(0.2) * 0.5 / (np.sqrt(0.8) * 0.9)
    shares = [0.25, words, words, 0.0, 0.0, 1.0, 1 / 9, 1.0, 0.0]
    assert document_shades(DOCUMENT) == [hex_color(share) for share in shares]
    assert document_shades(DocumentWeights((("a",),), np.zeros(1), (np.zeros(1),))) == [hex_color(0.0)] * 2


@pytest.mark.parametrize("document", [DOCUMENT, NOTHING], ids=["some", "none"])
@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_written_the_same_each_time(suffix: str, document: DocumentWeights, tmp_path: Path):
    for name in ("a", "b"):
        write(document, tmp_path / f"{name}{suffix}", title="$good$ 0.9")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert (tmp_path / f"a{suffix}").stat().st_size > 500


def test_the_page_has_the_sentence_of_each_word(tmp_path: Path):
    page = write(DOCUMENT, tmp_path / "a.html", title="pos 0.9").read_text(encoding="utf-8")
    assert '<h1 dir="auto">pos 0.9</h1>' in page
    assert '"sentences":[0,0,1,2,2,2]' in page


def test_the_scales_are_stated():
    first, second = draw_document(DOCUMENT).get_suptitle().splitlines()
    assert first.endswith("white 0, darkest 0.8")
    assert second.startswith("words: weight within the sentence × root of the sentence's weight: ")
    assert second.endswith(f"darkest {np.sqrt(0.8) * 0.9:.3g}")
    assert draw_document(NOTHING).get_suptitle() == "no sentence"


def test_lines_hold_what_there_is_room_for():
    with plotting():
        wide = ShadedText(["word"] * 30 + ["w" * 59, "x"], SMALL, 2.0)
    assert [index for line in wide.lines for index in line] == list(range(32))
    for line in wide.lines:
        assert len(line) == 1 or sum(wide.widths[index] + SMALL.space for index in line) <= 2.0
    assert [30] in wide.lines


ROWS = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
READ = "the", "cat", "sat"


def colours(figure) -> list[str]:
    return ["#" + "".join(f"{round(part * 255):02x}" for part in each.get_facecolor()[:3]) for each in boxes(figure)]


def test_the_text_once_a_row_shaded_by_its_weights():
    figure = reading(Alignment(ROWS, READ, ("le", "chat")), title="$x$")
    assert colours(figure) == [hex_color(weight) for weight in ROWS.ravel()]
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown.count("cat") == 2
    assert {"le", "chat"} <= set(shown)
    assert figure.get_suptitle().startswith("$x$")


def test_the_scale_is_said_and_weights_above_look_like_it():
    figure = reading(Alignment(ROWS, READ, ("le", "chat")), vmax=0.5)
    assert colours(figure)[3:] == [hex_color(0.5), hex_color(1.0), hex_color(0.0)]
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["0", "0.25", "0.5"]


def test_what_reads_is_framed_where_it_stands():
    figures = [reading(Alignment(ROWS, READ, READ[1:]), first=first) for first in (1, None)]
    assert [framed(figure) for figure in figures] == [[False, True, False, False, False, True], [False] * 6]


@pytest.mark.usefixtures("chinese")
def test_from_the_right_where_the_script_is_written_so():
    figure = reading(Alignment(ROWS, ("كان", "الطفل", "注意"), ("one", "two")))
    left = [word.get_position()[0] for word in words_of(figure)[:3]]
    assert left == sorted(left, reverse=True)
    (reader,) = [text for text in figure.axes[0].texts if text.get_text() == "one"]
    assert reader.get_position()[0] > left[0]


def test_long_texts_are_broken_and_everything_is_inside():
    words = tuple(f"word{number}" for number in range(70))
    figure = reading(Alignment(np.zeros((2, 70)), words, ("one", "two")))
    figure.draw_without_rendering()
    edges = [word.get_window_extent() for word in words_of(figure)]
    assert len({round(edge.y0) for edge in edges}) > 8
    assert min(min(edge.x0, edge.y0) for edge in edges) >= 0
    assert max(edge.x1 for edge in edges) <= figure.bbox.x1
