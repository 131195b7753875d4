"""Everything that the laws are held against: scores, encoders, decoders and models in small odd sizes, float64."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import Attend
from regard.attention.align import Align, Aligned, AlignInput, Hard, Monotonic, StraightThrough
from regard.attention.heads import MultiHead
from regard.attention.history import Coverage, History, LocationAware
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import (
    Additive,
    Cosine,
    Distance,
    Dot,
    General,
    InverseDistance,
    LearnedSharpness,
    Location,
    PredictedSharpness,
    Product,
    ScaledDot,
    Score,
    TanhDot,
)
from regard.models.attention import ALIGNS, AlignName, make_attend
from regard.models.bahdanau import BackwardInitialState, Bahdanau, BahdanauConfig, BahdanauDecoder, MaxoutReadout
from regard.models.bottleneck import Bottleneck, BottleneckConfig, BottleneckDecoder
from regard.models.captioner import FirstInputInitialState
from regard.models.luong import Luong, LuongConfig, LuongDecoder
from regard.models.one_pass import OnePass, OnePassConfig, OnePassDecoder
from regard.models.pointer_generator import PointerConfig, PointerDecoder, PointerGenerator
from regard.models.show_attend_and_tell import DeepOutput, Gate, GatedDecoder
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders import (
    Decoder,
    Encoder,
    EncoderDecoder,
    LearnedInitialState,
    SummaryInitialState,
    ZeroInitialState,
)
from regard.nn.encoders import ConvolutionalEncoder
from regard.nn.layers import (
    EncoderLayer,
    FeedForward,
    Learned,
    NoPositions,
    OpenEmbedding,
    Output,
    OutputLayer,
    Positions,
    PostNorm,
    PreNorm,
    Sinusoidal,
    TokenEmbedding,
)
from regard.nn.output import CopyOutput
from regard.nn.recurrent import CellReader, GRUResetBefore, Recurrent, RecurrentEncoder, SequenceReader, Stack
from regard.nn.transformer import DecoderLayer, TransformerDecoder, TransformerEncoder
from regard.testing import check_decoder

VOCABULARY = 13
MAX_SOURCE = 17

SCORES: dict[str, Callable[[int, int, int | None], Score]] = {
    "dot": lambda query, key, heads: Dot(),
    "scaled-dot": lambda query, key, heads: ScaledDot(),
    "general": lambda query, key, heads: General(query, key, heads=heads),
    "tanh-dot": lambda query, key, heads: TanhDot(key, query, heads=heads),
    "additive": lambda query, key, heads: Additive(query, key, 3, heads=heads),
    "normalized": lambda query, key, heads: Additive(query, key, 3, heads=heads, bias=True, normalized=True),
    "cosine": lambda query, key, heads: Cosine(5.0),
    "cosine-learned": lambda query, key, heads: Cosine(LearnedSharpness(2.0)),
    "cosine-predicted": lambda query, key, heads: Cosine(PredictedSharpness(query)),
    "distance": lambda query, key, heads: Distance(1.5),
    "inverse-distance": lambda query, key, heads: InverseDistance(0.1),
    "location": lambda query, key, heads: Location(query, MAX_SOURCE, heads=heads),
    "location-tail": lambda query, key, heads: Location(query, 5, ignore_tail=True, heads=heads),
}
_EQUAL = {name: make(5, 5, None) for name, make in SCORES.items()}
SQUARE = {name for name, each in _EQUAL.items() if each.query_width is None}
"""Scores whose queries and keys have one width."""
PRODUCTS = {name for name, each in _EQUAL.items() if isinstance(each, Product)}


def score(name: str, heads: int | None = None) -> tuple[Score, tuple[int, int, int]]:
    """A score and widths of query, key and value that it takes."""
    key = 5 if name in SQUARE or heads is not None else 3
    return SCORES[name](5, key, heads), (5, key, 7)


STOCHASTIC = {"softmax", "sparsemax", "entmax", "local-m", "straight-through", "hard"}
"""Alignments whose rows sum to 1 where anything may be read."""
PLACED = {"local-m", "local-p", "monotonic"}
"""Alignments for which it matters where a key stands."""


PASTS: dict[str, Callable[[], History]] = {
    "coverage": lambda: Coverage(3),
    "location-aware": lambda: LocationAware(3, filters=2, kernel=5),
}
"""What an additive score of hidden width 3 may know of the reads before."""


def align(name: AlignName, query_width: int) -> Align:
    """An alignment for queries of that width, with a window of 2."""
    return ALIGNS[name](query_width, 2)


def written(output: OutputLayer) -> Output:
    """What gives the words of the vocabulary their logits, whether others may be copied or not."""
    layer = output.written if isinstance(output, CopyOutput) else output
    assert isinstance(layer, Output)
    return layer


def embedding() -> TokenEmbedding:
    return TokenEmbedding(VOCABULARY, 6)


def transformer_encoder(positions: Positions) -> TransformerEncoder:
    layers = [
        EncoderLayer(MultiHead(6, 2), FeedForward(6, 7), (PreNorm(6), PreNorm(6))),
        EncoderLayer(MultiHead(6, 3), FeedForward(6, 5), (PostNorm(6), PostNorm(6))),
    ]
    return TransformerEncoder(embedding(), positions, layers, nn.LayerNorm(6), 0.0)


ENCODERS: dict[str, Callable[[], Encoder]] = {
    "tanh-forward": lambda: RecurrentEncoder(embedding(), SequenceReader("tanh", 6, 7, bidirectional=False)),
    "gru-both": lambda: RecurrentEncoder(embedding(), SequenceReader("gru", 6, 5)),
    "lstm-both-stacked": lambda: RecurrentEncoder(embedding(), SequenceReader("lstm", 6, 5, 2)),
    "gru-reset-before": lambda: RecurrentEncoder(embedding(), CellReader(GRUResetBefore(6, 5), GRUResetBefore(6, 5))),
    "transformer": lambda: transformer_encoder(Sinusoidal()),
    "transformer-learned": lambda: transformer_encoder(Learned(17, 6)),
    "convolutional": lambda: ConvolutionalEncoder(embedding(), 2, 3),
}

STARTS: dict[str, Callable[[Encoder, int], nn.Module]] = {
    "zero": lambda encoder, size: ZeroInitialState(size),
    "learned": lambda encoder, size: LearnedInitialState(size),
    "summary": lambda encoder, size: SummaryInitialState(encoder.summary_width, size),
    "backward": lambda encoder, size: BackwardInitialState(encoder.memory_width, size),
    "first-input": lambda encoder, size: FirstInputInitialState(encoder.summary_width, 3, Recurrent("tanh", 3, size)),
}


def bahdanau(encoder: Encoder, start: str) -> Decoder:
    stack = Stack("gru-reset-before", 6 + encoder.memory_width, 7)
    readout = MaxoutReadout(7 + 6 + encoder.memory_width, 5)
    attend = Attend(Additive(7, encoder.memory_width, 3))
    return BahdanauDecoder(embedding(), attend, stack, STARTS[start](encoder, 7), readout, Output(5, VOCABULARY))


def luong(encoder: Encoder, start: str, *, input_feeding: bool = True) -> LuongDecoder:
    config = LuongConfig(width=7, dropout=0.0, input_feeding=input_feeding)
    decoder = LuongDecoder(embedding(), encoder, config)
    decoder.attend = Attend(General(7, encoder.memory_width))
    decoder.initial = STARTS[start](encoder, 28)
    return decoder


def one_pass(encoder: Encoder, start: str) -> OnePassDecoder:
    decoder = OnePassDecoder(embedding(), encoder, OnePassConfig(width=6, heads=2, dropout=0.0))
    decoder.starts = nn.ModuleList(STARTS[start](encoder, 12) for _ in range(2))
    return decoder


def bottleneck(encoder: Encoder, start: str) -> Decoder:
    recurrent = Recurrent("tanh", 6 + encoder.summary_width, 7)
    output = Output(7, VOCABULARY)
    return BottleneckDecoder(embedding(), recurrent, STARTS[start](encoder, 7), output, summary_each_step=True)


def transformer(encoder: Encoder, start: str) -> Decoder:
    layers = [
        DecoderLayer(
            MultiHead(6, 2, key_value_heads=1),
            MultiHead(6, 3, memory_width=encoder.memory_width, attend=Attend(Additive(2, 2, 5, heads=3))),
            FeedForward(6, 5),
            (PreNorm(6), PostNorm(6), PreNorm(6)),
        ),
        DecoderLayer(
            MultiHead(6, 1, head_width=5),
            MultiHead(6, 2, memory_width=encoder.memory_width, shared_key_value=True),
            FeedForward(6, 7),
            (PostNorm(6), PreNorm(6), PostNorm(6)),
        ),
    ]
    return TransformerDecoder(embedding(), NoPositions(), layers, nn.LayerNorm(6), Output(6, VOCABULARY))


HISTORIES: dict[str, Callable[[], History | None]] = {
    "none": lambda: None,
    "coverage": lambda: Coverage(5),
    "location-aware": lambda: LocationAware(5, filters=2, kernel=5),
}


def reading_itself(align: Align, history: History | None, memory_width: int, score: Score | None = None) -> Decoder:
    """A Transformer's decoder whose self-attention is aligned like this."""
    attend = make_attend(Additive(3, 3, 5, heads=2) if score is None else score, align, history)
    own, source = MultiHead(6, 2, attend=attend), MultiHead(6, 2, memory_width=memory_width)
    layer = DecoderLayer(own, source, FeedForward(6, 5), (PreNorm(6), PreNorm(6), PreNorm(6)))
    return TransformerDecoder(embedding(), NoPositions(), [layer], nn.LayerNorm(6), Output(6, VOCABULARY))


