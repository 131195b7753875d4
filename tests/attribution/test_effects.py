"""Effects are differences of log-probabilities between a model and one that cannot attend somewhere."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard import intervene
from regard.attention.intervene import Cut
from regard.attention.masks import as_mask
from regard.attribution.attention import attribute_cross_attention
from regard.errors import InputError
from regard.maps.alignment import Side, Words
from regard.tasks.options import AttributionOptions
from tests.laws import cases
from tests.tasks.test_kinds import LANGUAGE_MODELS as CONFIGS
from tests.tasks.test_kinds import TEXT, blanks, classes, language_model, spans

SOURCE, TARGET = [5, 7, 4], [6, 4, 3]
SIDES = Side.of("abc$", Words(("ab", "c", "$"), (0, 0, 1, 2))), Side.of("xy$")


def log_probabilities(model: Any, hidden: Tensor | None = None) -> Tensor:
    """Those of the target, where the decoder does not see some positions of its source."""
    batch = model.collate([(SOURCE, TARGET[:-1])])
    memory = model.encoder(batch.source, batch.source_lengths)
    if hidden is not None:
        mask = as_mask(~hidden) if memory.mask is None else memory.mask & ~hidden
        memory = replace(memory, mask=mask, zero_masked=False)
    decoder = model.decoder
    logits = decoder.output(decoder.features(batch.target_in, decoder.start(memory)))
    return logits[0].log_softmax(-1)[range(3), TARGET]


@pytest.mark.parametrize("name", ["luong-dot", "transformer", "bahdanau", "one-pass"])
@torch.no_grad()
def test_effects_are_differences(name: str):
    torch.manual_seed(1)
    model: Any = cases.MODELS[name]().double().eval()

    def effects(cut: str, maps: Any = None) -> np.ndarray:
        lookups, alignment = attribute_cross_attention(model, (SOURCE, TARGET), SIDES, "effect", maps, cut)
        np.testing.assert_allclose(alignment.weights, np.maximum(lookups.weights[0, 0], 0.0), atol=1e-6)
        return lookups.weights[0, 0]

    base = log_probabilities(model)
    by_position = [base - log_probabilities(model, torch.arange(4)[None, None] == key) for key in range(4)]
    np.testing.assert_allclose(effects("position"), torch.stack(by_position, 1), atol=1e-6)
    word = base - log_probabilities(model, torch.arange(4)[None, None] < 2)
    np.testing.assert_allclose(effects("word")[:, :2], torch.stack([word, word], 1), atol=1e-6)
    np.testing.assert_allclose(effects("ab"), effects("word") * [1, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(effects("0:2"), effects("ab"), atol=1e-6)
    np.testing.assert_allclose(effects("0:2,3:4"), effects("word") * [1, 1, 0, 1], atol=1e-6)
    with pytest.raises(InputError, match="edge, positions A:B from 0, or words of the text: 'ab c"):
        effects("b c")
    for wrong in ("2:5", "2:2"):
        with pytest.raises(InputError, match="the text has the positions 0:4"):
            effects(wrong)
    edge = torch.zeros(1, 3, 4, dtype=torch.bool)
    edge[0, 1, 2] = True
    if name in ("transformer", "one-pass"):  # the others mask one step at a time
        np.testing.assert_allclose(effects("edge")[1, 2], (base - log_probabilities(model, edge))[1], atol=1e-6)
    np.testing.assert_allclose(effects("edge")[0], effects("position")[0], atol=1e-6)  # before it nothing is read
    if name == "transformer":
        heads = model.decoder.layers[0].cross_attention.heads
        assert np.abs(effects("position", [0]) - effects("position", [heads])).max() > 1e-6
        with pytest.raises(InputError, match="there is no map 99"):
            effects("position", [99])


def test_of_one_text():
    """What a token's probability, a class or a tag loses: a model of the text runs once for each token."""
    run = language_model(CONFIGS["gpt2"])
    reading = run.attribute(TEXT, kinds=["effect"])
    effects = reading.lookups[0].weights[0, 0]
    assert np.abs(np.triu(effects, 1)).max() < 1e-12  # what comes later has none
    ids = torch.tensor([[3, *run.tokenizer.encode(TEXT)]])
    ids[0, 0] = run.tokenizer.special.end
    with torch.no_grad():
        base = run.model(ids, run.model.begin(1))[0].log_softmax(-1)
        with intervene(run.model, Cut(keys=[2])):
            cut = run.model(ids, run.model.begin(1))[0].log_softmax(-1)
    rows, following = range(ids.shape[1] - 1), ids[0, 1:]
    np.testing.assert_allclose(effects[:-1, 2], (base - cut)[0, rows, following], atol=1e-6)
    filled = blanks().attribute("the [MASK] sat on the [MASK]", kinds=["effect"]).weights
    assert (len(filled.target), len(filled.source)) == (2, 8)
    assert filled.weights.any()
    assert spans().attribute(("the cat", TEXT), kinds=["effect"]).weights.weights.any()
    classified = classes("bert").attribute(TEXT, kinds=["effect", "weights"])
    assert [*classified.lookups[0].alternatives][-1:] == ["effect"]
    words = classes("bert").attribute(TEXT, AttributionOptions(kinds=["effect"], cut="word")).weights
    assert words.signed
    marked = classes("bert").attribute(TEXT, kind="effect", cut="cat sat").weights
    assert np.count_nonzero(marked.weights) == 2
    with pytest.raises(InputError, match="has no effect; it has weights, gradient, integrated, norms"):
        classes("han").attribute(TEXT, kinds=["effect"])
    with pytest.raises(InputError, match="single edges are cut between an output and its source"):
        run.attribute(TEXT, kinds=["effect"], cut="edge")


def test_too_many_cuts_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.attribution.effects.LIMIT", 3)
    with pytest.raises(InputError, match=r"the effects of 7 cuts need 7 forward passes, and the limit is 3"):
        language_model(CONFIGS["gpt2"]).attribute(TEXT, kinds=["effect"])
