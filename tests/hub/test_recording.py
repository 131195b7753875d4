"""A model of the transformers library with sinks under `record`: the weights that it gives by itself."""

from typing import Any

import pytest
import torch

from regard import record
from regard.maps.reductions import Greatest

transformers = pytest.importorskip("transformers")
TOKENS = torch.randint(5, 31, (2, 11), generator=torch.Generator().manual_seed(2))
REAL = torch.arange(11) < torch.tensor([[11], [9]])
ATTENTION = "layers.*.self_attn"


@pytest.fixture
def model() -> Any:
    """Every head has a sink, which takes a share of its weights, and every other layer reads a window."""
    sizes = {"hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 6}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1}
    config = transformers.GptOssConfig(vocab_size=31, num_key_value_heads=1, sliding_window=3, **sizes, **experts)
    config._experts_implementation = "eager"  # the grouped products know no float64
    torch.manual_seed(3)
    model = transformers.GptOssModel(config)
    for layer in model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model.double().eval()


@torch.no_grad()
def test_maps_are_those_of_the_plain_attention(model: Any):
    with record(model, only=ATTENTION) as maps:
        states = model(TOKENS, attention_mask=REAL.long()).last_hidden_state
    with record(model, ATTENTION, heads=[1], rows=[0, 5]) as parts:
        model(TOKENS, attention_mask=REAL.long())
    with record(model, ATTENTION, reduce=Greatest(3)) as greatest:
        model(TOKENS, attention_mask=REAL.long())
    model.set_attn_implementation("eager")
    plain = model(TOKENS, attention_mask=REAL.long(), output_attentions=True)
    torch.testing.assert_close(states[REAL], plain.last_hidden_state[REAL])
    rows = REAL[:, None, :, None]
    assert len(maps) == 2
    for (name, weights), expected in zip(maps.items(), plain.attentions, strict=True):
        torch.testing.assert_close(weights * rows, expected * rows, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(parts[name], expected[:, [1]][:, :, [0, 5]], rtol=1e-6, atol=1e-7)
        assert torch.equal(greatest[name], weights.topk(3, -1).values)


def test_values_are_not_recorded(model: Any):
    """A measure of weights and values is refused rather than answered with weights."""
    with (
        pytest.raises(ValueError, match=r"reports weights without values; leave measure out"),
        record(model, measure=lambda module, weights, value: weights),
    ):
        model(TOKENS)
