"""Encoders that leave padding out: the same states, maps and gradients as with it, and as for each sequence alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import memory as module
from regard.attention.memory import Packing
from regard.attention.record import record
from regard.models.bert import Bert, BertConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.transformer import run_layers

LENGTHS = torch.tensor([3, 11, 0, 1, 5])
TOKENS = torch.randint(5, 17, (5, 11), generator=torch.Generator().manual_seed(2))
REAL = torch.arange(11) < LENGTHS[:, None]
CONFIGS: dict[str, Any] = {"layers": 2, "width": 6, "heads": 2, "hidden": 7}


def bert() -> Callable[[Tensor, Tensor], Tensor]:
    return Bert(17, BertConfig(**CONFIGS, context=13)).double().eval()


def transformer() -> Callable[[Tensor, Tensor], Tensor]:
    config = TransformerConfig(**CONFIGS, key_value_heads=1)
    encoder = Transformer(17, 17, config).double().eval().encoder
    return lambda tokens, lengths: encoder(tokens, lengths).key


ENCODERS = pytest.mark.parametrize("make", [bert, transformer])


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKING_SHARE", 0.0)


def test_real_tokens_are_packed_row_by_row():
    packing = Packing.of(LENGTHS, 11)
    assert packing is not None
    states = torch.randn(5, 11, 3, dtype=torch.float64, requires_grad=True)
    packed = packing.pack(states)
    assert torch.equal(packed, states[REAL])
    assert torch.equal(packing.unpack(packed), states.masked_fill(~REAL[..., None], 0.0))
    assert torch.autograd.gradcheck(lambda each: packing.unpack(packing.pack(each).square()), states)


@pytest.mark.parametrize(("lengths", "pays"), [([7, 7, 7], False), ([7, 6, 6], False), ([7, 5, 5], True), ([0], True)])
def test_little_padding_stays(lengths: list[int], pays: bool):
    assert (Packing.of(torch.tensor(lengths), 7) is not None) is pays


@ENCODERS
def test_states_are_those_with_padding(make: Callable[[], Callable[..., Tensor]], monkeypatch: pytest.MonkeyPatch):
    encoder = make()
    found = encoder(TOKENS, LENGTHS)
    without(monkeypatch)
    wanted = encoder(TOKENS, LENGTHS)
    torch.testing.assert_close(found[REAL], wanted[REAL], rtol=1e-12, atol=1e-12)
    assert found.shape == wanted.shape


@ENCODERS
def test_states_are_those_of_each_sequence_alone(make: Callable[[], Callable[..., Tensor]]):
    encoder = make()
    found = encoder(TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encoder(TOKENS[row : row + 1, :length], LENGTHS[row : row + 1])[0]
        torch.testing.assert_close(found[row, :length], alone, rtol=1e-12, atol=1e-12)


def test_maps_are_those_with_padding(monkeypatch: pytest.MonkeyPatch):
    model = bert()
    assert isinstance(model, Bert)
    found = []
    for _ in range(2):
        with record(model) as maps:
            model(TOKENS, LENGTHS)
        found.append(maps)
        without(monkeypatch)
    ours, wanted = found
    assert len(ours) == len(wanted) == 2
    rows = REAL[:, None, :, None]
    for name, weights in ours.items():
        torch.testing.assert_close(weights * rows, wanted[name] * rows, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_with_padding(monkeypatch: pytest.MonkeyPatch):
    model = bert()
    assert isinstance(model, nn.Module)
    upstream = torch.randn(int(REAL.sum()), 6, dtype=torch.float64)
    gradients = []
    for _ in range(2):
        model.zero_grad()
        (model(TOKENS, LENGTHS)[REAL] * upstream).sum().backward()
        gradients.append({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
        without(monkeypatch)
    assert gradients[0].keys() == gradients[1].keys()
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)


def test_what_stands_in_padding_is_inert():
    model = bert()
    assert isinstance(model, Bert)
    states = torch.randn(5, 11, 6, dtype=torch.float64)
    found = [*run_layers(model.encoder.layers, states, LENGTHS)]
    spoilt = [*run_layers(model.encoder.layers, states.masked_fill(~REAL[..., None], torch.nan), LENGTHS)]
    torch.testing.assert_close(found, spoilt, rtol=0, atol=0)
    assert all(not each[~REAL].any() for each in found)
