import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import InputError
from regard.maps import DocumentWeights
from regard.pictures.shaded_text import WIDTH, break_lines, compute_shades, draw_document
from regard.pictures.style import hex_color
from regard.pictures.text import is_right_to_left, visual_order
from regard.pictures.write import MOST_WORDS, write_document

DOCUMENT = DocumentWeights(
    (("one", "two"), ("three",), ("four", "five", "six")),
    np.array([0.2, 0.0, 0.8]),
    (np.array([0.5, 0.5]), np.array([1.0]), np.array([0.1, 0.9, 0.0])),
)
NOTHING = DocumentWeights((), np.zeros(0), ())


def test_shades_are_shares_of_the_greatest():
    found = compute_shades(DOCUMENT)
    np.testing.assert_allclose(found.sentences, [0.25, 0.0, 1.0])
    np.testing.assert_allclose(found.words[0], np.sqrt(0.2) * 0.5 / (np.sqrt(0.8) * 0.9))
    np.testing.assert_allclose(found.words[1], [0.0])
    np.testing.assert_allclose(found.words[2], [1 / 9, 1.0, 0.0])
    assert not compute_shades(DocumentWeights((("a",),), np.zeros(1), (np.zeros(1),))).words[0].any()


@pytest.mark.parametrize("document", [DOCUMENT, NOTHING], ids=["some", "none"])
@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_written_the_same_each_time(suffix: str, document: DocumentWeights, tmp_path: Path):
    for name in ("a", "b"):
        write_document(document, tmp_path / f"{name}{suffix}", title="$good$ 0.9")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert (tmp_path / f"a{suffix}").stat().st_size > 500


def test_the_darkest_colours_are_in_the_picture_once_each(tmp_path: Path):
    write_document(DOCUMENT, tmp_path / "a.png")
    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    darkest = tuple(int(hex_color(1.0)[place : place + 2], 16) for place in (1, 3, 5))
    rows = np.flatnonzero((pixels == darkest).all(-1).sum(1) > 20)
    assert rows.size
    assert rows.min() > len(pixels) // 2


def test_lines_hold_what_there_is_room_for():
    assert break_lines([]) == []
    assert break_lines([WIDTH * 2, 0.1]) == [[0], [1]]
    assert [len(line) for line in break_lines([2.0] * 7)] == [3, 3, 1]


def test_scripts_from_the_right():
    assert is_right_to_left("« مرحبا film")
    assert not is_right_to_left("12 film مرحبا")
    assert not is_right_to_left("...")


def test_digits_keep_their_order_in_a_line_from_the_right():
    assert visual_order(["م", "ا", "·", "2", "0", "1", "8", "</s>", "ي"]) == [0, 1, 2, 6, 5, 4, 3, 7, 8]
    assert visual_order(["كان", "film", "noir", "،"]) == [0, 2, 1, 3]
    assert visual_order([]) == []


def test_the_page_has_the_weight_of_each_word(tmp_path: Path):
    page = write_document(DOCUMENT, tmp_path / "a.html", title="pos 0.9").read_text(encoding="utf-8")
    assert '<h1 dir="auto">pos 0.9</h1>' in page
    assert re.findall(r"<td>([\d.]+)</td>", page) == ["0.100", "0.100", "0.000", "0.080", "0.720", "0.000"]
    assert '"sentences":[0,0,1,2,2,2]' in page


def test_too_many_words_are_refused_before_anything_is_drawn(tmp_path: Path):
    count = MOST_WORDS[".png"] + 1
    document = DocumentWeights((("word",) * count,), np.ones(1), (np.full(count, 1 / count),))
    with pytest.raises(InputError, match=r"a.png: 3,001 words; at most 3,000 are drawn, in a .html page 200,000"):
        write_document(document, tmp_path / "a.png")
    write_document(document, tmp_path / "a.html")
    with pytest.raises(
        InputError, match=r"cannot write '.txt' pictures; expected a name ending in \.png, \.svg, \.pdf, \.html"
    ):
        write_document(document, tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("weights", "words", "said"),
    [
        (np.zeros(2), (np.zeros(1),), r"weights of sentences have shape \(2,\); expected \(1,\)"),
        (np.zeros(1), (), "weights of the words of 0 sentences; expected 1"),
        (np.zeros(1), (np.zeros(2),), r"weights of the words of sentence 0 have shape \(2,\)"),
        (np.array([-1.0]), (np.zeros(1),), "expected finite and not negative"),
        (np.ones(1), (np.array([np.nan]),), "expected finite and not negative"),
    ],
)
def test_weights_that_do_not_fit(weights: np.ndarray, words: tuple[np.ndarray, ...], said: str):
    with pytest.raises(ValueError, match=said):
        DocumentWeights((("a",),), weights, words)


def test_the_scales_are_stated():
    said = [each.get_text() for each in draw_document(DOCUMENT).texts[:2]]
    assert said[0].endswith("white 0, darkest 0.8")
    assert said[1].startswith("words: weight within the sentence × root of the sentence's weight: ")
    assert said[1].endswith(f"darkest {np.sqrt(0.8) * 0.9:.3g}")
    assert [each.get_text() for each in draw_document(NOTHING).texts] == ["no sentence"]
