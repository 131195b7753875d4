"""Show, Attend and Tell.

Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio 2015 (1502.03044).
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.record import report
from regard.attention.scores import Additive
from regard.models.attention import AlignConfig
from regard.models.bahdanau import BahdanauDecoder
from regard.models.captioner import Captioner, ImageEncoderConfig
from regard.models.sizes import Size
from regard.nn.decoders import (
    InitialStateName,
    RecurrentDecoderState,
    SummaryInitialState,
    choose_initial_state,
)
from regard.nn.layers import Dropout, Output, TokenEmbedding
from regard.nn.recurrent import Stack
from regard.shapes import Features, Float, Vectors


@dataclass(frozen=True, kw_only=True)
class ShowAttendAndTellConfig(ImageEncoderConfig, AlignConfig):
    """The sizes and options of `ShowAttendAndTell`.

    `align: softmax` is the paper's soft attention, which goes with
    `attention_losses.doubly_stochastic` (equation 14). `align: hard` is its stochastic
    attention, which goes with `attention_losses.draw_entropy` (section 4.1). For other
    alignments see `regard.attention.align`. With `start: zero` or `learned` the decoder
    sees the image only through attention.
    """

    name: Literal["show-attend-and-tell"] = "show-attend-and-tell"
    embedding: Size = 128
    width: Size = 256
    attention: Size = 256
    start: InitialStateName = "encoder"


class Gate(nn.Module):
    """beta_t = sigmoid(f(h_{t-1})), recorded as one weight `(batch, 1, 1)` per step."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, 1)

    def forward(self, states: Vectors) -> Float[Tensor, "batch 1"]:
        opened = self.linear(states).sigmoid()
        report(self, opened[:, None])
        return opened


class DeepOutput(nn.Module):
    """E y_{t-1} + L_h h_t + L_z z_t, the input of L_o (equation 7).

    The input holds the three parts in this order.
    """

    def __init__(self, embedding: int, width: int, context: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = embedding
        self.linear = nn.Linear(width + context, embedding)
        self.dropout = Dropout(dropout)

    def forward(self, parts: Tensor) -> Features:
        embedded = parts[..., : self.embedding]
        return self.dropout(embedded + self.linear(parts[..., self.embedding :]))


class GatedDecoder(BahdanauDecoder):
    """Read the image with the state before a step, multiply the context by a gate, then take the step (section 3.1.2).

        a_t = softmax(score(h_{t-1}, v)),  c_t = sum_i a_ti v_i
        z_t = beta_t c_t,  h_t = cell([E y_{t-1}; z_t], h_{t-1})

    The weights of step t belong to the word y_t that the step predicts. The paper's
    equation 7 leaves open whether the output sees the context before or after the gate;
    here, as in the cell, it is after.
    """

    source_gate = "gate"

    gate: nn.Module

    def transition(
        self,
        embedded: Tensor,
        state: RecurrentDecoderState,
    ) -> tuple[Tensor, RecurrentDecoderState]:
        before = state.cells[:, -1, : self.stack.width]
        read = self.attend.read(before[:, None], state.memory, state.alignment)
        context = self.gate(before) * read.context[:, 0]
        inputs = torch.cat([embedded, context], -1)
        after, cells = self.stack(inputs, state.cells)
        outputs = torch.cat([embedded, after, context], -1)
        return outputs, replace(state, cells=cells, alignment=read.state)


class ShowAttendAndTell(Captioner):
    """Additive attention of h_{t-1} to the cells of the image, gated, and a deep output.

    h_0 and c_0 come from the cells' mean, or from a trunk's [CLS], through one tanh
    layer each.

    (The paper has an MLP of unnamed depth.)
    """

    config_class = ShowAttendAndTellConfig

    def __init__(self, vocabulary: int, config: ShowAttendAndTellConfig):
        encoder = config.encoder()
        memory = encoder.memory_width
        stack = Stack("lstm", config.embedding + memory, config.width)
        size = prod(stack.state_shape)
        decoder = GatedDecoder(
            TokenEmbedding(vocabulary, config.embedding, config.dropout),
            Attend(
                Additive(config.width, memory, config.attention),
                config.build_align(config.width),
            ),
            stack,
            choose_initial_state(
                config.start, SummaryInitialState(encoder.summary_width, size), size
            ),
            DeepOutput(config.embedding, config.width, memory, config.dropout),
            Output(config.embedding, vocabulary),
            Gate(config.width),
        )
        super().__init__(encoder, decoder)
