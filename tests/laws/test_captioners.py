"""What holds of every model that tells of images, whatever its weights are."""

from typing import Any

import pytest
import torch

from regard.models.captioner import Captioner
from regard.models.grid_transformer import GridTransformer, GridTransformerConfig
from regard.models.show_and_tell import ShowAndTell, ShowAndTellConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.recording import record
from regard.testing import check_decoder

EYE: dict[str, Any] = {"image": 11, "channels": 1, "stages": (2, 5), "dropout": 0.0}
MODELS = {
    "show-and-tell": lambda: ShowAndTell(13, ShowAndTellConfig(**EYE, embedding=3, width=7)),
    "soft": lambda: ShowAttendAndTell(13, ShowAttendAndTellConfig(**EYE, embedding=3, width=7, attention=4)),
    "hard": lambda: ShowAttendAndTell(
        13, ShowAttendAndTellConfig(**EYE, embedding=3, width=7, attention=4, align="hard")
    ),
    "transformer": lambda: GridTransformer(13, GridTransformerConfig(**EYE, layers=2, width=6, hidden=5, heads=3)),
}
models = pytest.mark.parametrize("name", MODELS)
TARGET = torch.tensor([[2, 8, 6], [2, 5, 0], [2, 9, 7]])


def drawn(name: str) -> Captioner:
    model = MODELS[name]().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@models
def test_the_rest_of_the_batch_changes_nothing(name: str):
    model, images = drawn(name), torch.randn(3, 1, 11, 11).double()
    whole = model(images, TARGET)
    assert whole.shape == (3, 3, 13)
    for row, expected in enumerate(whole):
        one = slice(row, row + 1)
        torch.testing.assert_close(model(images[one], TARGET[one])[0], expected, rtol=1e-12, atol=1e-12)


@models
def test_teacher_forcing_equals_stepping(name: str):
    model = drawn(name)
    check_decoder(model.decoder, model.encoder(torch.randn(3, 1, 11, 11).double()))


@models
def test_recorded_equals_unrecorded_and_rows_sum_to_one(name: str):
    model, images = drawn(name), torch.randn(3, 1, 11, 11).double()
    with record(model.decoder) as maps:
        found = model(images, TARGET)
    torch.testing.assert_close(found, model(images, TARGET), rtol=1e-12, atol=1e-12)
    reader = model.decoder.source_attention
    if reader is None:
        return
    with record(model.decoder, only=reader) as maps:
        model(images, TARGET)
    weights = maps.together()
    assert weights.shape[-2:] == (3, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


def test_gradients_reach_every_parameter():
    for name in MODELS:
        model = drawn(name).train()
        total, _ = model(torch.randn(3, 1, 11, 11).double(), TARGET, expected=torch.tensor([[8, 6, 3]] * 3))
        total.backward()
        still = [key for key, parameter in model.named_parameters() if parameter.grad is None]
        assert still == [], name


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="stages is empty"):
        ShowAndTellConfig(stages=())
    with pytest.raises(ValueError, match="width 7 is not divisible by heads 2; choose 2 x a whole number"):
        GridTransformerConfig(width=7, heads=2)
