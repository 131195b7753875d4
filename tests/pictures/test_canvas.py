"""Titles: wrapped to the width of their figure, and never without a detail."""

from dataclasses import replace

from regard.pictures.canvas import TITLE_LINES, Canvas
from regard.pictures.style import TITLE_TYPE, plotting
from regard.tasks.prediction import GeneratedText
from tests.attribution.untrained import writing


def lines_of(title: str, width: float = 4.5) -> tuple[list[str], list[str]]:
    with plotting():
        canvas = Canvas()
        figure = canvas.finish(canvas.add_title(title, width))
        boxes = [text.get_window_extent() for text in figure.texts]
    assert max(box.width for box in boxes) <= width * figure.dpi + 1
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    heads = [text for text in figure.texts if text.get_fontsize() == TITLE_TYPE]
    return [text.get_text() for text in heads], [text.get_text() for text in figure.texts[len(heads) :]]


def test_a_long_title_is_wrapped_at_blanks_and_nothing_is_lost():
    text = "a title of several words that is longer than one line of the picture"
    lines, details = lines_of(text)
    assert len(lines) > 1
    assert " ".join(lines) == text
    assert not details
    assert "".join(lines_of("x" * 120)[0]) == "x" * 120  # a word longer than a line is broken


def test_details_are_never_cut_however_long_the_text_is():
    lines, details = lines_of("word " * 300 + "\nnorms of weight × value, source 0:4, target 4:8")
    assert len(lines) == TITLE_LINES
    assert lines[-1].endswith("…")
    assert details == ["norms of weight × value, source 0:4, target 4:8"]


def test_an_output_that_ends_at_its_length_limit_is_marked():
    found = writing().attribute("the cat")
    assert isinstance(found.prediction, GeneratedText)
    assert not found.prediction.finished
    assert found.heading.splitlines()[-1] == "the output reached the length limit unfinished"
    ended = replace(found, prediction=replace(found.prediction, finished=True))
    assert "unfinished" not in ended.heading
    empty = replace(ended, prediction=replace(found.prediction, finished=True, text=" "))
    assert empty.heading.splitlines()[-1] == "the output is empty"
