"""Laws of every recogniser of speech, for any weights."""

from typing import Any

import pytest
import torch

from regard.attention.record import record
from regard.models.recogniser import Chorowski, ChorowskiConfig
from regard.testing import check_decoder

EAR: dict[str, Any] = {"stages": (2, 3), "dropout": 0.0}
SIZES: dict[str, Any] = EAR | {"reader": 5, "embedding": 3, "width": 7, "attention": 4, "maxout": 3}
MODELS = {
    "location-aware": lambda: Chorowski(13, 11, ChorowskiConfig(**SIZES)),
    "content": lambda: Chorowski(13, 11, ChorowskiConfig(**SIZES, history=None, start="encoder")),
    "monotonic": lambda: Chorowski(13, 11, ChorowskiConfig(**SIZES, history=None, align="monotonic")),
    "no reader": lambda: Chorowski(13, 11, ChorowskiConfig(**SIZES | {"layers": 0, "ctc": 0.3})),
}
models = pytest.mark.parametrize("name", MODELS)
TARGET = torch.tensor([[2, 8, 6, 4], [2, 5, 0, 0], [2, 9, 7, 1]])
LENGTHS = torch.tensor([17, 1, 10])


def random_weights(name: str) -> Chorowski:
    model = MODELS[name]().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def frames() -> torch.Tensor:
    return torch.randn(3, 17, 11).double()


@models
def test_padding_and_the_rest_of_the_batch_change_nothing(name: str):
    model, sounds = random_weights(name), frames()
    whole = model(sounds, LENGTHS, TARGET)
    assert whole.shape == (3, 4, 13)
    for row, length in enumerate(LENGTHS.tolist()):
        one = slice(row, row + 1)
        alone = model(sounds[one, :length], LENGTHS[one], TARGET[one])[0]
        torch.testing.assert_close(alone, whole[row], rtol=1e-12, atol=1e-12)
    padding = torch.arange(17) >= LENGTHS[:, None]
    noisy = sounds.masked_fill(padding[..., None], torch.nan)
    torch.testing.assert_close(model(noisy, LENGTHS, TARGET), whole, rtol=1e-12, atol=1e-12)


@models
def test_teacher_forcing_equals_stepping(name: str):
    model = random_weights(name)
    check_decoder(model.decoder, model.encoder(frames(), LENGTHS))


@models
def test_time_is_halved_once_a_stage_rounded_up(name: str):
    model = random_weights(name)
    memory = model.encoder(frames(), LENGTHS)
    assert memory.lengths is not None
    assert memory.lengths.tolist() == [5, 1, 3]
    assert memory.value.shape == (3, model.encoder.halving.keys(17), model.encoder.memory_width)


@models
def test_recorded_equals_unrecorded(name: str):
    model, sounds = random_weights(name), frames()
    reader = model.decoder.source_attention
    assert reader is not None
    with record(model.decoder, reader) as maps:
        found = model(sounds, LENGTHS, TARGET)
    torch.testing.assert_close(found, model(sounds, LENGTHS, TARGET), rtol=1e-12, atol=1e-12)
    weights = maps.stack_heads()
    assert weights.shape[2:] == (4, 5)
    assert not weights[1, ..., 1:].any()
    if name != "monotonic":
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_stages_are_needed():
    with pytest.raises(ValueError, match=r"stages is empty"):
        ChorowskiConfig(stages=())
