"""Models of the transformers library under `record`: the weights they would give by themselves, and nothing changed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import record
from regard.maps.reductions import Greatest

transformers = pytest.importorskip("transformers")
TOKENS = torch.randint(5, 31, (2, 11), generator=torch.Generator().manual_seed(2))
REAL = torch.arange(11) < torch.tensor([[11], [9]])


def gpt2() -> Any:
    return transformers.GPT2Model(transformers.GPT2Config(vocab_size=31, n_embd=6, n_layer=2, n_head=3))


def bert() -> Any:
    sizes = {"hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 5}
    return transformers.BertModel(transformers.BertConfig(vocab_size=31, **sizes))


def llama() -> Any:
    """Several query heads share keys and values."""
    sizes = {"hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 6}
    return transformers.LlamaModel(transformers.LlamaConfig(vocab_size=31, num_key_value_heads=2, **sizes))


def gemma() -> Any:
    """Scores are capped, and every other layer reads a window."""
    sizes = {"hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 6}
    config = transformers.Gemma2Config(vocab_size=31, num_key_value_heads=1, sliding_window=3, **sizes)
    return transformers.Gemma2Model(config)


def gpt_oss() -> Any:
    """Every head has a sink, which takes a share of its weights, and every other layer reads a window."""
    sizes = {"hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 6}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1}
    config = transformers.GptOssConfig(vocab_size=31, num_key_value_heads=1, sliding_window=3, **sizes, **experts)
    config._experts_implementation = "eager"  # the grouped products know no float64
    model = transformers.GptOssModel(config)
    for layer in model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "gpt2": (gpt2, "h.*.attn"),
    "bert": (bert, "encoder.layer.*.attention.self"),
    "llama": (llama, "layers.*.self_attn"),
    "gemma": (gemma, "layers.*.self_attn"),
    "gpt-oss": (gpt_oss, "layers.*.self_attn"),
}
models = pytest.mark.parametrize("name", list(MODELS))


def made(name: str) -> tuple[Any, str]:
    torch.manual_seed(3)
    build, attention = MODELS[name]
    return build().double().eval(), attention


def eager(model: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Its last states and its weights by its own plain attention."""
    before = model.config._attn_implementation
    model.config._attn_implementation = "eager"
    found = model(TOKENS, attention_mask=REAL.long(), output_attentions=True)
    model.config._attn_implementation = before
    return found.last_hidden_state, found.attentions


@models
@torch.no_grad()
def test_maps_are_those_of_the_plain_attention(name: str):
    model, attention = made(name)
    states, expected = eager(model)
    with record(model, only=attention) as maps:
        found = model(TOKENS, attention_mask=REAL.long()).last_hidden_state
    assert len(maps) == 2
    rows = REAL[:, None, :, None]
    for weights, wanted in zip(maps.values(), expected, strict=True):
        torch.testing.assert_close(weights * rows, wanted * rows, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found[REAL], states[REAL])


@models
@torch.no_grad()
def test_heads_and_rows_alone(name: str):
    model, attention = made(name)
    _, expected = eager(model)
    with record(model, only=attention, heads=[1], rows=[0, 5]) as maps:
        model(TOKENS, attention_mask=REAL.long())
    for weights, wanted in zip(maps.values(), expected, strict=True):
        torch.testing.assert_close(weights, wanted[:, [1]][:, :, [0, 5]], rtol=1e-6, atol=1e-7)


@torch.no_grad()
def test_nothing_else_is_computed(monkeypatch: pytest.MonkeyPatch):
    from regard.attention import transformers as module

    model, _ = made("gpt2")
    asked: list[Any] = []
    plain = module.compute_weights
    monkeypatch.setattr(module, "compute_weights", lambda *given: asked.append(given[4:6]) or plain(*given))
    with record(model, only="h.1.attn", rows=[3]):
        model(TOKENS)
    assert asked == [(None, [3])]


@models
@torch.no_grad()
def test_outside_it_is_as_before(name: str):
    model, attention = made(name)
    before, kind = model(TOKENS).last_hidden_state, model.config._attn_implementation
    with record(model, only=attention):
        model(TOKENS)
    assert model.config._attn_implementation == kind
    assert torch.equal(model(TOKENS).last_hidden_state, before)


@torch.no_grad()
def test_the_steps_of_a_decode_are_one_map():
    torch.manual_seed(3)
    config = transformers.GPT2Config(vocab_size=31, n_embd=6, n_layer=1, n_head=3, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).eval()
    with record(model, only="transformer.h.0.attn") as maps:
        written = model.generate(TOKENS[:1], max_new_tokens=4, do_sample=False, pad_token_id=0)
    with record(model, only="transformer.h.0.attn") as whole:
        model(written[:, :-1])
    torch.testing.assert_close(maps["transformer.h.0.attn"], whole["transformer.h.0.attn"], rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_inside_a_model_of_your_own():
    model, _ = made("bert")
    mine = torch.nn.ModuleDict({"reader": model})
    with record(mine, only="reader.encoder.layer.0.attention.self") as maps:
        mine["reader"](TOKENS)
    assert maps["reader.encoder.layer.0.attention.self"].shape == (2, 3, 11, 11)


@models
@pytest.mark.parametrize("together", [4, 256])
def test_the_greatest_weights_alone(name: str, together: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.maps.reductions.QUERIES_PER_GROUP", together)
    model, attention = made(name)
    with record(model, attention, heads=[1, 0], rows=[0, 2, 3, 7, 8, 10], reduce=Greatest(3)) as maps:
        model(TOKENS, attention_mask=REAL.long())
    with record(model, attention, heads=[1, 0], rows=[0, 2, 3, 7, 8, 10]) as whole:
        model(TOKENS, attention_mask=REAL.long())
    for module, weights in whole.items():
        expected = weights.topk(3, -1)
        assert torch.equal(maps[module], expected.values)
        assert torch.equal(weights.gather(-1, maps.key_indices(module)), expected.values)


def test_values_are_not_recorded():
    """A measure of weights and values is refused rather than answered with weights."""
    build, _ = MODELS["gpt2"]
    model = build().eval()
    with (
        pytest.raises(ValueError, match=r"of transformers reports weights.*; leave measure out"),
        record(model, measure=lambda module, weights, value: weights),
    ):
        model(TOKENS)
