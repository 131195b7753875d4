"""The vectors that come with lookups give their weights; where they would not, there are none."""

import numpy as np
import pytest
import torch

from regard.align import Sparsemax
from regard.inference.attended import lookups
from regard.inference.joining import JOININGS
from regard.inference.sides import sides
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.models.gpt2 import GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from tests.inference.test_within import TEXT, opened

SOURCE, TARGET = [5, 7, 4, 9], [6, 4]


def looked(model: Transformer) -> Lookups:
    source, target = Side.of(("a", "b", "c", "d", "</s>")), Side.of(("x", "y", "</s>"))
    return lookups(model, (SOURCE, TARGET), source, target, JOININGS["weights"])


def transformer() -> Transformer:
    return Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3)).eval()


def worked_out(found: Lookups) -> np.ndarray:
    vectors = found.vectors
    assert vectors is not None
    assert vectors.allowed is not None
    scores = np.einsum("lhtd,lhsd->lhts", vectors.query, vectors.key).astype(float) * vectors.scale
    shares = np.exp(scores) * vectors.allowed
    return shares / shares.sum(-1, keepdims=True)


def test_across_two_sequences():
    found = looked(transformer())
    assert found.weights.shape == (2, 3, 3, 5)
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)
    assert found.vectors is not None
    assert found.vectors.value.shape == (2, 3, 5, 2)


def test_within_one_no_later_key_is_allowed():
    found = opened(GPT2Config(layers=2, width=6, heads=3, context=11)).look(TEXT).lookups
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)
    assert found.vectors is not None
    np.testing.assert_array_equal(found.vectors.allowed, np.tri(7) > 0)


def test_what_they_would_not_give_has_none():
    model = transformer()
    for each in model.decoder.modules():
        if isinstance(getattr(each, "align", None), torch.nn.Module):
            each.align = Sparsemax()
    assert looked(model).vectors is None


def test_none_for_another_call():
    model = transformer()
    readers = model.decoder.source_attention
    assert readers is not None
    found = looked(model)
    with sides(model.decoder, readers) as seen:
        assert seen.vectors(found) is None
        looked(model)
        looked(model)
    assert seen.vectors(found) is None


@pytest.mark.parametrize("most", [10, 1000])
def test_none_where_they_are_very_many(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.maps.vectors.MOST", most)
    assert (looked(transformer()).vectors is None) == (most == 10)
