"""Cells, readers and recurrent decoders, equation by equation."""

from typing import Literal

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.models.luong import Luong, LuongConfig, ScoreName
from regard.models.one_pass import OnePass, OnePassConfig
from regard.nn.encoders import ConvolutionalEncoder
from regard.nn.layers import TokenEmbedding
from regard.nn.recurrent import (
    CELL_CLASSES,
    KINDS,
    CellName,
    Float32LSTM,
    Recurrent,
    RecurrentName,
    SequenceReader,
)
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters

SOURCE, TARGET = torch.tensor([[4, 7, 5, 9, 6]]), torch.tensor([[2, 8, 6]])
LENGTHS = torch.tensor([5])


def close(ours: torch.Tensor, expected: Array) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["gru-reset-before", "gru", "lstm", "tanh"])
def test_cells(name: CellName):
    cell = CELL_CLASSES[name](3, 5).double()
    x, state = torch.randn(7, 3).double(), torch.randn(7, cell.state_width).double()
    p = {f"c.{key}": value for key, value in reference.parameters(cell).items()}
    for row in range(7):
        given, before = x[row].numpy(), state[row].numpy()
        expected = {
            "gru-reset-before": lambda given=given, before=before: reference.gru_reset_before(p, "c", given, before),
            "gru": lambda given=given, before=before: reference.gru_reset_after(p, "c", given, before),
            "lstm": lambda given=given, before=before: np.concatenate(
                reference.lstm(p, "c.cell", given, before[:5], before[5:])
            ),
            "tanh": lambda given=given, before=before: reference.tanh(p, "c", given, before),
        }[name]()
        close(cell(x, state)[row], expected)


@pytest.mark.parametrize("kind", ["tanh", "gru", "lstm"])
def test_a_reader_is_pytorchs_network_over_packed_sequences(kind: RecurrentName):
    reader = SequenceReader(kind, 3, 5, 2).double()
    network = KINDS[kind](3, 5, 2, batch_first=True, bidirectional=True).double()
    for suffix, layers in (("", reader.forwards), ("_reverse", reader.backwards)):
        for number, layer in enumerate(layers):
            for name, parameter in layer.named_parameters():
                network.get_parameter(name.replace("_l0", f"_l{number}{suffix}")).data.copy_(parameter)
    inputs, lengths = torch.randn(3, 7, 3).double(), torch.tensor([4, 7, 1])
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    outputs, final = network(packed)
    final = final[0] if kind == "lstm" else final
    states, ends = reader(inputs, lengths)
    torch.testing.assert_close(states, pad_packed_sequence(outputs, batch_first=True)[0])
    torch.testing.assert_close(ends, torch.cat([final[-2], final[-1]], -1))


