"""The pointer network: its equation, the laws of decoders, and that places are never merged."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.decoding.beam import Beam
from regard.decoding.sampling import greedy
from regard.models.attention import ALIGNS, AlignName
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig, PositionOutput
from regard.tasks.pointer import PointedSet, SetBatch, collate_sets
from regard.testing import check_decoder
from regard.text.special import END, IGNORED, PAD, START

SETS = [
    PointedSet(((0.5, 1.0), (0.25, 0.0), (0.5, 1.0)), (1, 0), "1"),
    PointedSet(((0.75, 2.0),), (0,), "2"),
    PointedSet(((0.1, 0.2), (0.3, 0.4)), (1, 0), "3"),
]


def make(**changes: Any) -> PointerNetwork:
    torch.manual_seed(5)
    model = PointerNetwork(2, PointerNetworkConfig(width=5, attention=3, max_elements=7, **changes)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def batch() -> SetBatch:
    found = collate_sets(SETS)
    return SetBatch(found.elements.double(), found.lengths, found.target_in, found.target_out, found.target_tokens)


@pytest.mark.parametrize("align", ["softmax", "sparsemax", "entmax"])
def test_laws_of_decoders(align: str):
    model, given = make(align=align), batch()
    memory = model.encoder(given.elements, given.lengths)
    tokens = torch.tensor([[START, END + 1, END + 3, END], [START, END + 1, END, PAD], [START, END + 2, END + 1, END]])
    check_decoder(model.decoder, memory, tokens=tokens)


def test_weights_are_the_answer_by_equation_3():
    """u_i = v . tanh(W_1 e_i + W_2 d), softmax over END and the elements; the next input is what is pointed to."""
    model, given = make(), batch()
    decoder: Any = model.decoder
    memory = model.encoder(given.elements, given.lengths)
    state = decoder.start(memory)
    score = decoder.attend.score
    keys = torch.cat([decoder.end[None], memory.key[0]])
    cells = state.cells[0]
    pointed, tokens = decoder.first, torch.full((3,), START)
    for target in given.target_in[0, 1:].tolist():
        cells = decoder.stack(pointed[None], cells[None])[1][0]
        hidden = cells[0, :5]
        energies = torch.tanh(keys @ score.key_weight + hidden @ score.query_weight) @ score.energy
        logits, state = decoder.step(tokens, state)
        torch.testing.assert_close(logits[0, END : END + 4].exp(), energies.softmax(-1), rtol=1e-10, atol=1e-12)
        tokens = torch.tensor([target, END + 1, END + 1])
        pointed = model.encoder.projection(given.elements[0, target - END - 1])


def test_equal_elements_are_different_places():
    model, given = make(), batch()
    logits = model(given.elements, given.lengths, given.target_in)
    assert logits.shape == (3, 3, END + 1 + 7)
    assert logits[0, 0, END + 1] != logits[0, 0, END + 3]
    np.testing.assert_allclose(logits.exp().sum(-1).detach(), 1.0, rtol=1e-10)
    assert logits[1, :, END + 2 :].max() == -torch.inf  # it has one element
    assert logits[..., :END].max() == -torch.inf


def test_the_loss_is_that_of_the_logits():
    model, given = make(), batch()
    logits = model(given.elements, given.lengths, given.target_in)
    features = model.features(given.elements, given.lengths, given.target_in)
    found = model.decoder.output.loss(features, given.target_out)
    wanted = nn.functional.nll_loss(
        logits.flatten(0, 1), given.target_out.flatten(), ignore_index=IGNORED, reduction="none"
    ).view(3, 3)
    torch.testing.assert_close(found[0], wanted.sum(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], wanted.detach(), rtol=1e-10, atol=1e-12)


def test_searches_point_only_to_what_is_there():
    model, given = make(), batch()
    memory = model.encoder(given.elements, given.lengths)
    for found in (greedy(model.decoder, memory, max_length=4), Beam(3)(model.decoder, memory, max_length=4)):
        for (best, *_), each in zip(found, SETS, strict=True):
            assert all(END < token <= END + len(each.elements) for token in best.tokens)


def test_every_parameter_learns():
    model, given = make(), batch()
    features = model.features(given.elements, given.lengths, given.target_in)
    total, _ = model.decoder.output.loss(features, given.target_out)
    total.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize("align", ALIGNS)
def test_weights_that_are_an_answer_sum_to_one(align: AlignName):
    """What could not be learnt or would leave nothing to point to is refused."""
    if align in ("softmax", "sparsemax", "entmax"):
        model, given = make(align=align), batch()
        logits = model(given.elements, given.lengths, given.target_in)
        assert isinstance(logits, torch.Tensor)
        np.testing.assert_allclose(logits.exp().sum(-1).detach(), 1.0, rtol=1e-10)
        return
    with pytest.raises(ValueError, match=f"align is '{align}'; .*: choose softmax, sparsemax or entmax"):
        PointerNetworkConfig(align=align)


def test_smoothing_is_refused():
    with pytest.raises(ValueError, match="places cannot be smoothed"):
        PositionOutput(3).loss(torch.ones(1, 1, 3), torch.full((1, 1), END), 0.1)
