"""Attention by norms, against NumPy in float64 and against the whole output."""

from typing import TypeVar

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import Attend
from regard.attention.heads import MultiHead, self_attention
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive, ScaledDot
from regard.attribution.aggregation import ValueNorms
from regard.attribution.cross_attention import record_source_attention
from regard.models.show_attend_and_tell import Gate
from tests.attribution.outputs import attribute_outputs
from tests.laws import cases

HEADS = {
    "plain": lambda: MultiHead(6, 3),
    "grouped": lambda: MultiHead(8, 4, key_value_heads=2),
    "shared": lambda: MultiHead(6, 2, shared_key_value=True),
    "wide": lambda: MultiHead(6, 3, head_width=5),
}


M = TypeVar("M", bound=nn.Module)


def drawn(module: M) -> M:
    """With offsets too, which start at zero."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double().eval()


def by_hand(heads: MultiHead, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """a f(v) of each head, `(head, query, key, width)`, equation by equation."""
    value, output = heads.value, heads.output
    every = states @ value.weight.detach().numpy().T + value.bias.detach().numpy()
    width = output.weight.shape[1] // heads.heads
    shared = heads.heads // heads.key_value_heads
    found = []
    for head in range(heads.heads):
        own = every[:, (head // shared) * width :][:, :width]
        written = own @ output.weight.detach().numpy()[:, head * width :][:, :width].T
        found.append(weights[head][:, :, None] * written[None])
    return np.stack(found)


@pytest.mark.parametrize("name", HEADS)
def test_of_heads(name: str):
    heads = drawn(HEADS[name]())
    states = torch.randn(1, 5, heads.query.in_features, dtype=torch.float64)
    model = nn.ModuleDict({"read": heads})
    with torch.no_grad(), record(model) as plain:
        read = self_attention(heads, states)
    with torch.no_grad(), record(model, measure=ValueNorms(model)) as found:
        self_attention(heads, states)
    vectors = by_hand(heads, states[0].numpy(), plain["read"][0].numpy())
    np.testing.assert_allclose(found["read"][0].numpy(), np.linalg.norm(vectors, axis=-1), rtol=1e-12)
    total = vectors.sum((0, 2)) + heads.output.bias.detach().numpy()
    np.testing.assert_allclose(total, read[0].numpy(), rtol=1e-10)  # what is measured is all that is written


def test_of_one_lookup():
    attend = drawn(Attend(Additive(5, 3, 7)))
    query, key, value = (torch.randn(2, size, width, dtype=torch.float64) for size, width in ((3, 5), (7, 3), (7, 11)))
    model = nn.ModuleDict({"attend": attend})
    with record(model) as plain:
        attend(query, Memory(key, value))
    with record(model, measure=ValueNorms(model)) as found:
        attend(query, Memory(key, value))
    wanted = plain["attend"].numpy()[..., None] * value.numpy()[:, None]
    np.testing.assert_allclose(found["attend"].numpy(), np.linalg.norm(wanted, axis=-1), rtol=1e-12)


def test_a_value_of_zero_is_read_without_effect():
    attend = Attend(ScaledDot())
    key, value = torch.randn(1, 5, 3), torch.randn(1, 5, 2)
    value[0, 2] = 0.0
    model = nn.ModuleDict({"attend": attend})
    with record(model) as plain, torch.no_grad():
        attend(torch.randn(1, 2, 3), Memory(key, value))
    with record(model, measure=ValueNorms(model)) as found:
        attend(torch.randn(1, 2, 3), Memory(key, value))
    assert (plain["attend"][0, :, 2] > 0).all()
    assert (found["attend"][0, :, 2] == 0).all()


def test_chosen_heads_and_rows_are_those_of_the_norms():
    model = drawn(cases.MODELS["transformer"]())
    batch = cases.sentences()
    inputs = batch.tokens, batch.lengths, batch.target
    measure = ValueNorms(model)
    with record(model, measure=measure) as every:
        model(*inputs)
    with record(model, heads=[2, 0], rows=[1, 3], measure=measure) as some:
        model(*inputs)
    for name in every:
        assert torch.equal(some[name], every[name][:, [2, 0]][..., [1, 3], :])


@pytest.mark.parametrize("name", ["bahdanau-coverage", "luong-general", "one-pass-local-m", "pointer", "transformer"])
def test_of_outputs_rows_are_shares_of_the_mean(name: str):
    model = drawn(cases.MODELS[name]())
    (found,) = attribute_outputs(model, [([5, 7, 4], [6, 4])], "norms")
    (raw,) = record_source_attention(model, [([5, 7, 4], [6])], ValueNorms(model))
    mean = raw.numpy().mean(0)
    np.testing.assert_allclose(found, mean / mean.sum(-1, keepdims=True), rtol=1e-12)
    (weights,) = record_source_attention(model, [([5, 7, 4], [6])])
    assert np.abs(found - weights.numpy().mean(0)).max() > 1e-3


def test_weights_without_values_are_refused():
    model = nn.ModuleDict({"gate": Gate(3)})
    with (
        pytest.raises(ValueError, match="'gate' reports weights without values; leave measure out"),
        record(model, measure=ValueNorms(model)),
    ):
        model["gate"](torch.zeros(2, 3))
