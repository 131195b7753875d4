import numpy as np
import pytest

from regard.pictures.panels import NO_IMAGE, episode

IMAGES = np.random.default_rng(0).integers(0, 255, (4, 7, 7, 1)).astype(np.uint8)
LABELS = ["cat", "dog", "dog", "cat"]


def test_a_row_a_class_with_the_weights_under_the_images():
    axes = episode(IMAGES[0], IMAGES, LABELS, np.array([[0.5, 0.25, 0.0, 0.25]])).axes
    assert [each.get_xlabel() for each in axes] == ["query", "cat 0.50", "cat 0.25", "dog 0.25", "dog 0.00"]
    heights = [round(each.get_position().y0, 6) for each in axes]
    assert heights[0] == heights[1] == heights[2] > heights[3] == heights[4]


def test_nearly_even_weights_are_said_to_be_even():
    for weights, even in (([[0.25, 0.24, 0.25, 0.26]], True), ([[0.25] * 4, [0.7, 0.1, 0.1, 0.1]], False)):
        texts = {each.get_text() for each in episode(IMAGES[0], IMAGES, LABELS, np.array(weights)).texts}
        assert (NO_IMAGE in texts) == even


def test_the_scale_is_stated():
    assert episode(IMAGES[0], IMAGES, LABELS, np.zeros((1, 4))).texts[0].get_text() == "frames: white 0, dark 1"


def test_long_names_that_differ_at_the_end_differ_below_the_images():
    long = ["Alphabet_of_the_Magi/character01", "Alphabet_of_the_Magi/character02"] * 2
    axes = episode(IMAGES[0], IMAGES, long, np.zeros((1, 4))).axes
    assert [each.get_xlabel() for each in axes[1::2]] == ["Alpha…er01 0.00", "Alpha…er02 0.00"]
    boxes = [each.xaxis.label.get_window_extent() for each in axes[1:3]]
    assert boxes[0].x1 < boxes[1].x0


def test_a_long_title_is_wrapped_above_the_images():
    title = "cat, probability 0.40\nprobabilities of the other classes: " + ", ".join(["dog 0.30"] * 9)
    figure = episode(IMAGES[0], IMAGES, LABELS, np.zeros((1, 4)), title=title)
    lines = [
        each.get_window_extent() for each in figure.texts if "0.30" in each.get_text() or "0.40" in each.get_text()
    ]
    assert len(lines) > 2
    assert max(each.x1 for each in lines) <= figure.bbox.x1
    assert min(each.y0 for each in lines) > max(each.get_window_extent().y1 for each in figure.axes)


def test_a_block_a_lookup():
    figure = episode(IMAGES[0], IMAGES, LABELS, np.array([[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 1.0, 0.0]]))
    assert [each.get_text() for each in figure.texts[1:]] == ["attention layer 1 of 2", "attention layer 2 of 2"]
    assert [each.get_xlabel() for each in figure.axes[5:]] == ["query", "cat 0.00", "cat 0.00", "dog 0.00", "dog 1.00"]
    first, second = (figure.axes[place].get_position() for place in (4, 9))
    assert second.x0 > first.x1
    assert second.y0 == pytest.approx(first.y0)
