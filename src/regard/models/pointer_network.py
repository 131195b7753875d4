"""The pointer network: Vinyals, Fortunato, Jaitly 2015 (1506.03134)."""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Additive
from regard.models.aligns import ALIGNS, AlignName
from regard.models.sizes import Share, Size
from regard.nn.cells import Stack
from regard.nn.decoders.initial_states import SummaryStart
from regard.nn.decoders.pointer_network import PositionDecoder
from regard.nn.dropout import Dropout
from regard.nn.encoder_decoder import decoded
from regard.nn.recurrent import Reader, SequenceReader
from regard.shapes import Float, Lengths, Tokens

Elements = Float[Tensor, "batch element element_width"]
POINTING = "softmax", "sparsemax", "entmax"
"""Alignments whose weights can be the answer."""


@dataclass(frozen=True)
class PointerNetworkConfig:
    """Sizes. The paper has one layer and width 256 or 512. `bidirectional` reads the elements both ways, which the
    paper does not. Of the alignments (see `regard.attention.align`) it accepts `softmax`, `sparsemax` and `entmax`:
    their weights are a distribution, which learns also where it is wrong."""

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
                f"align is {self.align!r}; the weights are the answer, so they must sum to 1 and leave no place "
                "without a gradient from the start: choose softmax, sparsemax or entmax"
            )


class ElementEncoder(nn.Module):
    """Real vectors through a recurrent reader: its states are the keys, the vectors as they enter it the values."""

    def __init__(self, projection: nn.Linear, reader: Reader, dropout: float):
        super().__init__()
        self.projection, self.reader = projection, reader
        self.dropout = Dropout(dropout)

    def forward(self, elements: Elements, lengths: Lengths) -> Memory:
        projected = self.projection(elements)
        states, final = self.reader(projected, lengths)
        of_states = Memory.of(self.dropout(states), lengths, final)
        return Memory(of_states.key, projected, of_states.mask, final)


class PointerNetwork(nn.Module):
    """Reads vectors and answers with places among them."""

    def __init__(self, element_width: int, config: PointerNetworkConfig):
        super().__init__()
        width = config.width
        reader = SequenceReader("lstm", width, width, bidirectional=config.bidirectional)
        self.encoder = ElementEncoder(nn.Linear(element_width, width), reader, config.dropout)
        stack = Stack("lstm", width, width)
        start = SummaryStart(reader.output_width, math.prod(stack.state_shape))
        score = Additive(width, reader.output_width, config.attention)
        attend = Attend(score, ALIGNS[config.align](width, 1))
        widths = reader.output_width, width
        self.decoder = PositionDecoder(
            attend, stack, start, widths, max_elements=config.max_elements, dropout=config.dropout
        )
        self.max_elements = config.max_elements

    def features(
        self, elements: Elements, lengths: Lengths, target: Tokens, forcing: float = 1.0
    ) -> Float[Tensor, "batch position place"]:
        """Weights on END and the elements after each token of `target (batch, position)`, which begins with START.
        `forcing` is the probability of teacher forcing at each step."""
        return decoded(self.decoder, self.encoder(elements, lengths), target, forcing)

    def forward(
        self, elements: Elements, lengths: Lengths, target: Tokens, *, forcing: float = 1.0
    ) -> Float[Tensor, "batch position token"]:
        """Logits `(batch, position, token)` after each token of `target`."""
        return self.decoder.output(self.features(elements, lengths, target, forcing))
