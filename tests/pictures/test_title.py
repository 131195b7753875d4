from dataclasses import replace

import numpy as np

from regard.maps import Alignment
from regard.pictures.heatmap import heatmap
from regard.pictures.style import plotting
from regard.pictures.text import TITLE_LINES, layout_title, new_figure
from regard.tasks.prediction import GeneratedText
from tests.attribution.untrained import writing


def lines_of(title: str, room: float = 4.0) -> tuple[list[str], list[str]]:
    with plotting():
        found = layout_title(new_figure(), title, room)
    assert found.width <= room
    return [each.label for each in found.lines], [each.label for each in found.details]


def test_a_long_title_is_wrapped_at_blanks_and_nothing_is_lost():
    text = "a title of several words that is longer than one line of the picture"
    lines, details = lines_of(text)
    assert len(lines) > 1
    assert " ".join(lines) == text
    assert not details


def test_details_are_never_cut_however_long_the_text_is():
    lines, details = lines_of("word " * 300 + "\nnorms of weight × value, source 0:4, target 4:8")
    assert len(lines) == TITLE_LINES
    assert lines[-1].endswith("…")
    assert details == ["norms of weight × value, source 0:4, target 4:8"]


def test_a_word_longer_than_a_line_is_broken():
    assert "".join(lines_of("x" * 120)[0]) == "x" * 120


def test_axes_are_named_and_the_end_is_explained():
    own = heatmap(Alignment(np.eye(2), ("a", "</s>"), ("a", "</s>")))
    assert {"keys →", "← queries", "∎ end of text"} <= {each.get_text() for each in own.texts}
    two = heatmap(Alignment(np.eye(2), ("a", "b"), ("c", "d")), title="t" * 150)
    shown = [each.get_text() for each in two.texts]
    assert {"source (keys) →", "← target (queries)"} <= {*shown}
    pair = heatmap(Alignment(np.eye(2), ("a", "b"), ("c", "d")), sides=("first text", "second text"))
    assert {"first text (keys) →", "← second text (queries)"} <= {each.get_text() for each in pair.texts}
    assert "".join(sorted(each for each in shown if set(each) == {"t"})) == "t" * 150


def test_an_output_that_ends_at_its_length_limit_is_marked():
    found = writing().attribute("the cat")
    assert isinstance(found.prediction, GeneratedText)
    assert not found.prediction.finished
    assert found.heading.splitlines()[-1] == "the output reached the length limit unfinished"
    ended = replace(found, prediction=replace(found.prediction, finished=True))
    assert "unfinished" not in ended.heading
    empty = replace(ended, prediction=replace(found.prediction, finished=True, text=" "))
    assert empty.heading.splitlines()[-1] == "the output is empty"
