"""The pointer-generator network: See, Liu, Manning 2017 (1704.04368)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from regard.attention import Attend
from regard.attention.scores import Additive
from regard.models.aligns import HISTORIES, AlignChoice, HistoryName, chosen_align
from regard.models.sizes import Share, Sides, Size
from regard.nn.cells import Stack
from regard.nn.copying import CopyOutput
from regard.nn.decoders.initial_states import StartName, SummaryStart, choose_start
from regard.nn.decoders.pointer_generator import PointerDecoder
from regard.nn.embeddings import OpenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders.recurrent import RecurrentEncoder
from regard.nn.output import Output
from regard.nn.recurrent import SequenceReader


@dataclass(frozen=True)
class PointerConfig(Sides):
    """Sizes. The paper has embedding 128, width 256, attention 512; both sides share one vocabulary.

    `copying: false` leaves a model that is the same but writes only words of its vocabulary. The paper's coverage is
    `history: coverage` with `attention_losses: {coverage: 1.0}`. A source is at most `max_source` tokens long.
    """

    one_tokenizer: ClassVar[bool] = True

    name: Literal["pointer-generator"] = "pointer-generator"
    embedding: Size = 128
    width: Size = 256
    attention: Size = 256
    copying: bool = True
    align: AlignChoice = "softmax"
    window: Size = 10
    history: HistoryName | None = None
    start: StartName = "encoder"
    dropout: Share = 0.0
    max_source: Size = 400


class PointerGenerator(EncoderDecoder):
    """Bidirectional LSTM encoder, LSTM decoder with additive attention, and a gate between writing and copying.

    Raises:
        ValueError: the sides have vocabularies of different size.
    """

    def __init__(self, source_vocabulary: int, target_vocabulary: int, config: PointerConfig):
        if source_vocabulary != target_vocabulary:
            raise ValueError(f"the vocabularies have {source_vocabulary} and {target_vocabulary} entries; share one")
        embedding = OpenEmbedding(target_vocabulary, config.embedding, dropout=config.dropout)
        encoder = RecurrentEncoder(embedding, SequenceReader("lstm", config.embedding, config.width), config.dropout)
        memory_width = encoder.memory_width
        given = config.embedding + memory_width
        stack = Stack("lstm", given, config.width)
        size = math.prod(stack.state_shape)
        decoder = PointerDecoder(
            embedding,
            Attend(
                Additive(config.width, memory_width, config.attention, bias=True),
                chosen_align(config.align, config.width, config.window),
                HISTORIES[config.history](config.attention),
            ),
            stack,
            choose_start(config.start, SummaryStart(encoder.summary_width, size), size),
            nn.Linear(config.width + memory_width, config.width),
            CopyOutput(Output(config.width, target_vocabulary)),
            nn.Linear(config.width + memory_width + given, 1) if config.copying else None,
        )
        super().__init__(encoder, decoder)
        self.max_source = config.max_source
