"""The self-attention of a text: the model's own weights, every head's map, and the choice of maps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from regard import record
from regard.attribution.attention import attribute_text
from regard.errors import InputError
from regard.maps import TextWeights
from regard.maps.alignment import Side
from regard.maps.heads import HeadMaps
from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.catalog import LANGUAGE_MODELS
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import RecurrentLanguageModelConfig
from regard.models.lstmn import LSTMNConfig
from regard.tasks.language_model.run import LanguageModelling, LanguageModelRun
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END
from tests.attribution.untrained import TEXT as WARM
from tests.attribution.untrained import filling, going_on, telling, writing

TEXT = "the cat sat on the mat"
GPT = GPT2Config(layers=2, width=6, heads=3, context=11)
CONFIGS = {
    "gpt2": GPT,
    "attention": AttentionLanguageModelConfig(embedding=5, width=5, window=5, copying=False),
    "copying": AttentionLanguageModelConfig(embedding=5, width=5, window=5, copying=True),
    "lstmn": LSTMNConfig(embedding=5, width=7, attention=3, window=3),
}


def opened(config: Any) -> LanguageModelRun:
    torch.manual_seed(3)
    tokenizer = Tokenizer.train(TokenizerSettings("space"), [TEXT])
    model = LANGUAGE_MODELS.build(config, tokenizer.size).eval()
    return LanguageModelRun(LanguageModelling.__new__(LanguageModelling), model, tokenizer)


def given(run: LanguageModelRun) -> torch.Tensor:
    return torch.tensor([[END, *run.tokenizer.encode(TEXT)]])


@pytest.mark.parametrize("name", CONFIGS)
def test_a_language_model_reads_its_past_alone(name: str):
    run = opened(CONFIGS[name])
    reading = run.attribute(TEXT)
    words = ("</s>", *TEXT.split())
    before = ("(vocabulary)",) if name == "copying" else ()
    assert (reading.weights.source, reading.weights.target) == (before + words, words)
    maps = HeadMaps.of(reading.lookups[0])
    assert maps.source.pieces == reading.weights.source
    np.testing.assert_allclose(maps.mean().weights, reading.weights.weights, atol=1e-6)
    weights = reading.weights.weights[:, len(before) :]
    assert np.triu(weights, 1).max() == 0.0
    assert (weights[2:, :3].sum() > 0, reading.prediction.text in {*words, "<unk>"}) == (True, True)
    if name == "gpt2":
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        logits, _ = run.model(given(run), run.model.begin(1))
        assert reading.prediction.text == run.tokenizer.pieces([int(logits[0, -1].argmax())])[0]
    else:
        assert weights[0].sum() == 0.0  # of what stands before the first token there is nothing


def test_maps_are_layers_times_heads():
    run = opened(GPT)
    with torch.no_grad(), record(run.model) as maps:
        run.model(given(run), run.model.begin(1))
    one = maps["blocks.1.self_attention"][0, 2].numpy()
    np.testing.assert_allclose(run.attribute(TEXT, maps=[5]).weights.weights, one, atol=1e-6)
    two = (one + maps["blocks.0.self_attention"][0, 1].numpy()) / 2
    np.testing.assert_allclose(run.attribute(TEXT, maps=[5, 1]).weights.weights, two, atol=1e-6)
    for number in (6, -1):
        with pytest.raises(InputError, match=f"map {number} is not there; the model has 6, from 0 to 5"):
            run.attribute(TEXT, maps=[number])


def test_what_cannot_be_looked_into():
    with pytest.raises(InputError, match="the number of weights per query is 0; expected 1 or more"):
        opened(GPT).attribute(TEXT).greatest(0)
    with pytest.raises(InputError, match="is recurrent without attention"):
        opened(RecurrentLanguageModelConfig(embedding=5, width=5)).attribute(TEXT)
    with pytest.raises(InputError, match="the model reads 11"):
        opened(GPT).attribute(f"{TEXT} {TEXT}")


def test_the_text_is_read_once_and_without_a_gradient():
    run, logits = opened(GPT), []

    def call() -> None:
        logits.append(run.model(given(run), run.model.begin(1))[0])

    _, alignment = attribute_text(run.model, run.model.self_attention, Side.of("abcdefg"), call)
    (only,) = logits
    assert (only.shape, alignment.target) == ((1, 7, run.tokenizer.size), tuple("abcdefg"))
    assert not only.requires_grad


NAMES = tuple(f"layer {layer}, head {head}" for layer in range(2) for head in range(3))


@pytest.mark.parametrize("make", [writing, going_on, filling])
def test_their_mean_is_what_is_looked_at(make):
    run = make()
    looked = run.attribute(WARM)
    maps = HeadMaps.of(looked.lookups[0])
    assert (maps.names, maps.layers) == (NAMES, (3, 3))
    assert (maps.source.pieces, maps.target.pieces) == (looked.weights.source, looked.weights.target)
    np.testing.assert_allclose(maps.mean().weights, looked.weights.weights, atol=1e-6)
    layers, heads = looked.lookups[0].weights.shape[:2]
    shown = looked.figure().get_suptitle()
    assert f"attention weights, the mean of {layers * heads} heads in {layers} layers" in shown
    assert "attention weights" in run.attribute(WARM, maps=[5]).figure().get_suptitle()
    assert "(empty)" in replace(looked, title="").figure().get_suptitle()
    np.testing.assert_allclose(maps.mean([5]).weights, run.attribute(WARM, maps=[5]).weights.weights, atol=1e-6)


def test_of_two_texts_too():
    run = telling()
    looked = run.attribute((WARM, "the cat"))
    assert isinstance(looked.weights, TextWeights)
    assert looked.weights.labels == (*WARM.split(), "the", "cat")
    maps = HeadMaps.of(looked.lookups[0])
    assert maps.is_self_attention
    assert maps.target.words.labels[-3:] == ("the", "cat", "</s>")
