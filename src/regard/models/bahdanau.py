"""RNNsearch: Bahdanau, Cho, Bengio 2015 (1409.0473), appendix A."""

from dataclasses import dataclass
from typing import Literal

from regard.attention import Attend
from regard.attention.scores import Additive
from regard.models.aligns import HISTORIES, AlignChoice, HistoryName, chosen_align
from regard.models.sizes import Share, Sides, Size
from regard.nn.cells import CELLS, Stack
from regard.nn.decoders.bahdanau import BahdanauDecoder, MaxoutReadout
from regard.nn.decoders.initial_states import BackwardStart, StartName, choose_start
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders.recurrent import RecurrentEncoder
from regard.nn.output import Output
from regard.nn.recurrent import CellReader, SequenceReader


@dataclass(frozen=True)
class BahdanauConfig(Sides):
    """Sizes. The paper has embedding 620, width 1000, attention 1000, maxout 500.

    `cell: gru` is PyTorch's, which is faster and not the paper's (see `layers.cells`). `align` too may be another than
    the paper's softmax (see `regard.attention.align`); `window` is that of the local ones.
    `history` lets the score see earlier weights (see `regard.attention.history`).
    """

    name: Literal["bahdanau"] = "bahdanau"
    embedding: Size = 256
    width: Size = 256
    attention: Size = 256
    maxout: Size = 256
    cell: Literal["gru-reset-before", "gru"] = "gru-reset-before"
    align: AlignChoice = "softmax"
    window: Size = 10
    history: HistoryName | None = None
    start: StartName = "encoder"
    dropout: Share = 0.0


class Bahdanau(EncoderDecoder):
    """Bidirectional GRU encoder; additive attention from s_{t-1}; s_0 from the backward state of the first word; maxout
    readout."""

    def __init__(self, source_vocabulary: int, target_vocabulary: int, config: BahdanauConfig):
        source = TokenEmbedding(source_vocabulary, config.embedding, dropout=config.dropout)
        target = TokenEmbedding(target_vocabulary, config.embedding, dropout=config.dropout)
        reader = (
            SequenceReader("gru", config.embedding, config.width)
            if config.cell == "gru"
            else CellReader(*(CELLS[config.cell](config.embedding, config.width) for _ in range(2)))
        )
        encoder = RecurrentEncoder(source, reader)
        memory_width = encoder.memory_width
        stack = Stack(config.cell, config.embedding + memory_width, config.width)
        decoder = BahdanauDecoder(
            target,
            Attend(
                Additive(config.width, memory_width, config.attention),
                chosen_align(config.align, config.width, config.window),
                HISTORIES[config.history](config.attention),
            ),
            stack,
            choose_start(config.start, BackwardStart(memory_width, config.width), config.width),
            MaxoutReadout(config.width + config.embedding + memory_width, config.maxout, config.dropout),
            Output(config.maxout, target_vocabulary),
        )
        super().__init__(encoder, decoder)
