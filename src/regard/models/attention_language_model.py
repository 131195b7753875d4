"""A recurrent language model with attention to its own earlier states, which may copy the words at these states."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.masks import Dense, Mask, window
from regard.attention.memory import Memory
from regard.models.attention import SCORES, ContentScoreName
from regard.models.language_model import (
    FULL,
    LanguageModel,
    SampledSoftmax,
    Softmax,
    make_output,
    output_kind,
)
from regard.models.sizes import Share, Size
from regard.nn.decoders import State
from regard.nn.layers import TokenEmbedding, VariationalDropout
from regard.nn.output import CopyFeatures, CopyOutput, logarithm
from regard.nn.recurrent import RecurrentName, RecurrentStack
from regard.shapes import States, Tokens, to_float32


@dataclass(frozen=True)
class AttentionLanguageModelConfig:
    """Sizes of the recurrent layers and of the attention.

    A token reads the states of the `window` tokens before it, or with `itself` its own
    state as well. With `copying` the model can copy the words it reads. The other
    fields are those of `recurrent`.
    """

    name: Literal["attention"] = "attention"
    cell: RecurrentName = "lstm"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 2
    score: ContentScoreName = "dot"
    window: Size = 100
    itself: bool = False
    copying: bool = False
    tied: bool = True
    dropout: Share = 0.3
    softmax: Softmax = FULL

    def __post_init__(self) -> None:
        if self.copying and isinstance(self.softmax, SampledSoftmax):
            raise ValueError(
                "copying needs the probability of every word of the vocabulary; set softmax.kind to full or adaptive, "
                "or copying to false"
            )


@dataclass(frozen=True, eq=False)
class AttentionState(State):
    """The layers' state `(batch, layer, state_width)` and their outputs so far.

    Outputs are `(batch, past, width)`, the input tokens of these outputs `(batch,
    past)`.
    """

    cells: Tensor
    past: Tensor
    words: Tensor


class AttentionLanguageModel(LanguageModel[AttentionState]):
    """c_t reads h_1 .. h_{t-1} with h_t; p(y_{t+1}) = softmax(W [c_t; h_t]).

    Without a past, c_t is zero.

    With copying the query is tanh(W_q h_t + b) and one more key, the sentinel, stands
    for the vocabulary. The sentinel's weight g_t multiplies the vocabulary's
    probabilities, and the other weights a_t copy the input tokens of their states: p(w)
    = g_t p_vocabulary(w) + sum_{i: y_i = w} a_ti (Merity 2017, 1609.07843, equations 5
    to 8). In the paper p_vocabulary has no c_t; here one lookup serves both.
    """

    config_class = AttentionLanguageModelConfig

    self_attention = "attend"

    def __init__(self, vocabulary: int, config: AttentionLanguageModelConfig):
        super().__init__()
        width = config.width
        self.window = config.window
        self.itself = config.itself
        self.embedding = TokenEmbedding(vocabulary, config.embedding)
        dropout = VariationalDropout(config.dropout)
        self.network = RecurrentStack(
            config.cell, config.embedding, width, config.layers, dropout
        )
        self.attend = Attend(SCORES[config.score](width, config.window))
        self.query = nn.Identity()
        self.sentinel = None
        if config.copying:
            self.query = nn.Sequential(nn.Linear(width, width), nn.Tanh())
            self.sentinel = nn.Parameter(torch.zeros(width))
        kind = output_kind(config.softmax)
        self.readout, written = make_output(
            2 * width, self.embedding, kind, tied=config.tied
        )
        self.output = CopyOutput(written) if config.copying else written

    def begin(self, batch: int) -> AttentionState:
        words = self.zeros(batch, 0).long()
        cells = self.zeros(batch, *self.network.state_shape)
        past = self.zeros(batch, 0, self.network.width)
        return AttentionState(cells, past, words)

    def detach_state(self, state: AttentionState) -> AttentionState:
        state = state.detach()
        recent = slice(-self.window, None)
        return replace(state, past=state.past[:, recent], words=state.words[:, recent])

    def run(self, tokens: Tokens, state: AttentionState) -> tuple[Any, AttentionState]:
        outputs, cells = self.network(self.embedding(tokens), state.cells)
        states = torch.cat([state.past, outputs], 1)
        words = torch.cat([state.words, tokens], 1)
        count, past = outputs.shape[1], states.shape[1]
        mask = window(
            count,
            past,
            before=self.window - 1,
            after=0,
            first=past - count - (0 if self.itself else 1),
            device=tokens.device,
        )
        after = AttentionState(cells, states, words)
        if self.sentinel is not None:
            return self.copy(outputs, after, mask), after
        memory = self.attend.prepare(Memory(states, states, mask, zero_masked=False))
        read = self.attend.read(outputs, memory)
        return self.readout(torch.cat([read.context, outputs], -1)), after

    def copy(self, outputs: States, state: AttentionState, mask: Mask) -> CopyFeatures:
        """Return the features with the words to copy.

        The sentinel is the first key, and its value is zero.
        """
        assert self.sentinel is not None
        batch, positions = outputs.shape[:2]
        states = state.past
        key = torch.cat([self.sentinel.expand(batch, 1, -1), states], 1)
        value = functional.pad(states, (0, 0, 1, 0))
        mask = Dense(functional.pad(mask.dense(), (1, 0), value=True))
        memory = self.attend.prepare(Memory(key, value, mask, zero_masked=False))
        read = self.attend.read(self.query(outputs), memory, weights=True)
        assert read.weights is not None
        weights = to_float32(read.weights)
        written, copying = weights.split([1, states.shape[1]], -1)
        share = copying.sum(-1)
        tiny = torch.finfo(share.dtype).tiny
        return CopyFeatures(
            self.readout(torch.cat([read.context, outputs], -1)),
            logarithm(written[..., 0]) - logarithm(share),
            copying / share.clamp(min=tiny)[..., None],
            state.words[:, None].expand(-1, positions, -1),
            outputs.new_zeros(batch, positions, 0),
        )
