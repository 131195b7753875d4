"""Laws of every captioner, for any weights."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.attention.record import record
from regard.models.captioner import (
    Captioner,
    GridTransformer,
    GridTransformerConfig,
    ShowAndTell,
    ShowAndTellConfig,
)
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.vit import FrozenVitGrid, VitConfig, VitEncoder, VitGrid, VitTrunk
from regard.testing import check_decoder

EYE: dict[str, Any] = {"image": 11, "channels": 1, "stages": (2, 5), "dropout": 0.0}
VIT = VitConfig(image=6, patch=2, channels=1, layers=2, width=10, heads=2, hidden=5, dropout=0.5)
SEEN: dict[str, Any] = {"image": 6, "channels": 1, "stages": (), "dropout": 0.0, "trunk": VitTrunk("v", sizes=VIT)}
TAUGHT: dict[str, Any] = SEEN | {"trunk": VitTrunk("v", False, replace(VIT, dropout=0.0, pooling="mean"))}
SIDES = {"trunk": 6, "taught-trunk": 6, "transformer-trunk": 6, "show-and-tell-trunk": 6}
MODELS = {
    "show-and-tell": lambda: ShowAndTell(13, ShowAndTellConfig(**EYE, embedding=3, width=7)),
    "soft": lambda: ShowAttendAndTell(13, ShowAttendAndTellConfig(**EYE, embedding=3, width=7, attention=4)),
    "hard": lambda: ShowAttendAndTell(
        13, ShowAttendAndTellConfig(**EYE, embedding=3, width=7, attention=4, align="hard")
    ),
    "transformer": lambda: GridTransformer(13, GridTransformerConfig(**EYE, layers=2, width=6, hidden=5, heads=3)),
    "transformer, rotary": lambda: GridTransformer(
        13, GridTransformerConfig(**EYE, layers=2, width=6, hidden=5, heads=3, positions="rotary")
    ),
    "trunk": lambda: ShowAttendAndTell(13, ShowAttendAndTellConfig(**SEEN, embedding=3, width=7, attention=4)),
    "taught-trunk": lambda: ShowAttendAndTell(13, ShowAttendAndTellConfig(**TAUGHT, embedding=3, width=7, attention=4)),
    "transformer-trunk": lambda: GridTransformer(
        13, GridTransformerConfig(**SEEN, layers=2, width=6, hidden=5, heads=3)
    ),
    "show-and-tell-trunk": lambda: ShowAndTell(13, ShowAndTellConfig(**SEEN, embedding=3, width=7)),
}
models = pytest.mark.parametrize("name", MODELS)
TARGET = torch.tensor([[2, 8, 6], [2, 5, 0], [2, 9, 7]])


def drawn(name: str) -> Captioner:
    model = MODELS[name]().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def pictures(name: str) -> torch.Tensor:
    side = SIDES.get(name, 11)
    return torch.randn(3, 1, side, side).double()


@models
def test_the_rest_of_the_batch_changes_nothing(name: str):
    model, images = drawn(name), pictures(name)
    whole = model(images, TARGET)
    assert whole.shape == (3, 3, 13)
    for row, expected in enumerate(whole):
        one = slice(row, row + 1)
        torch.testing.assert_close(model(images[one], TARGET[one])[0], expected, rtol=1e-12, atol=1e-12)


@models
def test_teacher_forcing_equals_stepping(name: str):
    model = drawn(name)
    check_decoder(model.decoder, model.encoder(pictures(name)))


@models
def test_recorded_equals_unrecorded_and_rows_sum_to_one(name: str):
    model, images = drawn(name), pictures(name)
    with record(model.decoder) as maps:
        found = model(images, TARGET)
    torch.testing.assert_close(found, model(images, TARGET), rtol=1e-12, atol=1e-12)
    reader = model.decoder.source_attention
    if reader is None:
        return
    with record(model.decoder, only=reader) as maps:
        model(images, TARGET)
    weights = maps.stack_heads()
    assert weights.shape[-2:] == (3, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


def test_gradients_reach_every_parameter():
    for name in MODELS:
        model = drawn(name).train()
        features = model.features(pictures(name), TARGET)
        total, _ = model.decoder.output.loss(features, torch.tensor([[8, 6, 3]] * 3))
        total.backward()
        still = {key for key, parameter in model.named_parameters() if parameter.grad is None}
        frozen = isinstance(model.encoder, FrozenVitGrid)
        assert still == {key for key, _ in model.named_parameters() if frozen and key.startswith("encoder.vit.")}, name


@pytest.mark.parametrize("marks", [0, 1])
def test_cells_are_the_patches_of_the_vit(marks: int):
    """[CLS], where there is one, is the summary and no cell; of a grid that is not a square all rows are cells."""
    config = replace(VIT, pooling="first" if marks else "mean")
    vit = VitEncoder(config).double().eval()
    images = torch.randn(3, 1, 4, 10).double()
    memory, states = VitGrid(vit)(images), vit(images)
    assert memory.key is memory.value
    assert memory.mask is None
    assert torch.equal(memory.value, states[:, marks:])
    assert memory.value.shape == (3, 2 * 5, 10)
    assert memory.summary is not None
    torch.testing.assert_close(memory.summary, states[:, 0] if marks else states.mean(1), rtol=1e-12, atol=1e-12)


def test_a_frozen_vit_is_in_evaluation_and_a_taught_one_is_not():
    images = torch.randn(3, 1, 6, 6)
    frozen, taught = FrozenVitGrid(VitEncoder(VIT)).train(), VitGrid(VitEncoder(VIT)).train()
    assert torch.equal(frozen(images).value, frozen(images).value)
    assert not frozen(images).value.requires_grad
    assert not torch.equal(taught(images).value, taught(images).value)  # its dropout is 0.5
    assert taught(images).value.requires_grad
    assert frozen.state_dict().keys() == taught.state_dict().keys()


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="stages is empty"):
        ShowAndTellConfig(stages=())
    with pytest.raises(ValueError, match="width 7 is not divisible by heads 2"):
        GridTransformerConfig(width=7, heads=2)
    with pytest.raises(ValueError, match="the sizes of the ViT in there are not known; give VitTrunk its VitConfig"):
        ShowAndTell(13, ShowAndTellConfig(trunk=VitTrunk("there")))
