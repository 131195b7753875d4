"""The pointer-generator network: See, Liu, Manning 2017 (1704.04368)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.scores import Additive
from regard.models.attention import (
    HISTORIES,
    AlignConfig,
    HistoryName,
    make_attend,
)
from regard.models.sizes import EncoderDecoderDefaults, Share, Size
from regard.nn.decoders import (
    Decoder,
    Encoder,
    EncoderDecoder,
    InitialStateName,
    State,
    SummaryInitialState,
    choose_initial_state,
    first_cells,
)
from regard.nn.encoders import MatchingEncoder
from regard.nn.layers import Dropout, OpenEmbedding, Output
from regard.nn.output import CopyFeatures, CopyOutput
from regard.nn.recurrent import RecurrentEncoder, SequenceReader, Stack
from regard.shapes import Step


@dataclass(frozen=True)
class PointerConfig(EncoderDecoderDefaults, AlignConfig):
    """The sizes and options of `PointerGenerator`.

    The paper has embedding 128, width 256, attention 512; both sides share one
    vocabulary.

    With `copying: false` the same model generates words of its vocabulary only. The paper's coverage is `history:
    coverage` with `attention_losses: {coverage: 1.0}`. A source has at most `max_source` tokens. With `matching` the
    encoder reads beside each word the other words of the source that are like it, as a question with its paragraph.
    """

    one_tokenizer: ClassVar[bool] = True

    name: Literal["pointer-generator"] = "pointer-generator"
    embedding: Size = 128
    width: Size = 256
    attention: Size = 256
    copying: bool = True
    history: HistoryName | None = None
    start: InitialStateName = "encoder"
    matching: bool = False
    dropout: Share = 0.0
    max_source: Size = 400


@dataclass(frozen=True, eq=False)
class PointerState(State):
    """`cells (batch, layer, state_width)`, the last context and the memory.

    Its tokens are `(batch, key)`; zeros for the source's own words are `(batch, own)`;
    the alignment's state is last.
    """

    cells: Tensor
    context: Tensor
    memory: Memory
    tokens: Tensor
    room: Tensor
    alignment: Any = None


class PointerDecoder(Decoder[PointerState]):
    """A recurrent decoder that attends to the source and decides whether to copy.

        u_t = [E y_{t-1}; c_{t-1}],  s_t = stack(u_t),  c_t reads the memory with s_t,
        p = sigmoid(W [c_t; s_t; u_t])

    Equations 1 to 4, 8 and 9; the decoder's input includes the last context. Without a
    `gate` it never copies. The weights of step t belong to the word y_t that the step
    predicts.
    """

    def __init__(
        self, embedding: OpenEmbedding, encoder: Encoder, config: PointerConfig
    ):
        super().__init__()
        memory_width = encoder.memory_width
        width = config.width + memory_width
        inputs = embedding.width + memory_width
        stack = Stack("lstm", inputs, config.width)
        size = math.prod(stack.state_shape)
        self.embedding = embedding
        self.attend = make_attend(
            Additive(config.width, memory_width, config.attention, bias=True),
            config.build_align(config.width),
            HISTORIES[config.history](config.attention),
        )
        self.stack = stack
        summary = SummaryInitialState(encoder.summary_width, size)
        self.initial = choose_initial_state(config.start, summary, size)
        self.readout = nn.Linear(width, config.width)
        self.output = CopyOutput(Output(config.width, embedding.vocabulary))
        self.gate = nn.Linear(width + inputs, 1) if config.copying else None
        self.dropout = Dropout(config.dropout)

    def start(self, memory: Memory) -> PointerState:
        """Return the state before the first token.

        Raises:
            ValueError: The memory has no tokens.
        """
        if memory.tokens is None:
            raise ValueError(
                "this decoder copies tokens of the source, but the memory has none; make it with tokens="
            )
        cells = first_cells(self.initial, memory, self.stack.state_shape)
        context = memory.value.new_zeros(len(cells), memory.value.shape[-1])
        size = self.output.out_features
        ids = [size, *(memory.tokens.flatten() + 1).tolist()]
        room = memory.value.new_zeros(len(cells), max(ids) - size)
        return PointerState(
            cells, context, self.attend.prepare(memory), memory.tokens, room
        )

    def advance(
        self,
        tokens: Step,
        state: PointerState,
    ) -> tuple[CopyFeatures, PointerState]:
        inputs = torch.cat([self.embedding(tokens), state.context], -1)
        top, cells = self.stack(inputs, state.cells)
        read = self.attend.read(
            top[:, None], state.memory, state.alignment, weights=True
        )
        assert read.weights is not None
        context = read.context[:, 0]
        parts = torch.cat([top, context], -1)
        if self.gate is None:
            gate = parts.new_full((len(parts),), torch.inf)
        else:
            gate = self.gate(torch.cat([parts, inputs], -1))[:, 0]
        features = CopyFeatures(
            self.dropout(self.readout(parts)),
            gate,
            read.weights[:, 0],
            state.tokens,
            state.room,
        )
        return features, replace(
            state, cells=cells, context=context, alignment=read.state
        )

    def join(self, steps: Sequence[CopyFeatures]) -> CopyFeatures:
        parts = zip(*(step.parts() for step in steps), strict=True)
        return CopyFeatures(*(torch.stack(part, 1) for part in parts))


class PointerGenerator(EncoderDecoder):
    """Bidirectional LSTM encoder, LSTM decoder with additive attention, and a gate between generating and copying.

    Raises:
        ValueError: The two vocabularies differ in size.
    """

    config_class = PointerConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: PointerConfig,
        encoder: Encoder | None = None,
    ):
        if source_vocabulary != target_vocabulary:
            raise ValueError(
                f"the vocabularies have {source_vocabulary} and {target_vocabulary} entries; share one"
            )
        embedding = OpenEmbedding(target_vocabulary, config.embedding, config.dropout)
        if encoder is None and config.matching:
            encoder = MatchingEncoder(embedding, config.width, config.dropout)
        elif encoder is None:
            reader = SequenceReader("lstm", config.embedding, config.width)
            encoder = RecurrentEncoder(embedding, reader, config.dropout)
        super().__init__(encoder, PointerDecoder(embedding, encoder, config))
        self.max_source = config.max_source
