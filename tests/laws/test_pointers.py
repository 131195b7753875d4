"""The pointer-generator's mixture and the pointer network's equation, by hand and by their laws."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.data.batches import collate
from regard.decoding.beam import Beam
from regard.decoding.sampling import greedy
from regard.models.attention import ALIGNS, AlignName
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig, PositionOutput
from regard.nn.layers import Output
from regard.nn.output import CopyFeatures, CopyOutput
from regard.tasks.pointer import PointedSet, SetBatch, collate_sets
from regard.testing import check_decoder
from regard.text.kinds import END, IGNORED, PAD, START
from tests.laws import cases


def mixture(gate: float, own: int = 2) -> CopyFeatures:
    """A source of the tokens 4, 5, 4 and 6; the vocabulary has 0 to 4, so that 5 and 6 are the source's own."""
    return CopyFeatures(
        torch.zeros(1, 3, dtype=torch.float64),
        torch.tensor([gate], dtype=torch.float64),
        torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64),
        torch.tensor([[4, 5, 4, 6]]),
        torch.zeros(1, own, dtype=torch.float64),
    )


def output() -> CopyOutput:
    layer = CopyOutput(Output(3, 5)).double()
    nn.init.constant_(layer.written.bias, 0.0)
    return layer


def test_the_mixture_by_hand():
    """A gate of ln 3 writes with probability 3/4, each of five words alike; what is copied adds up by word."""
    found = output()(mixture(torch.tensor(3.0).log().item())).exp()
    wanted = [0.15, 0.15, 0.15, 0.15, 0.15 + 0.25 * 0.4, 0.25 * 0.2, 0.25 * 0.4]
    torch.testing.assert_close(found, torch.tensor([wanted], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert found.sum().item() == pytest.approx(1.0)


def test_what_neither_can_say_is_impossible():
    """Room for a third own word, which this source does not have."""
    logarithms = output()(mixture(0.0, own=3))
    assert logarithms[0, 7] == -torch.inf
    assert logarithms[:, :7].isfinite().all()
    assert output()(mixture(torch.inf))[0, 5:].eq(-torch.inf).all()


def many(rows: int = 2, positions: int = 3) -> tuple[CopyFeatures, Tensor]:
    """Drawn mixtures `(row, position)` with a source of five tokens, three of which are own words, and targets."""
    tokens = torch.tensor([[4, 5, 6, 7, 0], [1, 6, 4, 5, 5]])
    copying = CopyFeatures(
        torch.randn(rows, positions, 3, dtype=torch.float64).requires_grad_(),
        torch.randn(rows, positions, dtype=torch.float64).requires_grad_(),
        torch.randn(rows, positions, 5, dtype=torch.float64).softmax(-1).requires_grad_(),
        tokens[:, None].expand(-1, positions, -1),
        torch.zeros(rows, positions, 3, dtype=torch.float64),
    )
    return copying, torch.tensor([[4, 6, 2], [5, 1, IGNORED]])


def test_the_loss_is_that_of_the_distribution():
    """Position by position, padding left out; and its gradient."""
    layer, (copying, targets) = output(), many()
    total, losses = layer.loss(copying, targets)
    each = -layer(copying).gather(-1, targets.clamp(min=0)[..., None])[..., 0].masked_fill(targets == IGNORED, 0.0)
    torch.testing.assert_close(losses, each.detach())
    torch.testing.assert_close(total, each.sum())
    leaves = [copying.features, copying.gate, copying.weights, layer.written.weight, layer.written.bias]
    torch.testing.assert_close(torch.autograd.grad(total, leaves), torch.autograd.grad(each.sum(), leaves))


def test_smoothing_is_that_of_the_vocabulary():
    layer, (copying, targets) = output(), many()
    real = targets != IGNORED
    plain, _ = layer.loss(copying, targets)
    spread = (
        -nn.functional.linear(copying.features, layer.written.weight, layer.written.bias)
        .log_softmax(-1)
        .mean(-1)[real]
        .sum()
    )
    torch.testing.assert_close(layer.loss(copying, targets, 0.2)[0], 0.8 * plain + 0.2 * spread)


def test_gradcheck():
    """Of weights that leave something, where how much they sum to matters too."""
    layer, (copying, targets) = output(), many()

    def loss(features: Tensor, gate: Tensor, weights: Tensor, table: Tensor) -> Tensor:
        changed = CopyFeatures(features, gate, weights, copying.tokens, copying.room)
        return torch.func.functional_call(_Loss(layer), {"layer.written.weight": table}, (changed, targets))

    some = (0.9 * copying.weights).detach().requires_grad_()
    assert torch.autograd.gradcheck(loss, (copying.features, copying.gate, some, layer.written.weight))


class _Loss(nn.Module):
    def __init__(self, layer: CopyOutput):
        super().__init__()
        self.layer = layer

    def forward(self, copying: CopyFeatures, targets: Tensor) -> Tensor:
        return self.layer.loss(copying, targets)[0]


def test_a_distribution_over_the_source_s_own_words_too():
    """Sums to 1 at every step, in one pass and stepwise, whichever batch gives the room."""
    model = PointerGenerator(13, 13, PointerConfig(embedding=3, width=5, attention=7, history="coverage")).double()
    model.eval()
    batch = collate([([4, 13, 14, 13], [5, 14]), ([6, 7], [13, 7])])
    logarithms = model(batch.source, batch.source_lengths, batch.target_in)
    assert logarithms.shape == (2, 3, 15)
    torch.testing.assert_close(logarithms.exp().sum(-1), torch.ones(2, 3, dtype=torch.float64))
    assert logarithms[0, :, 13:].isfinite().all()
    assert logarithms[1, :, 13:].eq(-torch.inf).all()
    alone = model(batch.source[1:, :3], batch.source_lengths[1:], batch.target_in[1:])
    torch.testing.assert_close(alone, logarithms[1:, :, :13], rtol=1e-12, atol=1e-12)
    state = model.decoder.start(model.encoder(batch.source, batch.source_lengths))
    for position, tokens in enumerate(batch.target_in.unbind(1)):
        step, state = model.decoder.step(tokens, state)
        torch.testing.assert_close(step, logarithms[:, position], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("align", ALIGNS)
def test_it_sums_to_one_whatever_the_alignment(align: AlignName, training: bool):
    """And the loss is that of the same distribution; without a source all is written."""
    torch.manual_seed(3)
    config = PointerConfig(embedding=3, width=5, attention=7, align=align, window=2)
    model = PointerGenerator(13, 13, config).double().train(training)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    batch = collate([([4, 13, 14, 13], [5, 14]), ([6, 7], [13, 7])])
    lengths = batch.source_lengths.clone()
    lengths[1] = 0
    for given in (batch.source_lengths, lengths):
        features = model.features(batch.source, given, batch.target_in)
        logarithms = model.decoder.output(features)
        torch.testing.assert_close(logarithms.exp().sum(-1), torch.ones(2, 3, dtype=torch.float64))
        each = -logarithms.gather(-1, batch.target_out.clamp(min=0)[..., None])[..., 0].masked_fill(
            batch.target_out < 0, 0.0
        )
        _, losses = model.decoder.output.loss(features, batch.target_out)
        possible = each.isfinite()
        torch.testing.assert_close(losses[possible], each[possible].detach())


def test_words_past_the_vocabulary_are_read_as_unknown():
    table = cases.OpenEmbedding(5, 3)
    torch.testing.assert_close(table(torch.tensor([1, 5, 4, 70])), table(torch.tensor([1, 1, 4, 1])))


def test_vocabularies_must_be_one():
    with pytest.raises(ValueError, match="the vocabularies have 11 and 13 entries; share one"):
        PointerGenerator(11, 13, PointerConfig())


SETS = [
    PointedSet(((0.5, 1.0), (0.25, 0.0), (0.5, 1.0)), (1, 0)),
    PointedSet(((0.75, 2.0),), (0,)),
    PointedSet(((0.1, 0.2), (0.3, 0.4)), (1, 0)),
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
