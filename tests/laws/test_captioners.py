"""Laws of every captioner and every recogniser of speech, for any weights."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.attention.record import record
from regard.models.captioner import GridTransformer, GridTransformerConfig, ShowAndTell, ShowAndTellConfig, Trunk
from regard.models.recogniser import Chorowski, ChorowskiConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.vit import TrunkGrid, VitConfig, VitEncoder
from regard.testing import check_decoder

EYE: dict[str, Any] = {"image": 11, "channels": 1, "stages": (2, 5), "dropout": 0.0}
VIT = VitConfig(image=6, patch=2, channels=1, layers=2, width=10, heads=2, hidden=5, dropout=0.5)
SEEN: dict[str, Any] = {"image": 6, "channels": 1, "stages": (), "dropout": 0.0, "trunk": Trunk("v", sizes=VIT)}
TAUGHT: dict[str, Any] = SEEN | {"trunk": Trunk("v", None, False, replace(VIT, dropout=0.0, pooling="mean"))}
EAR: dict[str, Any] = {"stages": (2, 3), "dropout": 0.0, "reader": 5, "embedding": 3, "width": 7, "attention": 4}


def tell(**settings: Any) -> ShowAndTell:
    return ShowAndTell(13, ShowAndTellConfig(embedding=3, width=7, **settings))


def attend_and_tell(**settings: Any) -> ShowAttendAndTell:
    return ShowAttendAndTell(13, ShowAttendAndTellConfig(embedding=3, width=7, attention=4, **settings))


def grid(**settings: Any) -> GridTransformer:
    return GridTransformer(13, GridTransformerConfig(layers=2, width=6, hidden=5, heads=3, **settings))


def hear(**settings: Any) -> Chorowski:
    sizes: dict[str, Any] = EAR | {"maxout": 3} | settings
    return Chorowski(13, 11, ChorowskiConfig(**sizes))


CAPTIONERS = {
    "show-and-tell": lambda: tell(**EYE),
    "soft": lambda: attend_and_tell(**EYE),
    "hard": lambda: attend_and_tell(**EYE, align="hard"),
    "transformer": lambda: grid(**EYE),
    "transformer, rotary": lambda: grid(**EYE, positions="rotary"),
    "trunk": lambda: attend_and_tell(**SEEN),
    "taught trunk": lambda: attend_and_tell(**TAUGHT),
    "transformer trunk": lambda: grid(**SEEN),
    "show-and-tell trunk": lambda: tell(**SEEN),
}
RECOGNISERS = {
    "location-aware": hear,
    "content": lambda: hear(history=None, start="encoder"),
    "monotonic": lambda: hear(history=None, align="monotonic"),
    "no reader": lambda: hear(layers=0, ctc=0.3),
}
MODELS = CAPTIONERS | RECOGNISERS
models = pytest.mark.parametrize("name", MODELS)
TARGET = torch.tensor([[2, 8, 6], [2, 5, 0], [2, 9, 7]])
LENGTHS = torch.tensor([17, 1, 10])


def drawn(name: str) -> Any:
    model = MODELS[name]().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def source(name: str) -> tuple[torch.Tensor, ...]:
    if name in RECOGNISERS:
        return torch.randn(3, 17, 11).double(), LENGTHS
    side = 6 if "trunk" in name else 11
    return (torch.randn(3, 1, side, side).double(),)


@models
def test_padding_and_the_rest_of_the_batch_change_nothing(name: str):
    model, given = drawn(name), source(name)
    whole = model(*given, TARGET)
    assert whole.shape == (3, 3, 13)
    for row, length in enumerate(LENGTHS.tolist()):
        one = slice(row, row + 1)
        parts = [part[one] for part in given]
        if name in RECOGNISERS:
            parts[0] = parts[0][:, :length]
        torch.testing.assert_close(model(*parts, TARGET[one])[0], whole[row], rtol=1e-12, atol=1e-12)
    if name in RECOGNISERS:
        padding = torch.arange(17) >= LENGTHS[:, None]
        noisy = given[0].masked_fill(padding[..., None], torch.nan)
        torch.testing.assert_close(model(noisy, LENGTHS, TARGET), whole, rtol=1e-12, atol=1e-12)


@models
def test_teacher_forcing_equals_stepping(name: str):
    model = drawn(name)
    check_decoder(model.decoder, model.encoder(*source(name)))


@models
def test_recorded_equals_unrecorded_and_rows_sum_to_one(name: str):
    model, given = drawn(name), source(name)
    with record(model.decoder, may_be_empty=name.startswith("show-and-tell")) as maps:
        found = model(*given, TARGET)
    torch.testing.assert_close(found, model(*given, TARGET), rtol=1e-12, atol=1e-12)
    reader = model.decoder.source_attention
    if reader is None:
        return
    with record(model.decoder, only=reader) as maps:
        model(*given, TARGET)
    weights = maps.stack_heads()
    assert weights.shape[-2:] == (3, 5 if name in RECOGNISERS else 9)
    assert name not in RECOGNISERS or not weights[1, ..., 1:].any()
    if name != "monotonic":
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RECOGNISERS)
def test_time_is_halved_once_a_stage_rounded_up(name: str):
    model = drawn(name)
    memory = model.encoder(*source(name))
    assert memory.lengths.tolist() == [5, 1, 3]
    assert memory.value.shape == (3, model.encoder.halving.keys(17), model.encoder.memory_width)


def test_gradients_reach_every_parameter():
    for name in CAPTIONERS:
        model = drawn(name).train()
        features = model.features(*source(name), TARGET)
        total, _ = model.decoder.output.loss(features, torch.tensor([[8, 6, 3]] * 3))
        total.backward()
        still = {key for key, parameter in model.named_parameters() if parameter.grad is None}
        frozen = isinstance(model.encoder, TrunkGrid) and model.encoder.frozen
        assert still == {key for key, _ in model.named_parameters() if frozen and key.startswith("encoder.vit.")}, name


@pytest.mark.parametrize("marks", [0, 1])
def test_cells_are_the_patches_of_the_vit(marks: int):
    """[CLS], where there is one, is the summary and no cell; of a grid that is not a square all rows are cells."""
    config = replace(VIT, pooling="first" if marks else "mean")
    vit = VitEncoder(config).double().eval()
    images = torch.randn(3, 1, 4, 10).double()
    memory, states = TrunkGrid(vit)(images), vit(images)
    assert memory.key is memory.value
    assert memory.mask is None
    assert torch.equal(memory.value, states[:, marks:])
    assert memory.value.shape == (3, 2 * 5, 10)
    assert memory.summary is not None
    torch.testing.assert_close(memory.summary, states[:, 0] if marks else states.mean(1), rtol=1e-12, atol=1e-12)


def test_a_frozen_vit_is_in_evaluation_and_a_taught_one_is_not():
    images = torch.randn(3, 1, 6, 6)
    frozen, taught = TrunkGrid(VitEncoder(VIT), frozen=True).train(), TrunkGrid(VitEncoder(VIT)).train()
    assert torch.equal(frozen(images).value, frozen(images).value)
    assert not frozen(images).value.requires_grad
    assert not torch.equal(taught(images).value, taught(images).value)  # its dropout is 0.5
    assert taught(images).value.requires_grad
    assert frozen.state_dict().keys() == taught.state_dict().keys()


def test_sizes_that_do_not_fit():
    for config in (ShowAndTellConfig, ChorowskiConfig):
        with pytest.raises(ValueError, match="stages is empty"):
            config(stages=())
    with pytest.raises(ValueError, match="width 7 is not divisible by heads 2"):
        GridTransformerConfig(width=7, heads=2)
    with pytest.raises(ValueError, match="the sizes of the trunk there are not known; give Trunk its sizes"):
        ShowAndTell(13, ShowAndTellConfig(trunk=Trunk("there")))