def test_autocast_leaves_the_plain_lstm_alone():
    ours, lengths = Float32LSTM(3, 4, batch_first=True), torch.tensor([5, 2])
    theirs = torch.nn.LSTM(3, 4, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    x, before = torch.randn(2, 5, 3).bfloat16(), (torch.randn(1, 2, 4).bfloat16(), torch.randn(1, 2, 4))
    with torch.autocast("cpu", torch.bfloat16):
        outputs, (state, _) = ours(x, before)
        packed, _ = ours(pack_padded_sequence(x, lengths, batch_first=True))
    expected, (last, _) = theirs(x.float(), (before[0].float(), before[1]))
    assert torch.equal(outputs, expected)
    assert torch.equal(state, last)
    assert torch.equal(packed.data, theirs(pack_padded_sequence(x.float(), lengths, batch_first=True))[0].data)


def bahdanau(p: Parameters, source: list[int], target: list[int], width: int) -> Array:
    """Bahdanau 2015, appendix A: logits after each target word."""
    embedded = [reference.embed(p, "encoder", token) for token in source]
    forward, backward = [np.zeros(width)], [np.zeros(width)]
    for x in embedded:
        forward.append(reference.gru_reset_before(p, "encoder.reader.forwards.0.cell", x, forward[-1]))
    for x in reversed(embedded):
        backward.append(reference.gru_reset_before(p, "encoder.reader.backwards.0.cell", x, backward[-1]))
    annotations = np.array([np.concatenate(pair) for pair in zip(forward[1:], reversed(backward[1:]), strict=True)])
    s = np.tanh(p["decoder.initial.linear.weight"] @ backward[-1])
    score = reference.additive(
        p["decoder.attend.score.query_weight"].T,
        p["decoder.attend.score.key_weight"].T,
        p["decoder.attend.score.energy"],
    )
    logits = []
    for token in target:
        y = reference.embed(p, "decoder", token)
        c, _ = reference.lookup(score, s, annotations, annotations)
        before_maxout = (
            p["decoder.readout.linear.weight"] @ np.concatenate([s, y, c]) + p["decoder.readout.linear.bias"]
        )
        t = np.array([max(before_maxout[2 * j], before_maxout[2 * j + 1]) for j in range(len(before_maxout) // 2)])
        logits.append(p["decoder.output.weight"] @ t + p["decoder.output.bias"])
        s = reference.gru_reset_before(p, "decoder.stack.cells.0", np.concatenate([y, c]), s)
    return np.array(logits)


def test_bahdanau():
    model = Bahdanau(11, 13, BahdanauConfig(embedding=3, width=5, attention=7, maxout=2)).double()
    expected = bahdanau(reference.parameters(model), SOURCE[0].tolist(), TARGET[0].tolist(), 5)
    close(model(SOURCE, LENGTHS, TARGET)[0], expected)


def luong(p: Parameters, config: LuongConfig, source: list[int], target: list[int]) -> Array:
    """Luong 2015, section 3, of two layers: logits after each target word."""
    inputs = [reference.embed(p, "encoder", token) for token in source]
    lower = reference.read_lstm(p, "encoder.reader.forwards.0", inputs)
    states = np.array(reference.read_lstm(p, "encoder.reader.forwards.1", lower))
    start = np.tanh(p["decoder.initial.linear.weight"] @ states[-1] + p["decoder.initial.linear.bias"])
    h1, c1, h2, c2 = np.split(start, 4)
    scores = {
        "dot": lambda: reference.dot,
        "general": lambda: reference.general(p["decoder.attend.score.weight"]),
        "concat": lambda: reference.additive(
            p["decoder.attend.score.query_weight"].T,
            p["decoder.attend.score.key_weight"].T,
            p["decoder.attend.score.energy"],
        ),
        "scaled-dot": lambda: reference.scaled_dot,
        "cosine": lambda: reference.cosine(lambda query: np.exp(p["decoder.attend.score.sharpness.logarithm"]).item()),
        "distance": lambda: reference.distance(config.width**0.5),
    }
    lower, upper = ("decoder.network.network", "_l0"), ("decoder.network.network", "_l1")
    if config.input_feeding:
        lower, upper = ("decoder.stack.cells.0.cell", ""), ("decoder.stack.cells.1.cell", "")
    attentional, logits = np.zeros(config.width), []
    for token in target:
        x = reference.embed(p, "decoder", token)
        x = np.concatenate([x, attentional]) if config.input_feeding else x
        h1, c1 = reference.lstm(p, lower[0], x, h1, c1, lower[1])
        h2, c2 = reference.lstm(p, upper[0], h1, h2, c2, upper[1])
        if config.score == "location":
            weights = reference.softmax((h2 @ p["decoder.attend.score.weight"])[: len(source)].tolist())
            context = weights @ states
        else:
            context, _ = reference.lookup(scores[config.score](), h2, states, states)
        attentional = np.tanh(p["decoder.combine.weight"] @ np.concatenate([context, h2]))
        logits.append(p["decoder.output.weight"] @ attentional + p["decoder.output.bias"])
    return np.array(logits)


@pytest.mark.parametrize("score", ["dot", "general", "concat", "location", "scaled-dot", "cosine", "distance"])
@pytest.mark.parametrize("input_feeding", [True, False])
def test_luong(score: ScoreName, input_feeding: bool):
    config = LuongConfig(embedding=3, width=5, score=score, max_source=7, input_feeding=input_feeding)
    model = Luong(11, 13, config).double().eval()
    expected = luong(reference.parameters(model), config, SOURCE[0].tolist(), TARGET[0].tolist())
    close(model(SOURCE, LENGTHS, TARGET)[0], expected)


@pytest.mark.parametrize(("width", "heads"), [(5, 1), (6, 2)])
def test_one_pass(width: int, heads: int):
    config = OnePassConfig(width=width, encoder_width=3, heads=heads, shared=False)
    model = OnePass(11, 13, config).double().eval()
    for bias in (layer.bias for layer in model.decoder.modules() if isinstance(layer, torch.nn.Linear)):
        torch.nn.init.normal_(bias)
    p = reference.parameters(model)
    inputs = [reference.embed(p, "encoder", token) for token in SOURCE[0].tolist()]
    states = np.array(reference.both_ways(p, "encoder.reader", inputs))
    summary = np.concatenate([states[-1, :3], states[0, 3:]])
    starts = [p[f"decoder.starts.{i}.linear.weight"] @ summary + p[f"decoder.starts.{i}.linear.bias"] for i in range(2)]
    (h, c), (top, cell) = (np.split(np.tanh(start), 2) for start in starts)
    logits = []
    for token in TARGET[0].tolist():
        y = reference.embed(p, "decoder", token)
        h, c = reference.lstm(p, "decoder.first.network", y, h, c, "_l0")
        context = reference.multi_head(p, "decoder.attend", heads, h, states)
        top, cell = reference.lstm(p, "decoder.second.network", np.concatenate([h, context]), top, cell, "_l0")
        readout = p["decoder.readout.weight"] @ np.concatenate([h, context, top]) + p["decoder.readout.bias"]
        logits.append(p["decoder.embedding.table.weight"] @ readout + p["decoder.output.bias"])
    close(model(SOURCE, LENGTHS, TARGET)[0], np.array(logits))


@pytest.mark.parametrize("summary", ["start", "every-step"])
def test_bottleneck(summary: Literal["start", "every-step"]):
    model = Bottleneck(11, 13, BottleneckConfig(embedding=3, width=5, summary=summary)).double()
    p = reference.parameters(model)
    inputs = [reference.embed(p, "encoder", token) for token in SOURCE[0].tolist()]
    vector = reference.read_lstm(p, "encoder.reader.forwards.0", inputs)[-1]
    start = np.tanh(p["decoder.initial.linear.weight"] @ vector + p["decoder.initial.linear.bias"])
    h, c = np.split(start, 2)
    logits = []
    for token in TARGET[0].tolist():
        y = reference.embed(p, "decoder", token)
        x = np.concatenate([y, vector]) if summary == "every-step" else y
        h, c = reference.lstm(p, "decoder.recurrent.network", x, h, c, "_l0")
        logits.append(p["decoder.output.weight"] @ h + p["decoder.output.bias"])
    close(model(SOURCE, LENGTHS, TARGET)[0], np.array(logits))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["tanh", "gru", "lstm"])
@torch.no_grad()
def test_one_position_goes_through_a_cell(kind: RecurrentName, layers: int):
    """PyTorch's cells and networks are different code."""
    network = Recurrent(kind, 3, 5, layers).double().eval()
    inputs, state = torch.randn(7, 11, 3).double(), torch.randn(7, *network.state_shape).double()
    outputs, last = network(inputs, state)
    for position in range(11):
        output, state = network(inputs[:, position : position + 1], state)
        torch.testing.assert_close(output[:, 0], outputs[:, position], rtol=0, atol=1e-12)
    torch.testing.assert_close(state, last, rtol=0, atol=1e-12)


def test_gated_convolutions_by_their_equation():
    """One position at a time: zeros beyond both ends of each text, whatever the batch has there."""
    encoder = reference.drawn(ConvolutionalEncoder(TokenEmbedding(11, 4), 2, 3), 0.7).double()
    tokens, lengths = torch.tensor([[4, 7, 5, 9, 6], [5, 8, 10, 10, 10]]), torch.tensor([5, 2])
    memory, p = encoder(tokens, lengths), reference.parameters(encoder)
    for row, length in enumerate(lengths.tolist()):
        states = encoder.positions(encoder.embedding(tokens[row : row + 1, :length]))[0].detach().numpy()
        for layer in range(2):
            padded = np.pad(states, ((1, 1), (0, 0)))
            weight, bias = p[f"layers.{layer}.weight"], p[f"layers.{layer}.bias"]
            sums = np.array([np.einsum("oik,ki->o", weight, padded[at : at + 3]) + bias for at in range(length)])
            states = (sums[:, :4] * reference.sigmoid(sums[:, 4:]) + states) / np.sqrt(2)
        close(memory.value[row, :length], states)
        close(memory.summary[row], states.mean(0))
