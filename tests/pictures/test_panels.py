"""Pictures of images, episodes, recordings, positions and tapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from regard.maps.heads import HeadMaps
from regard.maps.lookups import Lookups, TapeUse
from regard.nn.layers import sinusoids
from regard.pictures.canvas import UNIFORM_MULTIPLE, scale_end
from regard.pictures.overlay import NO_PART, apply_heat, interpolate_patches, overlay, overlays
from regard.pictures.panels import MAX_TOKENS, NO_IMAGE, episode, positions, spectrogram, tape
from regard.pictures.views import draw_entropies
from regard.pictures.write import write_figure


def text_of(figure: Any) -> str:
    """The title of a figure with its details, and all other texts."""
    texts = [text.get_text() for axes in figure.axes for text in axes.findobj(Text)]
    return "\n".join([figure.get_suptitle(), *texts])


def inside(figure: Any) -> bool:
    """Whether no part of a figure is cut."""
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return min(box.x0, box.y0) > -0.02 and box.x1 < width + 0.02 and box.y1 < height + 0.02


PIXELS = np.full((6, 10, 1), 200, dtype=np.uint8)
WEIGHTS = np.array([[0.0, 0.0], [0.0, 1.0]])


def test_heat_is_full_at_the_largest_weight_and_linear_between():
    found = interpolate_patches(WEIGHTS, 4, 8, 1.0)
    np.testing.assert_allclose(found[0], 0)
    np.testing.assert_allclose(found[-1, -2:], 1.0)
    np.testing.assert_allclose(found[3, 1:7], [0, 0.125, 0.375, 0.625, 0.875, 1])
    np.testing.assert_allclose(interpolate_patches(np.zeros((2, 3)), 5, 7, 0.0), 0)


def test_even_weights_are_faint():
    end = scale_end(np.full((2, 3), 1 / 6))
    assert end == pytest.approx(UNIFORM_MULTIPLE / 6)
    np.testing.assert_allclose(interpolate_patches(np.full((2, 3), 1 / 6), 5, 7, end), 1 / UNIFORM_MULTIPLE)


def test_a_map_by_its_own_contrast_has_all_colors():
    """The corner of a map that is nearly even is left as it is, and the opposite one fully colored."""
    nearly = np.array([[0.24, 0.25], [0.25, 0.26]])
    photo = np.full((8, 8, 3), 200, dtype=np.uint8)
    figures = [overlays(photo, nearly[None], ["cat"], contrast=contrast) for contrast in (False, True)]
    common, own = (np.array(figure.axes[1].get_images()[0].get_array(), int) for figure in figures)
    assert (own[0, 0] == photo[0, 0]).all()
    np.testing.assert_array_equal(own[-1, -1], apply_heat(photo, WEIGHTS, 1.0)[-1, -1])
    assert np.ptp(common) < np.ptp(own) / 4
    assert "0.24 to 0.26" in text_of(figures[1])
    assert NO_PART in text_of(figures[1])


def test_even_weights_on_an_image_are_said_to_be_even():
    even, uneven = np.full((2, 3), 1 / 6), np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    figures = [overlay(PIXELS, even), overlay(PIXELS, uneven)]
    figures += [overlays(PIXELS, np.stack([even, each]), ["a", "dog"]) for each in (even, uneven)]
    assert [NO_PART in text_of(figure) for figure in figures] == [True, False, True, False]


def test_rows_of_images_are_as_long_as_each_other():
    figure = overlays(PIXELS, np.full((6, 2, 3), 1 / 6), list("abcdef"))
    figure.draw_without_rendering()
    tops = [round(axes.get_position().y1, 3) for axes in figure.axes[:7]]
    assert len(set(tops[:4])) == len(set(tops[4:])) == 1
    assert tops[0] > tops[4]
    assert f"or of {UNIFORM_MULTIPLE} times an even one" in text_of(figure)
    assert inside(figure)


def test_a_photograph_keeps_its_colours_where_nothing_is_read():
    blue = np.full((8, 8, 3), (90, 140, 250), dtype=np.uint8)
    found = apply_heat(blue, WEIGHTS, 1.0)
    assert (found[:2, :2] == blue[:2, :2]).all()
    assert found[-1, -1, 0] > 90 > found[-1, -1, 2]


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_read_most_is_dark_on_a_light_image_and_light_on_a_dark_one(channels: int):
    for level, sign in ((255, -1), (0, 1)):
        brightness = apply_heat(np.full((8, 8, channels), level, dtype=np.uint8), WEIGHTS, 1.0)[-1].mean(1)
        assert (np.diff(brightness) * sign >= 0).all()
        assert brightness[0] == level
        assert abs(brightness[-1] - level) > 130


def test_a_word_has_its_greatest_weight_and_its_remark():
    figure = overlays(PIXELS, WEIGHTS[None], ["cat"], title="a cat", remarks=["gate 0.50"], notes=["gate: a share"])
    assert {"a cat", "cat", "gate 0.50, up to 1", "gate: a share", "0"} <= {*text_of(figure).splitlines()}
    with pytest.raises(ValueError, match="zip"):
        overlays(PIXELS, WEIGHTS[None], ["cat", "dog"])


IMAGES = np.random.default_rng(0).integers(0, 255, (4, 7, 7, 1)).astype(np.uint8)
CLASSES = ["cat", "dog", "dog", "cat"]


def test_a_row_a_class_with_the_weights_under_the_images():
    figure = episode(IMAGES[0], IMAGES, CLASSES, np.array([[0.5, 0.25, 0.0, 0.25]]))
    figure.draw_without_rendering()
    axes = figure.axes
    assert [each.get_xlabel() for each in axes] == ["query", "cat 0.50", "cat 0.25", "dog 0.25", "dog 0.00"]
    heights = [round(each.get_position().y0, 3) for each in axes]
    assert heights[0] == heights[1] == heights[2] > heights[3] == heights[4]


def test_nearly_even_weights_are_said_to_be_even():
    for weights, even in (([[0.25, 0.24, 0.25, 0.26]], True), ([[0.25] * 4, [0.7, 0.1, 0.1, 0.1]], False)):
        assert (NO_IMAGE in text_of(episode(IMAGES[0], IMAGES, CLASSES, np.array(weights)))) == even


def test_the_scale_of_an_episode_is_stated():
    assert "frames: white 0, dark 1" in text_of(episode(IMAGES[0], IMAGES, CLASSES, np.zeros((1, 4))))


def test_long_names_that_differ_at_the_end_differ_below_the_images():
    long = ["Alphabet_of_the_Magi/character01", "Alphabet_of_the_Magi/character02"] * 2
    figure = episode(IMAGES[0], IMAGES, long, np.zeros((1, 4)))
    figure.draw_without_rendering()
    axes = figure.axes
    assert [each.get_xlabel() for each in axes[1::2]] == ["Alpha…er01 0.00", "Alpha…er02 0.00"]
    boxes = [each.xaxis.label.get_window_extent() for each in axes[1:3]]
    assert boxes[0].x1 < boxes[1].x0


def test_a_long_title_is_wrapped_above_the_images():
    title = "cat, probability 0.40\nprobabilities of the other classes: " + ", ".join(["dog 0.30"] * 9)
    figure = episode(IMAGES[0], IMAGES, CLASSES, np.zeros((1, 4)), title=title)
    figure.draw_without_rendering()
    (box,) = (text.get_window_extent() for text in figure.texts)
    assert box.x1 <= figure.bbox.x1
    assert box.y0 > max(axes.get_window_extent().y1 for axes in figure.axes)


def test_a_block_a_lookup():
    figure = episode(IMAGES[0], IMAGES, CLASSES, np.array([[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 1.0, 0.0]]))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == ["attention layer 1 of 2", "attention layer 2 of 2"]
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels[3:6] == ["query", "cat 0.00", "cat 0.00"]
    assert labels[-2:] == ["dog 0.00", "dog 1.00"]


@pytest.mark.parametrize(
    "tokens", [(), ("n",), ("zero", "∎"), tuple("twenty-seven"), ("a word of thirty-one characters", "b")]
)
def test_no_part_of_a_spectrogram_is_cut(tokens: tuple[str, ...]):
    random = np.random.default_rng(3)
    shades, weights = random.random((53, 11)), random.random((len(tokens), 13))
    figure = spectrogram(shades, weights, tokens, times=(0.01, 0.04), title="A recording\nweights")
    figure.draw_without_rendering()
    assert inside(figure)
    shown = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert shown == list(tokens)


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match=f"at most {MAX_TOKENS}"):
        spectrogram(np.zeros((3, 5)), np.zeros((401, 7)), ["a"] * 401, times=(0.01, 0.04))


def test_encodings_curves_and_products():
    sines, learned = sinusoids(17, 8).numpy(), np.random.default_rng(3).normal(size=(13, 5))
    figure = positions({"sinusoidal": sines, "learned": learned})
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == [
        "sinusoidal: encoding",
        "as curves",
        "dot products",
        "learned: encoding",
        "as curves",
        "dot products",
    ]
    for row, encoding in enumerate((sines, learned)):
        shown, curves, products = panels[3 * row : 3 * row + 3]
        product: Any = products.images[0].get_array()
        np.testing.assert_array_equal(shown.images[0].get_array(), encoding.T)
        np.testing.assert_allclose(product, encoding @ encoding.T)
        most = np.abs(encoding).max()
        np.testing.assert_allclose(shown.images[0].get_clim(), (-most, most))
        np.testing.assert_array_equal(curves.lines[0].get_ydata(), encoding[:, 0])


def test_entropies_have_their_number_and_the_most_there_can_be():
    weights = np.array([[np.eye(8)[:1], np.full((1, 8), 1 / 8)], [np.eye(8)[:1] * 0, np.eye(8)[:1]]])
    (axes,) = draw_entropies(HeadMaps.of(Lookups(weights, tuple("abcdefgh"), ("x",)))).axes
    assert sorted(text.get_text() for text in axes.texts) == ["0", "0", "3", "–"]
    assert axes.get_title(loc="left") == "entropy of each head, 0 to 3.00 bits"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["layer 0", "layer 1"]
    assert axes.collections[0].get_clim() == (0, 3)


def use(reads: int = 1, writes: int = 1, steps: int = 7, rows: int = 11) -> TapeUse:
    weights = np.zeros((reads + writes, steps, rows))
    weights[:, np.arange(steps), np.arange(steps) % 5] = 1
    outputs = np.where(np.arange(steps)[:, None] < 3, np.nan, 0.5 * np.ones((steps, 2)))
    return TapeUse(np.eye(steps, 3), outputs, weights[:reads], weights[reads:])


def test_only_rows_of_use_are_drawn():
    weights = np.zeros((1, 3, 7))
    found = TapeUse(np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((1, 3, 7)), weights)
    assert found.rows == 1
    weights[0, 1, 4] = 0.5
    weights[0, 2, 6] = 0.001
    assert found.rows == 5


def test_as_lookups_a_step_is_named_by_what_it_takes_or_says():
    outputs = np.array([[np.nan, np.nan], [np.nan, np.nan], [0.9, 0.2]])
    reading, writing = np.random.default_rng(3).dirichlet(np.ones(7), (2, 2, 3))
    given = TapeUse(np.array([[1, 0, 0], [0, 0, 0.522], [0, 0, 0]]), outputs, reading, writing[:1])
    read, wrote = given.lookups()
    assert read.target == wrote.target == ("0: in 100", "1: in 00 0.52", "2: out 10")
    assert read.source == wrote.source == tuple(f"row {row}" for row in range(7))
    assert (read.name, wrote.name) == ("reads from the tape", "writes to the tape")
    np.testing.assert_allclose(read.weights, reading[None], rtol=1e-6)
    np.testing.assert_allclose(wrote.weights, writing[None, :1], rtol=1e-6)
    assert [each.weights.shape for each in use(reads=2, steps=4).lookups()] == [(1, 2, 4, 4), (1, 1, 4, 4)]


def test_a_panel_a_head():
    names = [axes.get_title(loc="left") for axes in tape(use(reads=2)).axes]
    assert names == [
        "inputs",
        "outputs",
        "writes to the tape",
        "reads from the tape (head 1)",
        "reads from the tape (head 2)",
    ]


@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (241, 128)])
def test_any_size(steps: int, rows: int, tmp_path: Path):
    weights = np.ones((1, steps, rows))
    write_figure(tape(TapeUse(np.zeros((steps, 3)), np.zeros((steps, 2)), weights, weights)), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert 0 < picture.width < 4000


def test_the_scale_of_a_tape_is_stated():
    assert tape(use()).get_suptitle() == "white 0, dark 1, grey: no target"
    blank = TapeUse(np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((1, 3, 7)), np.zeros((1, 3, 7)))
    assert tape(blank).get_suptitle() == "white 0, dark 1"
