"""Dropout of weights by the key of a model: every lookup of its heads has it, and it acts in training only."""

import pytest
import torch
from torch import nn

from regard.attention import Attend
from regard.models.bert import Bert, BertConfig
from regard.models.catalog import build, build_language_model
from regard.models.gpt2 import GPT2Config
from regard.models.llama import LlamaConfig
from regard.models.transformer import TransformerConfig
from regard.models.vit import Vit, VitConfig

MODELS = {
    "transformer": lambda: build(
        TransformerConfig(layers=1, width=8, hidden=8, heads=2, dropout=0.0, attention_dropout=0.3), 11, 11
    ),
    "gpt2": lambda: build_language_model(
        GPT2Config(layers=1, width=8, heads=2, dropout=0.0, attention_dropout=0.3), 11
    ),
    "llama": lambda: build_language_model(LlamaConfig(layers=1, width=8, heads=2, attention_dropout=0.3), 11),
    "bert": lambda: Bert(11, BertConfig(layers=1, width=8, heads=2, hidden=8, attention_dropout=0.3)),
    "vit": lambda: Vit(3, VitConfig(layers=1, width=8, heads=2, hidden=8, attention_dropout=0.3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_lookup_has_it(name: str):
    model = MODELS[name]()
    rates = [each.dropout for each in model.modules() if isinstance(each, Attend)]
    assert rates
    assert {*rates} == {0.3}


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_it_acts_in_training_only(name: str):
    model, tokens = MODELS[name](), torch.randint(11, (2, 9))
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    one, other = (model.train()(tokens, model.begin(2))[0] for _ in range(2))
    assert not torch.allclose(one, other)
    one, other = (model.eval()(tokens, model.begin(2))[0] for _ in range(2))
    assert torch.equal(one, other)
