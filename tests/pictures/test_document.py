import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from regard.errors import InputError
from regard.maps import DocumentWeights
from regard.pictures.canvas import Canvas
from regard.pictures.shaded_text import MAX_WORDS, SMALL, ShadedText, draw_document
from regard.pictures.style import hex_color, plotting
from regard.pictures.text import is_right_to_left, visual_order
from regard.pictures.write import write

DOCUMENT = DocumentWeights(
    (("one", "two"), ("three",), ("four", "five", "six")),
    np.array([0.2, 0.0, 0.8]),
    (np.array([0.5, 0.5]), np.array([1.0]), np.array([0.1, 0.9, 0.0])),
)
NOTHING = DocumentWeights((), np.zeros(0), ())


def shades(document: DocumentWeights) -> list[str]:
    boxes = [patch for patch in draw_document(document).artists if isinstance(patch, Rectangle)]
    return [to_hex(box.get_facecolor()) for box in boxes]


def test_shades_are_shares_of_the_greatest():
    """Each sentence and then its words, whose weights are multiplied by the root of that of the sentence."""
    words = np.sqrt(0.2) * 0.5 / (np.sqrt(0.8) * 0.9)
    shares = [0.25, words, words, 0.0, 0.0, 1.0, 1 / 9, 1.0, 0.0]
    assert shades(DOCUMENT) == [hex_color(share) for share in shares]
    assert shades(DocumentWeights((("a",),), np.zeros(1), (np.zeros(1),))) == [hex_color(0.0)] * 2


@pytest.mark.parametrize("document", [DOCUMENT, NOTHING], ids=["some", "none"])
@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_written_the_same_each_time(suffix: str, document: DocumentWeights, tmp_path: Path):
    for name in ("a", "b"):
        write(document, tmp_path / f"{name}{suffix}", title="$good$ 0.9")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert (tmp_path / f"a{suffix}").stat().st_size > 500


def test_scripts_from_the_right():
    assert is_right_to_left("« مرحبا film")
    assert not is_right_to_left("12 film مرحبا")
    assert not is_right_to_left("...")


def test_digits_keep_their_order_in_a_line_from_the_right():
    assert visual_order(["م", "ا", "·", "2", "0", "1", "8", "</s>", "ي"]) == [0, 1, 2, 6, 5, 4, 3, 7, 8]
    assert visual_order(["كان", "film", "noir", "،"]) == [0, 2, 1, 3]
    assert visual_order([]) == []


def test_the_page_has_the_weight_of_each_word(tmp_path: Path):
    page = write(DOCUMENT, tmp_path / "a.html", title="pos 0.9").read_text(encoding="utf-8")
    assert '<h1 dir="auto">pos 0.9</h1>' in page
    assert re.findall(r"<td>([\d.]+)</td>", page) == ["0.100", "0.100", "0.000", "0.080", "0.720", "0.000"]
    assert '"sentences":[0,0,1,2,2,2]' in page


def test_the_scales_are_stated():
    said = [each.get_text() for each in draw_document(DOCUMENT).texts[:2]]
    assert said[0].endswith("white 0, darkest 0.8")
    assert said[1].startswith("words: weight within the sentence × root of the sentence's weight: ")
    assert said[1].endswith(f"darkest {np.sqrt(0.8) * 0.9:.3g}")
    assert [each.get_text() for each in draw_document(NOTHING).texts] == ["no sentence"]


def test_lines_hold_what_there_is_room_for():
    with plotting():
        wide = ShadedText(Canvas(), ["word"] * 30 + ["w" * 59, "x"], SMALL, 2.0)
    assert [index for line in wide.lines for index in line] == list(range(32))
    for line in wide.lines:
        assert len(line) == 1 or sum(wide.words[index].width + SMALL.space for index in line) <= 2.0
    assert [30] in wide.lines


def test_too_many_words_are_refused_before_anything_is_drawn(tmp_path: Path):
    count = MAX_WORDS + 1
    document = DocumentWeights((("word",) * count,), np.ones(1), (np.full(count, 1 / count),))
    with pytest.raises(InputError, match=r"3,001 words; at most 3,000 are drawn.*write .html"):
        write(document, tmp_path / "a.png")
    write(document, tmp_path / "a.html")
