"""Recorded maps as lookups: of a model of the transformers library, and in the page that `regard show` writes."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    BloomConfig,
    BloomModel,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    T5Config,
    T5EncoderModel,
    T5Model,
)
from transformers import GPT2Config as HubConfig

from regard import record
from regard.attention.record import short_names
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.models.gpt2 import GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.pictures import View, write_view
from tests.attribution.test_within import TEXT, opened

TOKENS = ("[CLS]", "the", "cat", "sat", "[SEP]")


def test_any_model_of_transformers_in_three_lines(tmp_path: Path):
    size: dict[str, Any] = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    model = BertModel(BertConfig(intermediate_size=7, **size)).eval()
    ids = torch.tensor([[1, 5, 7, 8, 2], [1, 3, 4, 8, 2]])
    with record(model, only="*.self") as maps:
        model(ids)
    found = maps.lookups(TOKENS, row=1)
    model.set_attn_implementation("eager")
    expected = torch.stack(model(ids, output_attentions=True).attentions)[:, 1]
    np.testing.assert_allclose(found.weights, expected.detach().numpy(), atol=1e-6)
    assert (found.source, found.target, found.layers) == (TOKENS, TOKENS, ("layer 0", "layer 1"))
    assert write_view(View(found), tmp_path / "bert.html").stat().st_size > 10_000
    with pytest.raises(InputError, match=r"expected a name ending in \.html"):
        write_view(View(found), tmp_path / "bert.png")
    with pytest.raises(ValueError, match=r"have shape \(2, 3, 5, 5\); expected \(layer, head, 4, 4\)"):
        maps.lookups(TOKENS[:4])


def model_of(name: str) -> tuple[Any, str]:
    """A random one and the names of what attends: all places read all; each the past; heads share keys and values; a
    number is added to scores for each distance."""
    sizes: dict[str, Any] = {"vocab_size": 11, "num_hidden_layers": 2, "intermediate_size": 7}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(3)
    made: dict[str, Any] = {
        "bert": lambda: BertModel(BertConfig(hidden_size=12, num_attention_heads=3, **sizes)),
        "gpt2": lambda: GPT2Model(HubConfig(vocab_size=11, n_embd=12, n_layer=2, n_head=3, n_positions=31)),
        "llama": lambda: LlamaModel(LlamaConfig(hidden_size=24, max_position_embeddings=31, **heads, **sizes)),
        "t5": lambda: T5EncoderModel(T5Config(vocab_size=11, d_model=12, d_kv=4, d_ff=7, num_layers=2, num_heads=3)),
    }
    model = made[name]().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=1.0)
    return model, {"bert": "*.self", "gpt2": "*.attn", "llama": "*.self_attn", "t5": "*.SelfAttention"}[name]


IDS = torch.tensor([[1, 5, 7, 8, 2], [1, 3, 4, 8, 2]])


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_what_the_output_read_of_the_source_is_recorded(name: str):
    torch.manual_seed(3)
    made: dict[str, Any] = {
        "t5": lambda: T5Model(T5Config(vocab_size=11, d_model=12, d_kv=4, d_ff=7, num_layers=2, num_heads=3)),
        "bart": lambda: BartModel(
            BartConfig(
                vocab_size=11,
                d_model=12,
                **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
                **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 3),
                **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 7),
            )
        ),
    }
    model, written = made[name]().eval(), torch.tensor([[2, 4, 9], [2, 6, 3]])
    with torch.no_grad(), record(model, only={"t5": "*.EncDecAttention", "bart": "*.encoder_attn"}[name]) as maps:
        model(IDS, decoder_input_ids=written)
    found = maps.lookups(TOKENS, ("[START]", "die", "Katze"), row=1)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(IDS, decoder_input_ids=written, output_attentions=True).cross_attentions
    assert found.weights.shape == (2, 3, 3, 5)
    np.testing.assert_allclose(found.weights, torch.stack(expected)[:, 1].numpy(), atol=1e-6)


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
    bert, _ = model_of("bert")
    with pytest.raises(ValueError, match="record those of BertSelfAttention alone"):
        record(torch.nn.ModuleList([model, bert])).__enter__()
    with torch.no_grad(), record(torch.nn.ModuleList([model, bert]), only="1.*") as maps:
        bert(IDS)
    assert len(maps) == 2
    with torch.no_grad(), record(torch.nn.ModuleList([model])) as none:
        model(IDS)
    with pytest.raises(ValueError, match="got none, since no recorded module attended"):
        none.lookups(TOKENS)


def test_maps_of_several_shapes_are_named():
    model = Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3)).eval()
    with record(model, only="*attention") as maps:
        model(torch.tensor([[4, 7, 5, 9, 3]]), torch.tensor([5]), torch.tensor([[2, 8, 6]]))
    with pytest.raises(ValueError, match=r"of one shape, got .*'decoder.*\(3, 3, 5\).*with only="):
        maps.lookups(["x"] * 5)


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


def test_the_page_has_every_head(tmp_path: Path):
    run = opened(GPT2Config(layers=2, width=6, heads=3, context=11))
    run.attribute(TEXT).write(tmp_path / "a.html")
    data = re.search(r'id="data">(.*?)</script>', (tmp_path / "a.html").read_text(encoding="utf-8"))
    assert data is not None
    (one,) = json.loads(data[1])["lookups"]
    assert (len(one["layers"]), one["heads"], one["source"]) == (2, 3, ["∎", *TEXT.split()])
    assert "breakdown" in one
    with pytest.raises(InputError, match="page shows every map"):
        run.attribute(TEXT, maps=[4]).write(tmp_path / "b.html")


def test_a_page_with_a_low_limit_has_no_breakdown_but_the_reason(tmp_path: Path):
    run = opened(GPT2Config(layers=2, width=6, heads=3, context=11))
    numbers = 3 * 2 * 3 * 7 * 2
    for limit, text in ((numbers, '"breakdown"'), (numbers - 1, f"take {numbers} numbers")):
        run.attribute(TEXT).write(tmp_path / "a.html", breakdown_limit=limit)
        page = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert text in page
        assert ('"breakdown":{' in page) == (limit == numbers)


def test_row_56_a_page_over_the_limit_is_refused(tmp_path: Path):
    run = opened(GPT2Config(layers=2, width=6, heads=3, context=11))
    with pytest.raises(InputError, match=r"2 x 3 x 7 x 7 weights .* at most 0\.0001 MB"):
        run.attribute(TEXT).write(tmp_path / "a.html", largest=1e-4)
    assert not list(tmp_path.iterdir())
