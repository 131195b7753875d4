"""Parts that were made for other sizes say so when a model is built or first reads, by their names and both sizes."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.attention import Attend
from regard.attention.align import LocalPredictive
from regard.attention.heads import MultiHead
from regard.attention.history import Coverage, SequentialAttend
from regard.attention.masks import as_mask
from regard.attention.memory import Memory
from regard.attention.positions import Alibi, BucketedBias, RelativeKeys, Rotary
from regard.attention.scores import Additive, Dot, General, ScaledDot
from regard.models.bahdanau import BackwardInitialState, BahdanauDecoder, MaxoutReadout
from regard.models.bottleneck import BottleneckDecoder
from regard.models.luong import LuongDecoder, UnfedLuongDecoder
from regard.models.one_pass import OnePassDecoder
from regard.nn.decoders import SummaryInitialState, ZeroInitialState
from regard.nn.embeddings import NoPositions, TokenEmbedding
from regard.nn.encoders import RecurrentEncoder
from regard.nn.layers import FeedForward, PreNorm
from regard.nn.output import Output
from regard.nn.recurrent import BidirectionalReader, CellReader, GRUResetBefore, Recurrent, SequenceReader, Stack
from regard.nn.transformer import DecoderLayer, EncoderLayer, TransformerDecoder

WIDTH = 12


def memory(width: int = WIDTH) -> Memory:
    return Memory.of(torch.randn(2, 5, width), torch.tensor([5, 3]), torch.randn(2, width))


def transformer(source: int = WIDTH, **parts: Any) -> Any:
    """A decoder of one layer, with some of its parts exchanged, reads a source."""
    norms = parts.get("residuals", tuple(PreNorm(WIDTH) for _ in range(3)))
    feedforward = parts.get("feedforward", FeedForward(WIDTH, 5))
    layer = DecoderLayer(parts.get("own", MultiHead(WIDTH, 2)), MultiHead(WIDTH, 2), feedforward, norms)
    embedding, norm = TokenEmbedding(7, parts.get("embedding", WIDTH)), nn.LayerNorm(parts.get("norm", WIDTH))
    output = Output(parts.get("output", WIDTH), 7)
    decoder = TransformerDecoder(embedding, NoPositions(), [layer], norm, output)
    return decoder.features(torch.zeros(2, 3, dtype=torch.int64), decoder.start(memory(source)))


def recurrent(attend: Attend, *, source: int = WIDTH, stack: int = 2 * WIDTH, initial: int = WIDTH, both: int = 24):
    """Luong's decoder takes a step."""
    cells, combine = Stack("gru", stack, WIDTH), nn.Linear(both, WIDTH)
    embedding, output = TokenEmbedding(7, WIDTH), Output(WIDTH, 7)
    decoder = LuongDecoder(embedding, attend, cells, ZeroInitialState(initial), combine, output)
    return decoder.advance(torch.zeros(2, dtype=torch.int64), decoder.start(memory(source)))


def step(decoder: Any, source: int = WIDTH) -> Any:
    """A decoder takes a step."""
    return decoder.step(torch.zeros(2, dtype=torch.int64), decoder.start(memory(source)))


def rnnsearch(source: int = WIDTH, **parts: Any) -> Any:
    """Bahdanau's decoder takes a step."""
    initial = parts.get("initial", BackwardInitialState(WIDTH, WIDTH))
    readout, output = parts.get("readout", MaxoutReadout(3 * WIDTH, 6)), parts.get("output", Output(6, 7))
    cells = Stack("gru-reset-before", 2 * WIDTH, WIDTH)
    return step(BahdanauDecoder(TokenEmbedding(7, WIDTH), Attend(ADDITIVE), cells, initial, readout, output), source)


def unfed(**parts: Any) -> Any:
    """Luong's decoder without input feeding takes a step."""
    network, output = parts.get("network", Recurrent("gru", WIDTH, WIDTH)), parts.get("output", Output(WIDTH, 7))
    initial, combine = parts.get("initial", SummaryInitialState(WIDTH, WIDTH)), nn.Linear(2 * WIDTH, WIDTH)
    return step(UnfedLuongDecoder(TokenEmbedding(7, WIDTH), Attend(Dot()), network, initial, combine, output))