def pointer(encoder: Encoder, start: str) -> Decoder:
    decoder = PointerDecoder(OpenEmbedding(VOCABULARY, 6), encoder, PointerConfig(width=7, attention=3))
    decoder.initial = STARTS[start](encoder, 14)
    return decoder


def gated(encoder: Encoder, start: str) -> Decoder:
    width = encoder.memory_width
    stack, readout = Stack("lstm", 6 + width, 7), DeepOutput(6, 7, width)
    attend = Attend(Additive(7, width, 3))
    output = Output(6, VOCABULARY)
    return GatedDecoder(embedding(), attend, stack, STARTS[start](encoder, 14), readout, output, Gate(7))


def first_input(encoder: Encoder, start: str) -> Decoder:
    """As Show and Tell starts: one network reads the source and then the words."""
    recurrent = Recurrent("lstm", 6, 7)
    started = FirstInputInitialState(encoder.summary_width, 6, recurrent)
    return BottleneckDecoder(embedding(), recurrent, started, Output(7, VOCABULARY), summary_each_step=False)


RECURRENT: dict[str, Callable[[Encoder, str], Decoder]] = {
    "bahdanau": bahdanau,
    "luong": luong,
    "unfed-luong": partial(luong, input_feeding=False),
    "one-pass": one_pass,
    "bottleneck": bottleneck,
    "pointer": pointer,
    "gated": gated,
}
DECODERS = {**RECURRENT, "first-input": first_input, "transformer": transformer}

