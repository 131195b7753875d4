"""Every head's map: together they are what `look` joins to one."""

import numpy as np
import pytest
import torch

from regard import record
from regard.errors import InputError
from regard.maps import Alignment
from regard.models.recurrent_language_model import RecurrentLanguageModelConfig
from tests.inference.test_within import CONFIGS, opened
from tests.inference.untrained import TEXT, filling, going_on, seeing, telling, writing

NAMES = tuple(f"layer {layer}, head {head}" for layer in range(2) for head in range(3))


@pytest.mark.parametrize("make", [writing, going_on, filling])
def test_their_mean_is_what_is_looked_at(make):
    run = make()
    found, looked = run.heads(TEXT), run.look(TEXT)
    assert (found.answer, found.maps.names, found.maps.layers) == (looked.answer, NAMES, (3, 3))
    assert (found.maps.source.pieces, found.maps.target.pieces) == (looked.attention.source, looked.attention.target)
    np.testing.assert_allclose(found.maps.mean().weights, looked.attention.weights, atol=1e-6)
    np.testing.assert_allclose(found.maps.mean([5]).weights, run.look(TEXT, [5]).attention.weights, atol=1e-6)


def test_of_two_texts_too():
    run = telling()
    found, looked = run.heads((TEXT, "the cat")), run.look((TEXT, "the cat"))
    assert isinstance(looked.weights, Alignment)
    assert found.answer == f"{looked.found.label}\t{looked.found.probability:.4f}"
    assert found.maps.source.pieces == looked.weights.source
    np.testing.assert_allclose(found.maps.mean().weights, looked.weights.weights, atol=1e-6)
    assert found.maps.target.words.labels[-3:] == ("the", "cat", "</s>")


@pytest.mark.parametrize("name", CONFIGS)
def test_of_every_model_that_reads_its_past(name: str):
    run = opened(CONFIGS[name])
    found, looked = run.heads(TEXT[:20]), run.look(TEXT[:20])
    assert found.maps.source.pieces == looked.attention.source
    np.testing.assert_allclose(found.maps.mean().weights, looked.attention.weights, atol=1e-6)


def test_of_images_each_map_has_what_the_class_was_told_by():
    run = seeing()
    image = np.arange(16, dtype=np.uint8).reshape(4, 4) * 15
    found = run.heads(image)
    assert found.maps.source.pieces == ("[CLS]", "0,0", "0,1", "1,0", "1,1")
    assert (found.maps.names, found.patches.shape) == (NAMES, (6, 2, 2))
    np.testing.assert_allclose(found.patches.sum((1, 2)), 1.0)
    with torch.no_grad(), record(run.model, only="encoder.layers.1.self_attention") as maps:
        run.model(run.config.images.tensor(found.pixels)[None])
    first = maps["encoder.layers.1.self_attention"][0, 2, 0, 1:].double().numpy()
    np.testing.assert_allclose(found.patches[5].ravel(), first / first.sum(), atol=1e-6)


def test_models_that_read_nothing_again():
    with pytest.raises(InputError, match="carries a state from token to token and reads none again"):
        opened(RecurrentLanguageModelConfig(embedding=5, width=5)).heads("the cat")