def one_pass(*, second: int = 2 * WIDTH, start: int = WIDTH, readout: int = 3 * WIDTH, output: int = WIDTH) -> Any:
    """A decoder of two networks takes a step."""
    networks = Recurrent("gru", WIDTH, WIDTH), Recurrent("gru", second, WIDTH)
    starts = SummaryInitialState(WIDTH, WIDTH), SummaryInitialState(WIDTH, start)
    parts = MultiHead(WIDTH, 2), starts, nn.Linear(readout, WIDTH), Output(output, 7)
    return step(OnePassDecoder(TokenEmbedding(7, WIDTH), networks, *parts))


def bottleneck(start: int, output: int = WIDTH) -> Any:
    """A decoder without attention takes a step."""
    network, initial = Recurrent("gru", WIDTH, WIDTH), SummaryInitialState(WIDTH, start)
    return step(
        BottleneckDecoder(TokenEmbedding(7, WIDTH), network, initial, Output(WIDTH, 7), summary_each_step=False)
    )


def encoded(reader: BidirectionalReader) -> Any:
    """A recurrent encoder reads tokens."""
    encoder = RecurrentEncoder(TokenEmbedding(7, WIDTH), reader)
    return encoder(torch.zeros(2, 5, dtype=torch.int64), torch.tensor([5, 3])).value


def heads(**parts: Any) -> MultiHead:
    return MultiHead(WIDTH, 2, attend=Attend(parts.pop("score", ScaledDot())), **parts)


def alone(attend: Attend) -> Any:
    return attend(torch.randn(2, 3, WIDTH), memory())