MODELS: dict[str, Callable[[], EncoderDecoder]] = {
    "bahdanau": lambda: Bahdanau(11, 13, BahdanauConfig(embedding=3, width=5, attention=7, maxout=2)),
    "bahdanau-gru": lambda: Bahdanau(11, 13, BahdanauConfig(embedding=3, width=5, attention=7, maxout=2, cell="gru")),
    "luong-dot": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, score="dot")),
    "luong-general": lambda: Luong(11, 13, LuongConfig(embedding=3, width=6, layers=3, bidirectional=True)),
    "luong-concat": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, cell="gru", score="concat")),
    "luong-scaled-dot": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, score="scaled-dot")),
    "luong-cosine": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, score="cosine")),
    "luong-distance": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, score="distance")),
    "luong-location": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, score="location", max_source=17)),
    "one-pass": lambda: OnePass(13, 13, OnePassConfig(width=5, encoder_width=3, encoder_layers=2)),
    "luong-local-p": lambda: Luong(11, 13, LuongConfig(embedding=3, width=5, align="local-p", window=2)),
    "bahdanau-monotonic": lambda: Bahdanau(11, 13, BahdanauConfig(embedding=3, width=5, align="monotonic")),
    "bahdanau-coverage": lambda: Bahdanau(11, 13, BahdanauConfig(embedding=3, width=5, history="coverage")),
    "bahdanau-location-aware": lambda: Bahdanau(
        11, 13, BahdanauConfig(embedding=3, width=5, align="local-m", window=2, history="location-aware")
    ),
    "one-pass-local-m": lambda: OnePass(
        13, 13, OnePassConfig(width=6, encoder_width=3, heads=2, align="local-m", window=1)
    ),
    "transformer-monotonic": lambda: Transformer(
        13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3, align="monotonic")
    ),
    "pointer": lambda: PointerGenerator(13, 13, PointerConfig(embedding=3, width=5, attention=7, history="coverage")),
    "pointer-closed": lambda: PointerGenerator(13, 13, PointerConfig(embedding=3, width=5, attention=3, copying=False)),
    "pointer-matching": lambda: PointerGenerator(
        13, 13, PointerConfig(embedding=3, width=5, attention=3, matching=True)
    ),
    "one-pass-apart": lambda: OnePass(11, 13, OnePassConfig(width=5, encoder_width=3, shared=False)),
    "bottleneck": lambda: Bottleneck(11, 13, BottleneckConfig(embedding=3, width=5, layers=2)),
    "bottleneck-every-step": lambda: Bottleneck(
        11, 13, BottleneckConfig(embedding=3, width=5, cell="gru", bidirectional=True, summary="every-step")
    ),
    "transformer": lambda: Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3)),
    "transformer-after": lambda: Transformer(
        11, 13, TransformerConfig(layers=2, width=6, hidden=5, heads=2, norm="after", tied=False, shared=False)
    ),
    "transformer-cosine": lambda: Transformer(
        13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3, score="cosine", self_align="sparsemax")
    ),
    "transformer-concat": lambda: Transformer(
        13, 13, TransformerConfig(layers=1, width=6, hidden=7, heads=2, score="concat", self_align="local-m", window=1)
    ),
    "transformer-grouped": lambda: Transformer(
        13, 13, TransformerConfig(layers=1, width=8, hidden=5, heads=4, key_value_heads=2)
    ),
    "transformer-learned": lambda: Transformer(
        13, 13, TransformerConfig(layers=1, width=6, hidden=5, heads=2, positions="learned", max_length=17)
    ),
}


