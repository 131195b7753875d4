from typing import Any

import numpy as np
import pytest

from regard.nn.embeddings import sinusoids
from regard.pictures.panels import positions
from regard.pictures.views import draw_entropies


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


def test_no_encoding():
    with pytest.raises(ValueError, match="got no encoding"):
        positions({})


def test_entropies_have_their_number_and_the_most_there_can_be():
    (axes,) = draw_entropies([np.array([0.0, 1.5]), np.array([3.0, np.nan])], 8).axes
    assert sorted(text.get_text() for text in axes.texts) == ["0", "1.5", "3", "–"]
    assert axes.get_title(loc="left") == "entropy of each head, 0 to 3.00 bits"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["layer 0", "layer 1"]
    assert axes.collections[0].get_clim() == (0, 3)
