"""Models whose run file names the score and the alignment of their heads compute these, a plugin's too."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align import Align, Aligned, AlignInput, Softmax
from regard.attention.scores import Dot, Score
from regard.models.attention import ALIGNS, RELATIVE_POSITIONS, SCORES
from regard.models.bert import BertClassifier, BertConfig
from regard.models.captioner import GridTransformer, GridTransformerConfig
from regard.models.catalog import LANGUAGE_MODELS
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.llama import LlamaConfig
from regard.models.one_pass import OnePass, OnePassConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vit import Vit, VitConfig

TOKENS, LENGTHS = torch.tensor([[2, 5, 7, 3, 6], [2, 9, 3, 0, 0]]), torch.tensor([5, 3])
SIZES: dict[str, Any] = {"layers": 2, "width": 6, "heads": 2, "hidden": 7}


def gpt2(**chosen: Any) -> tuple[nn.Module, Callable[[Any], Tensor]]:
    model = GPT2(11, GPT2Config(**SIZES | chosen, context=7))
    return model, lambda model: model(TOKENS, model.begin(2))[0]


def bert(**chosen: Any) -> tuple[nn.Module, Callable[[Any], Tensor]]:
    return BertClassifier(11, 3, BertConfig(**SIZES | chosen, context=7)), lambda model: model(TOKENS, LENGTHS)


def vit(**chosen: Any) -> tuple[nn.Module, Callable[[Any], Tensor]]:
    pixels = torch.linspace(-1, 1, 72).sin().reshape(2, 1, 6, 6).double()
    return Vit(3, VitConfig(**SIZES, image=6, patch=2, channels=1, **chosen)), lambda model: model(pixels)


def transformer(**chosen: Any) -> tuple[nn.Module, Callable[[Any], Tensor]]:
    chosen = {{"align": "self_align"}.get(name, name): value for name, value in chosen.items()}
    model = Transformer(11, 11, TransformerConfig(**SIZES | chosen))
    return model, lambda model: model(TOKENS, LENGTHS, TOKENS)


def one_pass(**chosen: Any) -> tuple[nn.Module, Callable[[Any], Tensor]]:
    model = OnePass(11, 11, OnePassConfig(width=6, encoder_width=5, heads=2, **chosen))
    return model, lambda model: model(TOKENS, LENGTHS, TOKENS)


def captioner(**chosen: Any) -> tuple[nn.Module, Callable[[Any], Tensor]]:
    model = GridTransformer(11, GridTransformerConfig(**SIZES | chosen, image=8, channels=1, stages=(3,)))
    pixels = torch.linspace(-1, 1, 128).sin().reshape(2, 1, 8, 8).double()
    return model, lambda model: model(pixels, TOKENS)


MODELS = {
    "one-pass": one_pass,
    "grid-transformer": captioner,
    "gpt2": gpt2,
    "bert": bert,
    "vit": vit,
    "transformer": transformer,
}
models = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
PARTS = [("score", name) for name in SCORES if name not in ("scaled-dot", "location")]
PARTS += [("align", name) for name in ("sparsemax", "entmax", "local-m", "local-p", "monotonic")]


def output(make: Any, **chosen: Any) -> Tensor:
    """The output of a model whose parameters are those of the plain one, where that has them."""
    model, call = make(**chosen)
    plain, _ = make(**({"positions": "none"} if "positions" in chosen else {}))
    for each in (model, plain):
        each.double().eval()
        for name, parameter in each.named_parameters():
            nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(sum(map(ord, name))))
    assert {name for name, _ in plain.named_parameters()} <= {name for name, _ in model.named_parameters()}
    with torch.no_grad():
        return call(model)


@models
@pytest.mark.parametrize(("key", "name"), PARTS)
def test_another_score_or_alignment_changes_the_output(make: Any, key: str, name: str):
    chosen = {key: name} | ({"window": 1} if name.startswith("local") else {})
    found, plain = output(make, **chosen), output(make)
    assert found.isfinite().all()
    assert not torch.allclose(found, plain)


@models
def test_defaults_are_scaled_products_and_softmax(make: Any):
    assert torch.equal(output(make), output(make, score="scaled-dot", align="softmax"))


class Halves(Align):
    """A softmax of half the scores."""

    def forward(self, inputs: AlignInput) -> Aligned:
        return Softmax()(inputs.scores / 2, inputs.mask)


def unscaled(width: int, longest: int) -> Score:
    """A plugin's score."""
    return Dot()


def halves(query_width: int, window: int) -> Align:
    """A plugin's alignment."""
    return Halves()


@models
def test_those_of_a_plugin_are_used(make: Any, monkeypatch: pytest.MonkeyPatch):
    for registry, name in ((SCORES, "unscaled"), (ALIGNS, "halves")):
        point = EntryPoint(name, f"{__name__}:{name}", registry.group)
        monkeypatch.setitem(registry.__dict__, "plugins", {name: point})
    found = output(make, score="unscaled", align="halves")
    assert not torch.allclose(found, output(make, score="dot"))
    assert not torch.allclose(found, output(make, align="halves"))


@pytest.mark.parametrize("make", [gpt2, bert, transformer, captioner])
@pytest.mark.parametrize("name", RELATIVE_POSITIONS)
def test_relative_positions_change_the_output(make: Any, name: str):
    """They see an order that no encoding is added for."""
    found, plain = output(make, positions=name, heads=3), output(make, positions="none", heads=3)
    assert found.isfinite().all()
    assert not torch.allclose(found, plain)


def llama(**chosen: Any) -> tuple[nn.Module, None]:
    return LANGUAGE_MODELS.build(LlamaConfig(layers=1, width=8, heads=2, **chosen), 11), None


@pytest.mark.parametrize("make", [gpt2, bert, vit, transformer, llama])
def test_dropout_of_weights_is_that_of_every_lookup(make: Any):
    model, _ = make(attention_dropout=0.3)
    assert {each.dropout for each in model.modules() if isinstance(each, Attend)} == {0.3}
