"""The breakdown of lookups reproduces their weights for every score, or there is none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import Attend
from regard.attention.align import Sparsemax
from regard.attention.heads import MultiHead
from regard.attention.masks import as_mask, padding
from regard.attention.memory import Memory
from regard.attention.record import Maps, record
from regard.attention.scores import (
    Additive,
    Content,
    Cosine,
    Distance,
    Dot,
    General,
    InverseDistance,
    LearnedSharpness,
    Location,
    ScaledDot,
    Score,
    TanhDot,
)
from regard.attribution.attention import attribute_cross_attention
from regard.maps.alignment import Side
from regard.maps.lookups import Lookups
from regard.models.bahdanau import BahdanauConfig
from regard.models.catalog import CAPTIONERS, MODELS
from regard.models.luong import LuongConfig
from regard.models.pointer_generator import PointerConfig
from regard.models.pointer_network import PointerNetwork
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.image_captioning.run import ImageCaptioning, ImageCaptioningRun
from regard.tasks.pointer import Pointer, PointerRun
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, START
from tests.attribution.by_hand import scores_of, softmax, worked_out
from tests.attribution.test_within import CONFIGS, TEXT, opened
from tests.attribution.untrained import config, telling

SOURCE, TARGET = [5, 7, 4, 9], [6, 4]
SIDES = Side.of(("a", "b", "c", "d", "</s>")), Side.of(("x", "y", "</s>"))
ATOL = {torch.float64: 1e-12, torch.float32: 1e-5}
SCORES: dict[str, tuple[Any, int]] = {
    "dot": (Dot, 5),
    "scaled dot": (ScaledDot, 5),
    "general": (lambda: General(7, 5), 7),
    "tanh dot": (lambda: TanhDot(5, 7), 7),
    "cosine": (lambda: Cosine(3.0), 5),
    "cosine, learned": (lambda: Cosine(LearnedSharpness(3.0)), 5),
    "content": (lambda: Content(7, 5), 7),
    "distance": (lambda: Distance(2.0), 5),
    "additive": (lambda: Additive(7, 5, 11), 7),
    "additive, with a bias": (lambda: Additive(7, 5, 11, bias=True), 7),
    "inverse distance": (InverseDistance, 5),
    "location": (lambda: Location(7, 13), 7),
    "location, a short one": (lambda: Location(7, 3, ignore_tail=True), 7),
}
WITHOUT_SIDES = {"inverse distance", "location", "location, a short one"}


def lookups_of(model: Any) -> Lookups:
    return attribute_cross_attention(model, (SOURCE, [*TARGET, 0]), SIDES, "weights")[0]


def transformer() -> Transformer:
    return Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3)).eval()


def recorded(attend: nn.Module, query: torch.Tensor, memory: Memory) -> tuple[Maps, np.ndarray, torch.Tensor]:
    """What was recorded, the weights `(layer, head, query, key)` of the first row, and what was read."""
    with torch.no_grad(), record(attend, breakdown=True) as maps:
        read = attend(query, memory)
    return maps, maps.stack_layers()[0].numpy(), read


@pytest.mark.parametrize("dtype", ATOL)
@pytest.mark.parametrize("name", SCORES)
def test_every_score_has_a_breakdown(name: str, dtype: torch.dtype):
    make, width = SCORES[name]
    attend, states = Attend(make()).to(dtype), torch.randn(2, 11, 5, dtype=dtype)
    for each in attend.parameters():
        nn.init.normal_(each, std=0.7)
    query = torch.randn(2, 3, width, dtype=dtype)
    memory = Memory(states, states[..., :2], padding(torch.tensor([7, 11]), 11))
    seen, weights, read = recorded(attend, query, memory)
    found = seen.breakdown(weights)
    assert found is not None
    assert (found.plain is not None) == (name in WITHOUT_SIDES)
    assert np.ptp(weights) > 0.1
    np.testing.assert_allclose(softmax(found), weights, atol=ATOL[dtype])
    np.testing.assert_array_equal(found.allowed, np.arange(11) < (3 if "short" in name else 7) + np.zeros((3, 1)))
    np.testing.assert_allclose((softmax(found) @ found.value)[0, 0], read[0].numpy(), atol=ATOL[dtype])
    score: Score = attend.score
    expected = score(query, score.prepare(memory.key))[0].detach().numpy()
    np.testing.assert_allclose(found.scores()[0, 0][:, :3], expected[:, :3], atol=10 * ATOL[dtype])


@pytest.mark.parametrize("score", [None, lambda: Additive(2, 2, 7, heads=3), lambda: General(2, 2, heads=3)])
def test_heads_with_any_score(score: Any):
    heads = MultiHead(6, 3, attend=None if score is None else Attend(score())).double()
    states = torch.randn(2, 5, 6, dtype=torch.float64)
    mask = as_mask(torch.ones(5, 5, dtype=torch.bool).tril())
    seen, weights, _ = recorded(heads, states, Memory(states, states, mask))
    found = seen.breakdown(weights)
    assert found is not None
    assert found.scores().shape == (1, 3, 5, 5)
    np.testing.assert_allclose(softmax(found), weights, atol=1e-12)
    np.testing.assert_array_equal(found.allowed, np.tri(5) > 0)


@pytest.mark.parametrize(
    ("sizes", "is_plain"),
    [
        (BahdanauConfig(embedding=5, width=7, attention=3, maxout=2), False),
        (LuongConfig(embedding=5, width=6, layers=1), False),
        (LuongConfig(embedding=5, width=6, layers=1, score="location", max_source=5), True),
        (PointerConfig(embedding=5, width=6, attention=3), False),
        (PointerConfig(embedding=5, width=6, attention=3, history="coverage"), True),
    ],
)
def test_decoders_with_one_head(sizes: Any, is_plain: bool):
    found = lookups_of(MODELS.build(sizes, 13, 13).eval())
    assert found.weights.shape == (1, 1, 3, 5)
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)
    assert found.breakdown is not None
    assert (found.breakdown.plain is not None) == is_plain


def test_across_two_sequences():
    found = lookups_of(transformer())
    assert found.weights.shape == (2, 3, 3, 5)
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)
    assert found.breakdown is not None
    assert (found.breakdown.scale, found.breakdown.value.shape) == (pytest.approx(2**-0.5), (2, 3, 5, 2))


@pytest.mark.parametrize("window", [31, 3])
@pytest.mark.parametrize("name", ["attention", "copying", "lstmn"])
def test_language_models_that_read_their_past(name: str, window: int):
    """Less than a window of it, or more."""
    found = opened(replace(CONFIGS[name], window=window)).attribute(TEXT).lookups[0]
    assert found.breakdown is not None
    assert found.breakdown.allowed is not None
    shares = np.exp(scores_of(found.breakdown)) * found.breakdown.allowed
    total = shares.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.divide(shares, total, where=total > 0, out=shares), found.weights, atol=1e-5)


def test_classifiers():
    (found,) = telling().attribute((TEXT, TEXT)).lookups
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)


@pytest.mark.parametrize("name", ["show-attend-and-tell", "grid-transformer"])
def test_captions(name: str):
    sizes = "layers: 2, width: 6, hidden: 7, heads: 3, " if name == "grid-transformer" else ""
    settings = config(
        "captions",
        f"model={{name: {name}, {sizes}image: 16, channels: 1, stages: [5, 7], dropout: 0.0}}",
        "data={kind: captions, train: a.jsonl, valid: a.jsonl, images: a}",
    )
    assert isinstance(settings, ImageCaptioning)
    tokenizer = Tokenizer.train(TokenizerSettings("word"), [TEXT])
    run = ImageCaptioningRun(settings, CAPTIONERS.build(settings.model, tokenizer.size).eval(), tokenizer)
    (found,) = run.attribute(np.random.default_rng(7).integers(0, 256, (16, 16), dtype=np.uint8)).lookups
    assert found.breakdown is not None
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)


def test_pointing():
    settings = config("sorting", "model={name: pointer-network, width: 6, attention: 5}")
    assert isinstance(settings, Pointer)
    run = PointerRun(settings, PointerNetwork(1, settings.model).eval())
    (found,) = run.attribute("0.9 0.1 0.5").lookups
    np.testing.assert_allclose(worked_out(found), found.weights, atol=1e-5)


def test_weights_that_are_no_softmax_say_so():
    model = transformer()
    for each in model.decoder.modules():
        if isinstance(getattr(each, "align", None), torch.nn.Module):
            each.align = Sparsemax()
    found = lookups_of(model).breakdown
    assert found is not None
    assert not found.softmax
    assert found.allowed is not None
    assert found.allowed.all()


def test_none_for_another_call():
    model = transformer()
    readers = model.decoder.source_attention
    assert readers is not None
    found, seen = lookups_of(model), []
    for times in (0, 1, 2):
        with record(model.decoder, readers, breakdown=True, may_be_empty=True) as maps:
            for _ in range(times):
                model(torch.tensor([[*SOURCE, END]]), torch.tensor([5]), torch.tensor([[START, *TARGET]]))
        seen.append(maps.breakdown(found.weights) is not None)
    assert seen == [False, True, False]