ADDITIVE = Additive(WIDTH, WIDTH, 5)
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "queries of a score": (
        lambda: recurrent(Attend(Additive(11, 12, 5))),
        "the width of the query is 12, but the score Additive expects 11; make both the same",
    ),
    "keys of a score": (
        lambda: recurrent(Attend(Additive(12, 11, 5))),
        "the width of the memory's key is 12, but the score Additive expects 11",
    ),
    "keys of a product": (
        lambda: recurrent(Attend(General(12, 11))),
        "the width of the memory's key is 12, but the score General expects 11",
    ),
    "keys of another width than queries": (
        lambda: recurrent(Attend(Dot()), source=10, both=22),
        "the width of the query is 12, but the score Dot of the memory's keys expects 10",
    ),
    "the model's width in place of a head's": (
        lambda: heads(score=Additive(12, 12, 5, heads=2)),
        "the width of the query is 6, but the score Additive expects 12",
    ),
    "a score of other heads": (
        lambda: heads(score=Additive(6, 6, 5, heads=3)),
        "the number of heads of the attention is 2, but the score Additive expects 3",
    ),
    "rotary positions": (lambda: heads(positions=Rotary(12)), "is 6, but the positions Rotary expects 12"),
    "relative keys": (lambda: heads(positions=RelativeKeys(12)), "is 6, but the positions RelativeKeys expects 12"),
    "slopes": (lambda: heads(positions=Alibi(3)), "is 2, but the positions Alibi expects 3"),
    "buckets": (lambda: heads(positions=BucketedBias(3)), "is 2, but the positions BucketedBias expects 3"),
    "a history": (
        lambda: SequentialAttend(ADDITIVE, Coverage(7)),
        "the width of the score Additive is 5, but the history Coverage expects 7",
    ),
    "an alignment and a score": (
        lambda: Attend(ADDITIVE, LocalPredictive(10, 5, 1)),
        "the width of the query is 12, but the alignment LocalPredictive expects 10",
    ),
    "an alignment": (lambda: alone(Attend(ScaledDot(), LocalPredictive(10, 5, 1))), "need widths 10, any, any"),
    "a source": (
        lambda: transformer(10),
        "the width of the memory's key is 10, but the map of MultiHead to keys expects 12",
    ),
    "self-attention": (lambda: transformer(own=MultiHead(10, 2)), "the parts of a layer need one width; found self_"),
    "a network": (lambda: transformer(feedforward=FeedForward(10, 5)), "feedforward input 10, feedforward output 10"),
    "a norm": (lambda: transformer(residuals=(PreNorm(12), PreNorm(10), PreNorm(12))), "norm 0 12, norm 1 10"),
    "an embedding": (lambda: transformer(embedding=10), "the parts of the decoder need one width; found embedding 10"),
    "a last norm": (lambda: transformer(norm=10), "layer 0 12, norm 10, output 12"),
    "an output layer": (lambda: transformer(output=10), "layer 0 12, norm 12, output 10"),
    "an encoder's layer": (
        lambda: EncoderLayer(MultiHead(10, 2), FeedForward(12, 5), (PreNorm(12), PreNorm(12))),
        "self_attention query 10, self_attention key 10, self_attention value 10, feedforward input 12",
    ),
    "an initial state": (
        lambda: recurrent(Attend(Dot()), initial=10),
        "the width of the initial state by ZeroInitialState is 10, but the recurrent network expects 12",
    ),
    "a combining map": (
        lambda: recurrent(Attend(Dot()), both=20),
        "the width of context and state is 24, but the combining map expects 20",
    ),
    "a recurrent network": (
        lambda: recurrent(Attend(Dot()), stack=20),
        "the width of embedding and attentional vector is 24, but the stack expects 20",
    ),
    "a summary": (
        lambda: unfed(initial=SummaryInitialState(10, WIDTH)),
        "the width of the memory's summary is 12, but the initial state expects 10",
    ),
    "a first state": (
        lambda: rnnsearch(initial=BackwardInitialState(10, WIDTH)),
        "the width of the memory's value is 12, but the initial state expects 10",
    ),
    "a readout": (
        lambda: rnnsearch(readout=MaxoutReadout(30, 6)),
        "the width of state, embedding and context is 36, but the readout expects 30",
    ),
    "an output layer behind a readout": (
        lambda: rnnsearch(output=Output(5, 7)),
        "the width of the readout is 6, but the output layer expects 5",
    ),
    "an output layer of a network": (
        lambda: unfed(output=Output(10, 7)),
        "the width of the attentional vector is 12, but the output layer expects 10",
    ),
    "a network of another input": (
        lambda: unfed(network=Recurrent("gru", 10, WIDTH)),
        "the width of the inputs is 12, but the recurrent network expects 10",
    ),
    "a second network": (
        lambda: one_pass(second=WIDTH),
        "the width of the inputs is 24, but the recurrent network expects 12",
    ),
    "a second state": (
        lambda: one_pass(start=10),
        "by SummaryInitialState is 10, but the recurrent network expects 12",
    ),
    "a linear readout": (
        lambda: one_pass(readout=30),
        "the width of query, context and output is 36, but the readout expects 30",
    ),
    "a state without attention": (lambda: bottleneck(10), "is 10, but the recurrent network expects 12"),
    "a reader": (
        lambda: encoded(SequenceReader("lstm", 10, WIDTH)),
        "the width of the inputs is 12, but the reader expects 10",
    ),
    "a reader of cells": (
        lambda: encoded(CellReader(GRUResetBefore(10, WIDTH), GRUResetBefore(10, WIDTH))),
        "the width of the inputs is 12, but the reader expects 10",
    ),
    "a mask": (
        lambda: Memory(torch.randn(2, 5, 3), torch.randn(2, 5, 3), as_mask(torch.ones(2, 1, 4) > 0)),
        "the mask covers 4 keys, but the memory has 5",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_part_of_another_size_says_so(name: str):
    build, message = MISTAKES[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_parts_that_fit():
    assert transformer().shape == (2, 3, WIDTH)
    features, _ = recurrent(Attend(General(WIDTH, WIDTH)))
    assert features.shape == (2, WIDTH)
    assert rnnsearch()[0].shape == unfed()[0].shape == one_pass()[0].shape == bottleneck(WIDTH)[0].shape == (2, 7)
    assert encoded(SequenceReader("lstm", WIDTH, WIDTH)).shape == (2, 5, 2 * WIDTH)
    assert alone(Attend(ADDITIVE, LocalPredictive(WIDTH, 5, 1))).shape == (2, 3, WIDTH)
    assert heads(score=Additive(6, 6, 5, heads=2))(torch.randn(2, 3, WIDTH), memory()).shape == (2, 3, WIDTH)
    assert heads(positions=Rotary(6))(torch.randn(2, 3, WIDTH), memory()).shape == (2, 3, WIDTH)
    assert heads(score=Additive(6, 6, 5, heads=2), positions=Rotary(6)).heads == 2
