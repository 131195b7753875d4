"""The continuous cache against its formula, word by word."""

import math

import pytest
import torch

from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.catalog import build_language_model
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import LanguageModel, RecurrentLanguageModelConfig
from regard.tasks.language_model.likelihood import CHUNK, ContinuousCache, token_losses


@pytest.fixture
def model() -> LanguageModel:
    torch.manual_seed(3)
    return build_language_model(RecurrentLanguageModelConfig(embedding=5, width=5), 11).double().eval()


def words(length: int) -> torch.Tensor:
    return torch.randint(4, 11, (length,), generator=torch.Generator().manual_seed(1))


def test_each_word_by_the_formula(model: LanguageModel):
    tokens, cache = words(14), ContinuousCache(4, 0.3, 0.7)
    features, _ = model.run(tokens[None, :-1], model.begin(1))
    features = features.detach()
    states, vocabulary = features[0], model.output(features)[0].softmax(-1).detach()
    found = token_losses(model, tokens, cache)
    for now in range(13):
        recent = range(max(0, now - 4), now)  # what follows the state itself is what is asked
        kernel = [math.exp(0.7 * float(states[now] @ states[past])) for past in recent]
        mine = float(vocabulary[now, tokens[now + 1]])
        seen = sum(each for past, each in zip(recent, kernel, strict=True) if tokens[past + 1] == tokens[now + 1])
        wanted = 0.7 * mine + 0.3 * seen / sum(kernel) if kernel else mine
        assert float(found[now]) == pytest.approx(-math.log(wanted), rel=1e-10)


def test_it_goes_on_over_the_stretches_that_are_read(model: LanguageModel):
    tokens, cache = words(CHUNK + 40), ContinuousCache(30, 0.3, 0.7)
    whole = token_losses(model, tokens, cache)
    features, _ = model.run(tokens[None, :-1], model.begin(1))
    _, own = model.output.loss(features, tokens[None, 1:])
    once, _ = cache.mix(own, features, tokens[None, 1:])
    torch.testing.assert_close(whole, once[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "values",
    [(0, 0.1, 0.3), (5, 1.0, 0.3), (5, 0.1, -1.0)],
)
def test_caches_that_cannot_be(values: tuple[int, float, float]):
    with pytest.raises(ValueError, match="expected a size of at least 1"):
        ContinuousCache(*values)


def test_models_that_can_have_none():
    gpt2 = build_language_model(GPT2Config(layers=1, width=6, heads=2, context=8), 11)
    with pytest.raises(ValueError, match="limited context"):
        token_losses(gpt2, words(9), ContinuousCache())
    copying = build_language_model(AttentionLanguageModelConfig(embedding=5, width=5, copying=True), 11)
    with pytest.raises(ValueError, match="models that do not copy"):
        token_losses(copying, words(9), ContinuousCache())
