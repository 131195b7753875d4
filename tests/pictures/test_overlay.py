import numpy as np
import pytest

from regard.pictures.overlay import NO_PART, apply_heat, interpolate_patches, overlay, overlays
from regard.pictures.style import UNIFORM_MULTIPLE, scale_end

PIXELS = np.full((6, 10, 1), 200, dtype=np.uint8)
WEIGHTS = np.array([[0.0, 0.0], [0.0, 1.0]])


def test_heat_is_full_at_the_largest_weight_and_linear_between():
    found = interpolate_patches(WEIGHTS, 4, 8)
    np.testing.assert_allclose(found[0], 0)
    np.testing.assert_allclose(found[-1, -2:], 1.0)
    np.testing.assert_allclose(found[3, 1:7], [0, 0.125, 0.375, 0.625, 0.875, 1])
    np.testing.assert_allclose(interpolate_patches(np.zeros((2, 3)), 5, 7), 0)


def test_even_weights_are_faint():
    np.testing.assert_allclose(interpolate_patches(np.full((2, 3), 1 / 6), 5, 7), 1 / UNIFORM_MULTIPLE)
    assert scale_end(np.full((2, 3), 1 / 6)) == pytest.approx(UNIFORM_MULTIPLE / 6)


def test_even_weights_are_said_to_be_even():
    even, uneven = np.full((2, 3), 1 / 6), np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    figures = [overlay(PIXELS, even), overlay(PIXELS, uneven)]
    figures += [overlays(PIXELS, np.stack([even, each]), ["a", "dog"]) for each in (even, uneven)]
    notes = [NO_PART in {text.get_text() for text in figure.texts} for figure in figures]
    assert notes == [True, False, True, False]


def test_rows_of_images_are_as_long_as_each_other():
    figure = overlays(PIXELS, np.full((6, 2, 3), 1 / 6), list("abcdef"))
    tops = [axes.get_position().y1 for axes in figure.axes[:7]]
    assert len(set(tops[:4])) == len(set(tops[4:])) == 1
    assert tops[0] > tops[4]
    legend = " ".join(text.get_text() for text in figure.texts)
    assert f"at least {UNIFORM_MULTIPLE} times an even share of 0.167" in legend


def test_a_photograph_keeps_its_colours_where_nothing_is_read():
    blue = np.full((8, 8, 3), (90, 140, 250), dtype=np.uint8)
    found = apply_heat(blue, WEIGHTS)
    assert (found[:2, :2] == blue[:2, :2]).all()
    assert found[-1, -1, 0] > 90 > found[-1, -1, 2]


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_read_most_is_dark_on_a_light_image_and_light_on_a_dark_one(channels: int):
    for level, sign in ((255, -1), (0, 1)):
        photo = np.full((8, 8, channels), level, dtype=np.uint8)
        on_white, on_black = np.asarray(overlay(photo, WEIGHTS).axes[-1].images[0].get_array())
        for brightness in (apply_heat(photo, WEIGHTS)[-1].mean(1), (on_white if level else on_black).mean(1)):
            assert (np.diff(brightness) * sign >= 0).all()
            assert brightness[0] == level
            assert abs(brightness[-1] - level) > 130


def test_a_word_has_its_greatest_weight_and_its_remark():
    figure = overlays(PIXELS, WEIGHTS[None], ["cat"], title="a cat", remarks=["gate 0.50"], notes=["gate: a share"])
    assert {"a cat", "cat", "gate 0.50, up to 1", "gate: a share", "0"} <= {each.get_text() for each in figure.texts}
    with pytest.raises(ValueError, match="zip"):
        overlays(PIXELS, WEIGHTS[None], ["cat", "dog"])


def test_the_scale_is_stated():
    assert [each.get_text() for each in overlay(PIXELS, WEIGHTS).texts][-2:] == ["0", "1, the share of a patch"]


def test_the_legend_stays_inside_a_figure_of_one_word():
    figure = overlays(PIXELS, WEIGHTS[None], ["cat"])
    assert all(each.get_window_extent().x1 <= figure.bbox.x1 for each in figure.texts)
    assert all(each.get_window_extent().y0 >= 0 for each in figure.texts)
