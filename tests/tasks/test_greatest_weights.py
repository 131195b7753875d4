"""The greatest weights of each query of a language model, as a table, recorded in place of all weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.maps import reductions
from regard.maps.reductions import Greatest
from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.catalog import build_language_model
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import RecurrentLanguageModelConfig
from regard.models.llama import LlamaConfig
from regard.models.lstmn import LSTMNConfig
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.run import LanguageModelRun
from regard.text import Tokenizer, TokenizerSettings

TEXT = "the cat sat on the mat and the dog sat on it"
MODELS = {
    "gpt2": GPT2Config(layers=2, width=6, heads=3, context=29),
    "llama": LlamaConfig(layers=2, width=12, heads=3, key_value_heads=1, hidden=7, context=29, window=5),
    "copying": AttentionLanguageModelConfig(embedding=5, width=5, window=5, copying=True),
    "tape": LSTMNConfig(embedding=5, width=5),
}


def language_model(config: Any) -> LanguageModelRun:
    tokenizer = Tokenizer.train(TokenizerSettings("space"), [TEXT])
    torch.manual_seed(3)
    model = build_language_model(config, tokenizer.size)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return LanguageModelRun(LanguageModelling.__new__(LanguageModelling), model.double().eval(), tokenizer)


@pytest.mark.parametrize("target", [None, "dog sat on"])
@pytest.mark.parametrize("name", MODELS)
def test_the_table_is_that_of_all_weights(name: str, target: str | None):
    run = language_model(MODELS[name])
    found = [*run.greatest(TEXT, 3, target=target).rows()]
    whole = [*run.attribute(TEXT, target=target).greatest(3).rows()]
    assert len(found) > 10
    assert [row[:-1] for row in found] == [row[:-1] for row in whole]
    assert [row[-1] for row in found] == pytest.approx([row[-1] for row in whole], rel=1e-6)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_no_tensor_has_the_weights_of_all_queries(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reductions, "QUERIES_PER_GROUP", 4)
    sizes, reduce = [], Greatest.of

    def counted(self: Greatest, weights: Tensor) -> reductions.Reduced:
        sizes.append(weights.shape[-2])
        return reduce(self, weights)

    monkeypatch.setattr(Greatest, "of", counted)
    language_model(MODELS[name]).greatest(TEXT, 2)
    assert sizes == [4, 4, 4, 1] * 2


def test_other_kinds_have_the_greatest_of_their_maps():
    run = language_model(MODELS["gpt2"])
    assert [*run.greatest(TEXT, 2, kinds=["norms"]).rows()] == [
        *run.attribute(TEXT, kinds=["norms"]).greatest(2).rows()
    ]


def test_what_has_no_greatest_weights():
    with pytest.raises(InputError, match="the number of weights per query is 0; expected 1 or more"):
        language_model(MODELS["gpt2"]).greatest(TEXT, 0)
    with pytest.raises(InputError, match="is recurrent without attention"):
        language_model(RecurrentLanguageModelConfig(embedding=5, width=5)).greatest(TEXT, 2)
    with pytest.raises(InputError, match="have 30 tokens, but the model reads 29 at once; write at most 17"):
        language_model(MODELS["gpt2"]).greatest(TEXT, 2, target=TEXT + " and the dog sat on")
