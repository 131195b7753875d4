"""Rollouts: the cross-attention times the encoder's rollout, by hand, and models without a rollout."""

import numpy as np
import pytest
import torch

from regard.attention.record import record
from regard.attribution.cross_attention import attribute_by_weights
from regard.errors import InputError
from tests.attribution.outputs import attribute_outputs
from tests.laws import cases

WRITTEN = [([5, 7, 4], [6, 4, 9]), ([], [7]), ([10, 9, 8, 7, 6], [12, 5])]


def test_of_an_encoder_decoder():
    model = cases.MODELS["transformer-after"]().double().eval()
    results = attribute_by_weights(model, WRITTEN), attribute_outputs(model, WRITTEN, "rollout")
    for (source, written), cross, found in zip(WRITTEN, *results, strict=True):
        tokens = torch.tensor([[*source, 3]])
        with torch.no_grad(), record(model.encoder) as maps:
            model.encoder(tokens, torch.tensor([len(source) + 1]))
        one, two = (maps[f"layers.{layer}.self_attention"][0].mean(0).numpy() for layer in (0, 1))
        identity = np.eye(len(source) + 1)
        wanted = cross @ ((0.5 * two + 0.5 * identity) @ (0.5 * one + 0.5 * identity))
        assert found.shape == (len(written), len(source) + 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)


def test_of_some_maps_of_the_cross_attention():
    model = cases.MODELS["transformer"]().double().eval()
    (all_of_them,), (one,) = (attribute_outputs(model, WRITTEN[:1], "rollout", maps) for maps in (None, [5]))
    assert np.abs(all_of_them - one).max() > 1e-6
    with pytest.raises(InputError, match="map 6 is not there"):
        attribute_outputs(model, WRITTEN[:1], "rollout", [6])


@pytest.mark.parametrize("name", ["bahdanau", "one-pass", "pointer"])
def test_an_encoder_that_is_recurrent_has_none(name: str):
    with pytest.raises(InputError, match="which this run's model lacks; use weights, norms or gradient"):
        attribute_outputs(cases.MODELS[name](), WRITTEN, "rollout")
