"""The attention of given outputs: one row a token, END included, each summing to 1, the same as in a decode."""

from typing import get_args

import numpy as np
import pytest
import torch

from regard.attention.record import record
from regard.attribution.attention import attribute_by_weights, attribute_cross_attention, record_source_attention
from regard.attribution.kinds import GRADIENTS, Kind
from regard.data.batches import collate
from regard.maps.alignment import Side
from regard.text.kinds import START
from tests.laws import cases

PAIRS = [([5, 7, 4], [6, 4, 9, 11, 5]), ([], [7]), ([10, 9, 8, 7, 6, 5, 4], []), ([4], [12, 5, 12])]
MAPS = {
    "transformer": 2 * 3,
    "transformer-after": 2 * 2,
    "transformer-concat": 1 * 2,
    "transformer-cosine": 2 * 3,
    "transformer-grouped": 1 * 4,
    "transformer-learned": 1 * 2,
    "transformer-monotonic": 2 * 3,
    "one-pass-local-m": 2,
}
"""Layers x heads; the other decoders have one map."""
LESS = {"luong-local-p", "bahdanau-monotonic", "transformer-monotonic"}
"""Whose weights may sum to less than 1."""
ATTENDING = [name for name in cases.MODELS if not name.startswith("bottleneck")]


@pytest.mark.parametrize("name", ATTENDING)
def test_rows_sum_to_one(name: str):
    model = cases.MODELS[name]().double().eval()
    for (source, target), maps in zip(PAIRS, record_source_attention(model, PAIRS), strict=True):
        assert maps.shape == (MAPS.get(name, 1), len(target) + 1, len(source) + 1)
        total = maps.sum(-1)
        if name in LESS:
            assert (total < 1 + 1e-12).all()
        else:
            torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-12, atol=1e-12)
        assert (maps >= 0).all()
        assert not maps.requires_grad


@pytest.mark.parametrize("name", ATTENDING)
def test_equals_what_stepping_looks_at(name: str):
    model = cases.MODELS[name]().double().eval()
    for pair, maps in zip(PAIRS, record_source_attention(model, PAIRS), strict=True):
        alone = collate([pair])
        state = model.decoder.start(model.encoder(alone.source, alone.source_lengths))
        assert model.decoder.source_attention is not None
        with record(model.decoder, only=model.decoder.source_attention) as seen:
            for token in (START, *pair[1]):
                _, state = model.decoder.step(torch.tensor([token]), state)
        joined = torch.cat([each.reshape(-1, *each.shape[-2:]) for each in seen.values()])
        torch.testing.assert_close(maps, joined, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["bottleneck", "bottleneck-every-step"])
def test_a_model_without_attention_says_so(name: str):
    with pytest.raises(ValueError, match="no attention to its source"):
        record_source_attention(cases.MODELS[name](), PAIRS)


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("name", ["luong-dot", "transformer"])
def test_what_an_output_depended_on_takes_one_pass(name: str, kind: Kind):
    """Recorded maps, what they are made of, and the one map of all of them; the same as of several outputs."""
    if kind == "rollout" and name != "transformer":
        return
    model, calls = cases.MODELS[name]().double().eval(), []
    sides = Side.of(tuple("abc$")), Side.of(tuple("xy$"))
    model.register_forward_hook(lambda *given: calls.append(given))
    for part in (model.encoder, model.decoder.output):
        part.register_forward_hook(lambda *given: calls.append(given))
    lookups, attention = attribute_cross_attention(model, ([5, 7, 4], [6, 4, 3]), sides, kind)
    passes = {"effect": 6, "gradient": 3, "integrated": 3 * GRADIENTS["integrated"]}
    assert len(calls) == passes.get(kind, 1)  # the encoder only: recording needs no logits
    assert (lookups.breakdown is not None) == (kind == "weights")
    if kind == "weights":
        found, _ = attribute_by_weights(model, [([5, 7, 4], [6, 4, 3]), ([9, 8], [5])])
        np.testing.assert_allclose(attention.weights, found, rtol=1e-12, atol=1e-12)
