"""Recorded maps as lookups: of a model of the transformers library, and in the page that `regard show` writes."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from regard import record
from regard.cli.drawing import Asking, draw
from regard.cli.options import Looking
from regard.errors import InputError
from regard.models.gpt2 import GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.pictures import View, write_view
from regard.recording import told_apart
from tests.inference.test_within import TEXT, opened

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
    with pytest.raises(ValueError, match="do not fit 2 layers, 4 target"):
        maps.lookups(TOKENS[:4])


def test_maps_of_several_shapes_are_named():
    model = Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3)).eval()
    with record(model, only="*attention") as maps:
        model(torch.tensor([[4, 7, 5, 9, 3]]), torch.tensor([5]), torch.tensor([[2, 8, 6]]))
    with pytest.raises(ValueError, match=r"of one shape are expected, given .*'decoder.*\(3, 3, 5\).*by only="):
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
    assert told_apart(names) == told


@pytest.mark.parametrize(("maps", "layers", "heads"), [(None, 2, 3), ([4], 1, 1)])
def test_the_page_has_every_head_unless_some_are_chosen(
    maps: list[int] | None, layers: int, heads: int, tmp_path: Path
):
    run = opened(GPT2Config(layers=2, width=6, heads=3, context=11))
    draw(run, Asking(tmp_path, TEXT, tmp_path / "a.html", Looking(maps=maps)))
    data = re.search(r'id="data">(.*?)</script>', (tmp_path / "a.html").read_text(encoding="utf-8"))
    assert data is not None
    (one,) = json.loads(data[1])["lookups"]
    assert (len(one["layers"]), one["heads"], one["source"]) == (layers, heads, ["</s>", *TEXT.split()])
    assert ("vectors" in one) == (maps is None)


def test_row_56_a_page_over_the_limit_is_refused(tmp_path: Path):
    run = opened(GPT2Config(layers=2, width=6, heads=3, context=11))
    with pytest.raises(InputError, match=r"2 x 3 x 7 x 7 weights .* at most 0\.0001 MB"):
        draw(run, Asking(tmp_path, TEXT, tmp_path / "a.html", Looking(largest=1e-4)))
    assert not list(tmp_path.iterdir())
