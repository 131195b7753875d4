"""The language-model task: its loss, its figures, and what it refuses."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.models.catalog import LANGUAGE_MODELS
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import LanguageModel, RecurrentLanguageModelConfig
from regard.tasks.language_model.likelihood import CHUNK, measure_texts, token_losses, token_stream
from regard.tasks.language_model.run import (
    ConsecutiveWindows,
    LanguageModelObjective,
    ShuffledWindows,
    make_windows,
)
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END
from regard.training.settings import Training

TEXTS = ["the cat sat on the mat", "", "a cat <unk> sat", "the </s> mat"]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("space"), TEXTS)


def model(tokenizer: Tokenizer, config: Any = None) -> LanguageModel:
    torch.manual_seed(3)
    config = RecurrentLanguageModelConfig(embedding=5, width=7) if config is None else config
    return LANGUAGE_MODELS.build(config, tokenizer.size).double().eval()


def settings(**changes: Any) -> Training:
    return Training(**{"batch_tokens": 6, "seed": 3, **changes})


def test_texts_follow_one_another(tokenizer: Tokenizer):
    tokens = token_stream(tokenizer, TEXTS[:2])[:]
    assert tokens.tolist() == [END, *tokenizer.encode(TEXTS[0]), END, END]


def test_figures_count_every_token_word_and_character(tokenizer: Tokenizer):
    """Of a model that finds all tokens alike."""
    one = model(tokenizer)
    for parameter in one.parameters():
        nn.init.zeros_(parameter)
    found = measure_texts(one, tokenizer, TEXTS)
    words, characters = sum(len(text.split()) + 1 for text in TEXTS), sum(len(text) + 1 for text in TEXTS)
    assert found["perplexity"] == pytest.approx(tokenizer.size)
    assert found["loss"] == pytest.approx(math.log(tokenizer.size))
    assert found["word_perplexity"] == pytest.approx(tokenizer.size)
    assert found["bits_per_character"] == pytest.approx(words * math.log2(tokenizer.size) / characters)


def test_likelihood_is_that_of_one_pass_however_long_the_text(tokenizer: Tokenizer):
    one = model(tokenizer)
    tokens = torch.randint(2, tokenizer.size, (2 * CHUNK + 17,), generator=torch.Generator().manual_seed(1))
    features, _ = one.run(tokens[None, :-1], one.begin(1))
    _, wanted = one.output.loss(features, tokens[None, 1:])
    torch.testing.assert_close(token_losses(one, tokens), wanted[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 2, 5, 8, 9, 10, 23, 70])
def test_windows_of_a_limited_context_overlap_by_half(tokenizer: Tokenizer, length: int):
    """Each token is given at least half a context, where there is one before it."""
    one = model(tokenizer, GPT2Config(layers=1, width=6, heads=2, context=8))
    tokens = torch.randint(2, tokenizer.size, (length,), generator=torch.Generator().manual_seed(1))
    found = token_losses(one, tokens)
    assert found.shape == (length - 1,)
    for place in range(1, length):
        starts = range(max(0, place - 8), max(0, place - 4) + 1)
        candidates = []
        for start in starts:
            given = tokens[start : place + 1][None]
            features, _ = one.run(given[:, :-1], one.begin(1))
            _, each = one.output.loss(features, given[:, 1:])
            candidates.append(each[0, -1])
        assert min(abs(float(found[place - 1] - each)) for each in candidates) < 1e-12


def test_the_loss_of_a_batch_goes_on_where_the_last_one_ended(tokenizer: Tokenizer):
    one, tokens = model(tokenizer), token_stream(tokenizer, TEXTS * 3)[:]
    windows = ConsecutiveWindows(tokens, 3, 2, 1)
    task = LanguageModelObjective(windows, TEXTS, tokenizer, settings())
    batches = [task.batch(0, examples) for examples in task.batches(0)]
    carried, total = None, 0.0
    for batch in batches:
        found = task.loss(one, batch, 1, carried)
        assert found.tokens == batch.expected.numel()
        carried, total = found.carried, total + found.total.item()
    inputs, expected = (torch.cat([getattr(batch, side) for batch in batches], 1) for side in ("inputs", "expected"))
    whole, _ = one.output.loss(one.run(inputs, one.begin(2))[0], expected)
    assert total == pytest.approx(whole.item(), rel=1e-10)
    fresh = task.loss(one, batches[0], 1, carried)
    assert fresh.total.item() == pytest.approx(task.loss(one, batches[0], 1, None).total.item(), rel=1e-12)


def test_models_that_carry_nothing_read_windows_in_any_order(tokenizer: Tokenizer):
    tokens = token_stream(tokenizer, TEXTS)[:]
    gpt2 = model(tokenizer, GPT2Config(layers=1, width=6, heads=2, context=8))
    assert isinstance(make_windows(tokens, gpt2, settings(batch_tokens=8), 8, 1), ShuffledWindows)
    assert isinstance(make_windows(tokens, model(tokenizer), settings(), 3, 1), ConsecutiveWindows)
    for window in (7, 9):
        with pytest.raises(InputError, match=f"window is {window} and the model's context 8; make them equal"):
            make_windows(tokens, gpt2, settings(batch_tokens=9), window, 1)


def test_a_text_shorter_than_one_batch_lowers_it_aloud(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture):
    def rows(tokens: int, window: int, batch: int) -> int:
        made = make_windows(torch.arange(tokens), model(tokenizer), settings(batch_tokens=batch), window, 1)
        return made.rows

    with caplog.at_level("INFO", "regard"):
        assert rows(65, 8, 64) == 8
        assert not caplog.messages
        assert rows(64, 8, 64) == 1
    assert "from 64 to 8, since the training text of 64 tokens is shorter than one batch" in caplog.messages[0]
