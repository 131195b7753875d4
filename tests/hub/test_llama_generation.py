"""Long continuations of an imported Llama: token by token those of transformers, in 16 bits and in bytes too."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import load
from regard.nn.fast_linear import Int8Linear, Int8Output
from regard.tasks.language_model.run import LanguageModelRun
from tests.hub import test_llama
from tests.hub.published import written

LONG = 200
SIZES = test_llama.SIZES[1] | test_llama.MORE[1]


@pytest.fixture(scope="module", params=["Llama", "Mistral"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run with room for long texts, and transformers' model. Mistral's has a window of 5."""
    folder = tmp_path_factory.mktemp("llama")
    before = test_llama.POSITIONS
    test_llama.POSITIONS = 256
    try:
        _, theirs = test_llama.imported(folder, request.param, SIZES)
    finally:
        test_llama.POSITIONS = before
    return folder / "run", theirs


PROMPTS = ["the cat", "a dog sat on"]


def test_two_hundred_tokens_are_theirs(folder: tuple[Path, Any]):
    run, theirs = load(folder[0], "cpu", task=LanguageModelRun), folder[1]
    last = run.tokenizer.special.end
    for prompt, ours in zip(PROMPTS, run.predict(PROMPTS, tokens=LONG, beam=1), strict=True):
        expected = written(theirs, run.tokenizer.encode(prompt), tokens=LONG, beam=1, end=last)
        assert ours.tokens == tuple(run.tokenizer.pieces(expected))
        assert len(expected) == LONG


@torch.no_grad()
def steps(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The logits after each token, one step after the other."""
    state, found = model.begin(len(tokens)), []
    for token in tokens.unbind(1):
        logits, state = model.step(token, state)
        found.append(logits)
    return torch.stack(found, 1)


@torch.no_grad()
def test_in_16_bits(folder: tuple[Path, Any]):
    """Steps with a cache are one pass but for roundings, and tokens chosen are near the best of 32 bits."""
    run, theirs = load(folder[0], "cpu", task=LanguageModelRun), folder[1]
    tokens = torch.randint(run.tokenizer.size, (2, 40), generator=torch.Generator().manual_seed(1))
    exact, _ = run.model(tokens, run.model.begin(2))
    model, sixteen = run.model.bfloat16(), deepcopy(theirs).bfloat16()
    for found in (steps(model, tokens), model(tokens, model.begin(2))[0]):
        assert found.dtype == torch.bfloat16
        error = (found.float() - exact).abs().mean() / exact.std()
        theirs16 = (sixteen(tokens).logits.float() - exact).abs().mean() / exact.std()
        assert error < 1.5 * theirs16 + 1e-3
    assert all(len(each.tokens) == 50 for each in run.predict(["the cat", "the"], tokens=50))


@torch.no_grad()
def test_in_bytes(folder: tuple[Path, Any]):
    """All maps are bytes; logits lose little, and a step is a pass."""
    run, small = load(folder[0], "cpu", task=LanguageModelRun), load(folder[0], int8=True, task=LanguageModelRun)
    kinds = [type(each) for each in small.model.modules()]
    assert kinds.count(Int8Linear) == 7 * SIZES["num_hidden_layers"]
    assert Int8Output in kinds
    assert torch.nn.Linear not in kinds
    tokens = torch.randint(run.tokenizer.size, (2, 40), generator=torch.Generator().manual_seed(1))
    exact, found = steps(run.model, tokens), steps(small.model, tokens)
    assert (found - exact).abs().mean() < 0.1 * exact.std()
    whole, _ = small.model(tokens, small.model.begin(2))
    assert (found - whole).abs().mean() < 0.02 * exact.std()
    assert all(len(each.tokens) == 50 for each in small.predict(["the cat", "the"], tokens=50))
