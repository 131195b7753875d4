"""The pointer network: Vinyals, Fortunato, Jaitly 2015 (1506.03134)."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.masks import Dense
from regard.attention.memory import Memory
from regard.attention.scores import Additive
from regard.models.attention import ALIGNS, AlignName
from regard.models.sizes import Share, Size
from regard.nn.decoders import (
    Decoder,
    EncoderDecoder,
    RecurrentDecoderState,
    SummaryInitialState,
    first_cells,
)
from regard.nn.layers import Dropout, OutputLayer
from regard.nn.output import logarithm
from regard.nn.recurrent import SequenceReader, Stack
from regard.shapes import (
    Float,
    Lengths,
    Scalar,
    Step,
    TokenLosses,
    Tokens,
    to_float32,
)
from regard.text.kinds import IGNORED, SPECIAL

END = SPECIAL.end
"""The token that ends an answer; the tokens behind it are places."""
Elements = Float[Tensor, "batch element element_width"]
POINTING = "softmax", "sparsemax", "entmax"
"""Alignments whose weights can be the output distribution."""


@dataclass(frozen=True)
class PointerNetworkConfig:
    """The sizes and options of a pointer network.

    The paper has one layer of width 256 or 512. `bidirectional` reads the elements in
    both directions, unlike the paper. `align` can be `softmax`, `sparsemax` or `entmax`
    (see `regard.attention.align`): their weights are a distribution with a gradient
    where the answer is wrong.
    """

    name: Literal["pointer-network"] = "pointer-network"
    width: Size = 128
    attention: Size = 128
    bidirectional: bool = True
    align: AlignName = "softmax"
    max_elements: Size = 100
    dropout: Share = 0.0

    def __post_init__(self) -> None:
        if self.align not in POINTING:
            raise ValueError(
                f"align is {self.align!r}; its weights are the output distribution, so they must sum to 1 and give "
                "every place a gradient at first: choose softmax, sparsemax or entmax"
            )


class ElementEncoder(nn.Module):
    """A recurrent reader over real vectors.

    Its states are the keys; the projected vectors are the values.
    """

    def __init__(self, element_width: int, config: PointerNetworkConfig):
        super().__init__()
        width = config.width
        reader = SequenceReader(
            "lstm", width, width, bidirectional=config.bidirectional
        )
        self.projection = nn.Linear(element_width, width)
        self.reader = reader
        self.dropout = Dropout(config.dropout)

    def forward(self, elements: Elements, lengths: Lengths) -> Memory:
        projected = self.projection(elements)
        states, final = self.reader(projected, lengths)
        of_states = Memory.of(self.dropout(states), lengths, final)
        return Memory(of_states.key, projected, of_states.mask, final)


class PositionOutput(nn.Module, OutputLayer):
    """Logits of tokens from weights over places `(*batch, place)`.

    The first place is the end; place i is the token `END` + i.

    Equal elements are not merged (Vinyals 2015, 1506.03134). There are at most `places`
    places.
    """

    def __init__(self, places: int):
        super().__init__()
        self.out_features = END + places

    def forward(
        self,
        input: Float[Tensor, "*batch place"],
    ) -> Float[Tensor, "*batch token"]:
        """Return the logarithm of the weights.

        Minus infinity for tokens before `END` and for places with weight 0.
        """
        logits = logarithm(to_float32(input)).masked_fill(input == 0, -torch.inf)
        return functional.pad(
            logits, (END, self.out_features - END - input.shape[-1]), value=-torch.inf
        )

    def loss(
        self,
        features: Float[Tensor, "batch position place"],
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """-log of the weight on each target, without targets that are `IGNORED`.

        The sum, and the loss of each position without a gradient.

        Raises:
            ValueError: There is smoothing, which would reward weight on padding.
        """
        if smoothing:
            raise ValueError(
                f"smoothing is {smoothing}; places cannot be smoothed, set it to 0"
            )
        real = targets != IGNORED
        places = (targets - END).clamp(min=0)[..., None]
        losses = -logarithm(
            to_float32(features.gather(-1, places)[..., 0])
        ).masked_fill(~real, 0.0)
        return losses.sum(), losses.detach()


class PositionDecoder(Decoder[RecurrentDecoderState]):
    """d_t = stack(last element pointed to, d_{t-1}).

    U_ti = score(d_t, e_i); p(place i) = align(u_t)_i (equation 3).

    The memory's keys are the encoder's states, its values the elements as the decoder
    reads them. The end is one more place, the first, with a learned key. The weights of
    step t are the prediction of step t.
    """

    def __init__(self, encoder: ElementEncoder, config: PointerNetworkConfig):
        super().__init__()
        width = config.width
        stack = Stack("lstm", width, width)
        size = math.prod(stack.state_shape)
        start = SummaryInitialState(encoder.reader.output_width, size)
        keys = encoder.reader.output_width
        score = Additive(width, keys, config.attention)
        self.attend = Attend(score, ALIGNS[config.align](width, 1))
        self.stack = stack
        self.initial = start
        self.end = nn.Parameter(torch.randn(keys) * keys**-0.5)
        self.first = nn.Parameter(torch.randn(width) * width**-0.5)
        self.output = PositionOutput(1 + config.max_elements)
        self.dropout = Dropout(config.dropout)

    def start(self, memory: Memory) -> RecurrentDecoderState:
        batch = len(memory.key)
        key = torch.cat([self.end.expand(batch, 1, -1), memory.key], 1)
        value = functional.pad(memory.value, (0, 0, 1, 0))
        mask = memory.mask
        if mask is not None:
            mask = Dense(functional.pad(mask.dense(), (1, 0), value=True))
        cells = first_cells(self.initial, memory, self.stack.state_shape)
        places = Memory(key, value, mask, zero_masked=False)
        return RecurrentDecoderState(cells, self.attend.prepare(places))

    def advance(
        self,
        tokens: Step,
        state: RecurrentDecoderState,
    ) -> tuple[Float[Tensor, "batch place"], RecurrentDecoderState]:
        places = (tokens - END).clamp(min=0)
        rows = torch.arange(len(tokens), device=tokens.device)
        pointed = state.memory.value[rows, places]
        is_start = (tokens == self.special.start)[:, None]
        inputs = torch.where(is_start, self.first.to(pointed), pointed)
        top, cells = self.stack(inputs, state.cells)
        read = self.attend.read(
            self.dropout(top)[:, None], state.memory, state.alignment, weights=True
        )
        assert read.weights is not None
        return read.weights[:, 0], replace(state, cells=cells, alignment=read.state)


class PointerNetwork(EncoderDecoder):
    """Read vectors and output places among them.

    Its features are the weights `(batch, position, place)` over END and the elements.
    """

    def __init__(self, element_width: int, config: PointerNetworkConfig):
        encoder = ElementEncoder(element_width, config)
        super().__init__(encoder, PositionDecoder(encoder, config))
        self.max_elements = config.max_elements
