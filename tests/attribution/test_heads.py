"""Every head's map, and their mean."""

from dataclasses import replace

import numpy as np
import pytest

from regard.maps import TextWeights
from regard.maps.heads import HeadMaps
from tests.attribution.test_within import CONFIGS, opened
from tests.attribution.untrained import TEXT, filling, going_on, telling, writing

NAMES = tuple(f"layer {layer}, head {head}" for layer in range(2) for head in range(3))


@pytest.mark.parametrize("make", [writing, going_on, filling])
def test_their_mean_is_what_is_looked_at(make):
    run = make()
    looked = run.attribute(TEXT)
    maps = HeadMaps.of(looked.lookups[0])
    assert (maps.names, maps.layers) == (NAMES, (3, 3))
    assert (maps.source.pieces, maps.target.pieces) == (looked.weights.source, looked.weights.target)
    np.testing.assert_allclose(maps.mean().weights, looked.weights.weights, atol=1e-6)
    layers, heads = looked.lookups[0].weights.shape[:2]
    shown = {text.get_text() for text in looked.figure().texts}
    assert f"attention weights, the mean of {layers * heads} heads in {layers} layers" in shown
    assert "attention weights" in {text.get_text() for text in run.attribute(TEXT, maps=[5]).figure().texts}
    assert "(empty)" in {text.get_text() for text in replace(looked, title="").figure().texts}
    np.testing.assert_allclose(maps.mean([5]).weights, run.attribute(TEXT, maps=[5]).weights.weights, atol=1e-6)


def test_of_two_texts_too():
    run = telling()
    looked = run.attribute((TEXT, "the cat"))
    assert isinstance(looked.weights, TextWeights)
    assert looked.weights.labels == (*TEXT.split(), "the", "cat")
    maps = HeadMaps.of(looked.lookups[0])
    assert maps.is_self_attention
    assert maps.target.words.labels[-3:] == ("the", "cat", "</s>")


@pytest.mark.parametrize("name", CONFIGS)
def test_of_every_model_that_reads_its_past(name: str):
    run = opened(CONFIGS[name])
    looked = run.attribute(TEXT[:20])
    maps = HeadMaps.of(looked.lookups[0])
    assert maps.source.pieces == looked.weights.source
    np.testing.assert_allclose(maps.mean().weights, looked.weights.weights, atol=1e-6)
