"""Spectrograms: every part within the figure, whatever the number and the length of the tokens."""

import numpy as np
import pytest

from regard.pictures.panels import MAX_TOKENS, spectrogram


@pytest.mark.parametrize(
    "tokens", [(), ("n",), ("zero", "∎"), tuple("twenty-seven"), ("a word of thirty-one characters", "b")]
)
def test_no_part_of_a_spectrogram_is_cut(tokens: tuple[str, ...]):
    random = np.random.default_rng(3)
    shades, weights = random.random((53, 11)), random.random((len(tokens), 13))
    figure = spectrogram(shades, weights, tokens, times=(0.01, 0.04), title="A recording\nweights")
    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue] that of the Agg canvas
    width, height = figure.get_size_inches() * figure.dpi
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    for box in boxes:
        assert box is not None
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
    assert "frequency →" in [text.get_text() for text in figure.texts]
    shown = [text.get_text() for text in figure.texts]
    assert all(shown.count(token) == tokens.count(token) for token in tokens)


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match=f"at most {MAX_TOKENS}"):
        spectrogram(np.zeros((3, 5)), np.zeros((401, 7)), ["a"] * 401, times=(0.01, 0.04))


def test_the_scale_ends_at_the_greatest_weight_but_at_least_at_four_times_an_even_one():
    def end(weights: np.ndarray) -> float:
        figure = spectrogram(np.zeros((40, 5)), weights, ("a",), times=(0.01, 0.04))
        return figure.axes[1].images[0].get_clim()[1]

    assert end(np.full((1, 20), 0.05)) == pytest.approx(0.2)
    assert end(np.array([[0.48, *np.full(19, 0.02)]])) == pytest.approx(0.5)
