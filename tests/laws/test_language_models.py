"""Language models are decoders without a source: the laws of decoders, and what goes on from part to part."""

from typing import Any

import pytest
import torch
from torch import nn

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.catalog import LANGUAGE_MODELS, LanguageModelConfig
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import LanguageModel, RecurrentLanguageModelConfig
from regard.models.llama import LlamaConfig
from regard.models.lstmn import LSTMNConfig
from regard.testing import check_decoder

VOCABULARY = 13
CONFIGS: dict[str, LanguageModelConfig] = {
    "lstm": RecurrentLanguageModelConfig(embedding=5, width=7),
    "gru-untied": RecurrentLanguageModelConfig(cell="gru", embedding=5, width=7, layers=1, tied=False),
    "tanh": RecurrentLanguageModelConfig(cell="tanh", embedding=7, width=7, layers=3),
    "attention": AttentionLanguageModelConfig(embedding=5, width=7, window=3),
    "attention-itself": AttentionLanguageModelConfig(embedding=5, width=7, window=3, itself=True, score="concat"),
    "attention-untied": AttentionLanguageModelConfig(embedding=5, width=7, window=11, tied=False),
    "attention-copying": AttentionLanguageModelConfig(embedding=5, width=7, window=3, copying=True),
    "lstmn": LSTMNConfig(embedding=5, width=7, attention=3, window=3),
    "lstmn-distances": LSTMNConfig(embedding=5, width=7, attention=3, window=3, positions="bucketed"),
    "lstmn-gated": LSTMNConfig(embedding=5, width=7, attention=3, window=3, gated=True),
    "gpt2": GPT2Config(layers=2, width=6, heads=2, context=11),
    "llama": LlamaConfig(layers=2, width=8, heads=2, key_value_heads=1, context=11),
    "llama-window": LlamaConfig(layers=2, width=8, heads=4, window=3, normalized=True, tied=False, context=11),
    "llama-sinks": LlamaConfig(layers=2, width=8, heads=4, key_value_heads=2, window=3, sinks=2, context=11),
    "gpt2-cosine": GPT2Config(layers=2, width=6, heads=2, context=11, score="cosine", align="entmax"),
    "gpt2-concat": GPT2Config(layers=2, width=6, heads=2, context=11, score="concat", align="local-m", window=2),
    "gpt2-distance": GPT2Config(layers=2, width=6, heads=2, context=11, score="distance", align="monotonic"),
}
CARRYING = [name for name in CONFIGS if not name.startswith(("gpt2", "llama"))]


def make(name: str) -> LanguageModel:
    torch.manual_seed(5)
    model = LANGUAGE_MODELS.build(CONFIGS[name], VOCABULARY).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def words(batch: int, length: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", CONFIGS)
def test_laws_of_decoders(name: str):
    nothing = torch.zeros(3, 0, 1, dtype=torch.float64)
    check_decoder(make(name), Memory(nothing, nothing))


@pytest.mark.parametrize("name", CARRYING)
def test_what_is_carried_makes_parts_a_whole(name: str):
    model, tokens = make(name).eval(), words(2, 11)
    whole, _ = model(tokens, model.begin(2))
    parts, state = [], model.begin(2)
    for part in tokens.split(4, 1):
        logits, state = model(part, state)
        parts.append(logits)
        state = model.detach_state(state)
        assert state is not None
        assert not any(tensor.requires_grad for tensor in state.parts().values())
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CARRYING)
def test_what_is_carried_does_not_grow(name: str):
    model = make(name).eval()
    sizes = []
    for length in (5, 7):
        _, state = model(words(2, length), model.begin(2))
        carried = model.detach_state(state)
        assert carried is not None
        sizes.append({key: tensor.shape for key, tensor in carried.parts().items()})
    assert (sizes[0] == sizes[1]) is (name != "attention-untied")  # whose window is longer than either text


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_learns(name: str):
    model, tokens = make(name).train(), words(5, 7)
    features, _ = model.run(tokens[:, :-1], model.begin(5))
    total, rows = model.output.loss(features, tokens[:, 1:])
    total.backward()
    assert rows.shape == (5, 6)
    untouched = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # A bias of the keys shifts all scores of a row alike.
    assert [name for name in untouched if not name.endswith("key.bias")] == []


@pytest.mark.parametrize("name", CONFIGS)
def test_the_loss_is_that_of_the_logits(name: str):
    model, tokens = make(name).eval(), words(3, 8).clamp(min=1)
    logits, _ = model(tokens[:, :-1], model.begin(3))
    features, _ = model.run(tokens[:, :-1], model.begin(3))
    total, _ = model.output.loss(features, tokens[:, 1:])
    wanted = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close(total, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "seen"), [("attention", range(2, 5)), ("attention-itself", range(3, 6)), ("lstmn", range(2, 5))]
)
def test_the_window_is_what_is_read(name: str, seen: range):
    """At position 5, with a window of 3: the three states before, or those with its own."""
    model, tokens = make(name).eval(), words(2, 7)
    with record(model, only="attend") as maps:
        model(tokens, model.begin(2))
    weights = maps["attend"]
    assert weights.shape == (2, 7, 6 if name == "lstmn" else 7)  # its tape has no place for the last one yet
    assert [place for place in range(6) if weights[0, 5, place] > 0] == list(seen)
    assert weights[:, 0].sum() == (2 if name == "attention-itself" else 0)


def test_copying_mixes_the_vocabulary_with_the_window():
    """p(w) = g p_vocabulary(w) + sum of the weights on w (Merity 2017, equation 6), from the recorded weights."""
    model: Any = make("attention-copying").eval()
    tokens = words(3, 7)
    with record(model, only=model.self_attention) as maps:
        features, _ = model.run(tokens, model.begin(3))
    weights = maps["attend"]
    vocabulary = nn.functional.linear(
        features.features, model.output.written.weight, model.output.written.bias
    ).softmax(-1)
    shown = nn.functional.one_hot(tokens, VOCABULARY).double()
    wanted = weights[..., :1] * vocabulary + weights[..., 1:] @ shown
    torch.testing.assert_close(model.output(features).exp(), wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(wanted.sum(-1), torch.ones(3, 7, dtype=torch.float64))
