"""Recorded maps as lookups: of a model of the transformers library, and in the page that `regard show` writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    BloomConfig,
    BloomModel,
)

from regard import record
from regard.attention.record import short_names
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.models.gpt2 import GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.pictures import View, write_view
from tests.attribution.test_within import TEXT, opened

TOKENS = ("[CLS]", "the", "cat", "sat", "[SEP]")
IDS = torch.tensor([[1, 5, 7, 8, 2], [1, 3, 4, 8, 2]])


def bert_model() -> BertModel:
    size: dict[str, Any] = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    return BertModel(BertConfig(intermediate_size=7, **size)).eval()


def test_any_model_of_transformers_in_three_lines(tmp_path: Path):
    model = bert_model()
    with record(model, only="*.self") as maps:
        model(IDS)
    found = maps.lookups(TOKENS, row=1)
    model.set_attn_implementation("eager")
    expected = torch.stack(model(IDS, output_attentions=True).attentions)[:, 1]
    np.testing.assert_allclose(found.weights, expected.detach().numpy(), atol=1e-6)
    assert (found.source, found.target, found.layers) == (TOKENS, TOKENS, ("layer 0", "layer 1"))
    assert write_view(View(found), tmp_path / "bert.html").stat().st_size > 10_000
    with pytest.raises(InputError, match=r"expected a name ending in \.html"):
        write_view(View(found), tmp_path / "bert.png")
    with pytest.raises(ValueError, match=r"have shape \(2, 3, 5, 5\); expected \(layer, head, 4, 4\)"):
        maps.lookups(TOKENS[:4])


def test_a_model_that_cannot_be_recorded_says_so_and_what_it_says_works(tmp_path: Path):
    model = BloomModel(BloomConfig(vocab_size=11, hidden_size=12, n_layer=2, n_head=3)).eval()
    refused = r"BloomModel has no attention that can be recorded.*output_attentions=True\)\.attentions"
    with pytest.raises(ValueError, match=refused), record(model):
        model(IDS)
    with pytest.raises(ValueError, match=refused), record(torch.nn.Sequential(model), only="0.h.*"):
        model(IDS)
    with torch.no_grad():
        weights = torch.stack(model(IDS, output_attentions=True).attentions)[:, 1].numpy()
    assert write_view(View(Lookups(weights, TOKENS, TOKENS)), tmp_path / "bloom.html").exists()
    bert = bert_model()
    with pytest.raises(ValueError, match="record those of BertSelfAttention alone"):
        record(torch.nn.ModuleList([model, bert])).__enter__()
    with torch.no_grad(), record(torch.nn.ModuleList([model, bert]), only="1.*") as maps:
        bert(IDS)
    assert len(maps) == 2
    with pytest.raises(ValueError, match="nothing was recorded"), record(torch.nn.ModuleList([model])):
        model(IDS)


def test_maps_of_several_shapes_are_named():
    model = Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3)).eval()
    with record(model, only="*attention") as maps:
        model(torch.tensor([[4, 7, 5, 9, 3]]), torch.tensor([5]), torch.tensor([[2, 8, 6]]))
    with pytest.raises(ValueError, match=r"of one shape, got .*\(3, 3, 5\).*select some with only="):
        maps.lookups(["x"] * 5)
    with record(model, only="*cross_attention") as cross:
        model(torch.tensor([[4, 7, 5, 9, 3]]), torch.tensor([5]), torch.tensor([[2, 8, 6]]))
    found = cross.lookups(TOKENS, ("[START]", "die", "Katze"))
    np.testing.assert_array_equal(found.weights, cross.stack_layers()[0].detach().numpy())
    assert (found.weights.shape, found.target) == ((2, 3, 3, 5), ("[START]", "die", "Katze"))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["encoder.0.attention", "encoder.1.attention"], ("layer 0", "layer 1")),
        (["a.0.one", "a.0.two"], ("a.0.one", "a.0.two")),
        (["decoder"], ("decoder",)),
    ],
)
def test_layers_are_named_by_what_tells_them_apart(names: list[str], told: tuple[str, ...]):
    assert short_names(names) == told


def test_a_page_with_a_low_limit_has_no_breakdown_but_the_reason(tmp_path: Path):
    run = opened(GPT2Config(layers=2, width=6, heads=3, context=11))
    numbers = 3 * 2 * 3 * 7 * 2
    for limit, text in ((numbers, '"breakdown"'), (numbers - 1, f"take {numbers} numbers")):
        run.attribute(TEXT).write(tmp_path / "a.html", breakdown_limit=limit)
        page = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert text in page
        assert ('"breakdown":{' in page) == (limit == numbers)