@dataclass(frozen=True)
class Sentences:
    """A padded batch: one sequence fills it, one has a single token, one none."""

    tokens: Tensor
    lengths: Tensor
    target: Tensor


def sentences(source_vocabulary: int = 11) -> Sentences:
    """Tokens after a sequence's end are arbitrary: nothing may depend on them."""
    tokens = torch.randint(4, source_vocabulary, (4, 7))
    return Sentences(tokens, torch.tensor([3, 7, 1, 0]), torch.randint(1, VOCABULARY, (4, 5)))


def hold(model: EncoderDecoder) -> None:
    """The laws of decoders, and that padding and the rest of the batch change nothing."""
    model = model.double().eval()
    batch = sentences()
    check_decoder(model.decoder, model.encoder(batch.tokens, batch.lengths), length=5)
    together = model(batch.tokens, batch.lengths, batch.target)
    for row, length in enumerate(batch.lengths.tolist()):
        one = slice(row, row + 1)
        alone = model(batch.tokens[one, :length], batch.lengths[one], batch.target[one])
        torch.testing.assert_close(alone, together[one], rtol=1e-12, atol=1e-12)


DRAWS = torch.empty(131, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(0))

DRAWN: dict[str, Callable[[], Align]] = {
    "hard": Hard,
    "hard-all-soft": lambda: Hard(1.0),
    "straight-through": StraightThrough,
    "monotonic": lambda: Monotonic(noise=0.0),
}
"""Alignments that draw in training, or expect what they would draw."""


class SameDraws(TorchFunctionMode):
    """What is drawn for a key depends on its place alone: not on the query, the head, the sequence or the batch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.exponential_:
            return args[0].copy_(DRAWS[: args[0].shape[-1]])
        return func(*args, **(kwargs or {}))


class InTraining(Align):
    """An alignment that is in training whatever is asked of it."""

    def __init__(self, align: Align):
        super().__init__()
        self.align = align
        self.train()

    def train(self, mode: bool = True) -> "InTraining":
        super().train(True)
        return self

    def forward(self, inputs: AlignInput) -> Aligned:
        with SameDraws():
            return self.align(*inputs)


class ReadAndDrawn(nn.Module):
    """What is read, and beside it what training needs of the draws: the log-probability and the entropy."""

    def __init__(self, attend: Attend):
        super().__init__()
        self.attend = attend

    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        with record(self.attend, differentiable=True) as maps:
            context = self.attend(query, memory)
        [[draw]] = maps.draws.values() or [[None]]
        if draw is None:  # there was no key to draw
            return torch.cat([context, context.new_zeros(*context.shape[:-1], 2)], -1)
        return torch.cat([context, draw.log_probability[..., None], draw.entropy[..., None]], -1)
