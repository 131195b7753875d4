"""A Transformer's layers that use the fused kernel where nothing observes their inside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor

from regard.attention.memory import Memory
from regard.kernels.fused_layer import FusedLayers
from regard.nn.decoders.transformer import DecoderLayer, DecoderLayers, TransformerState
from regard.nn.encoders.transformer import EncoderLayer, EncoderLayers
from regard.nn.fused import Parts, continue_layers, fused_layers, readable, unobserved
from regard.shapes import Lengths, Rows, States


class FusedEncoderLayers(EncoderLayers):
    """Encoder layers by the fused kernel."""

    replaces = EncoderLayers

    def forward(self, states: States, lengths: Lengths) -> States:
        kernel = self._kernel() if unobserved(states) else None
        return super().forward(states, lengths) if kernel is None else kernel.whole(states, lengths)

    def _kernel(self) -> FusedLayers | None:
        layers = cast("Sequence[EncoderLayer]", self)
        known = all(type(each) is EncoderLayer for each in layers)
        return fused_layers(
            [Parts(one.self_attention, None, one.feedforward, [*one.residuals]) for one in layers if known]
        )


@dataclass(frozen=True, eq=False)
class FusedState(TransformerState):
    """A Transformer's state with the kernel of its layers, if one serves. Each text reads the source row `rows
    (batch,)`, so that sources are not copied for every hypothesis."""

    kernel: FusedLayers | None = None
    rows: Tensor | None = None

    def select(self, rows: Rows) -> "FusedState":
        if self.kernel is None:
            return super().select(rows)
        pasts = tuple(past.select(rows) for past in self.pasts)
        return replace(self, pasts=pasts, rows=rows if self.rows is None else self.rows.index_select(0, rows))

    def unfolded(self) -> "FusedState":
        """The state with each text's sources in the text's own row."""
        if self.rows is None:
            return self
        return replace(self, sources=tuple(each.select(self.rows) for each in self.sources), rows=None)


class FusedDecoderLayers(DecoderLayers):
    """Decoder layers by the fused kernel."""

    replaces = DecoderLayers

    def start(self, memory: Memory) -> FusedState:
        plain = super().start(memory)
        kernel = self._kernel() if all(map(readable, plain.sources)) else None
        return FusedState(plain.pasts, plain.sources, plain.alignments, kernel)

    def forward(self, states: States, state: TransformerState) -> tuple[States, TransformerState]:
        state = cast(FusedState, state)
        if state.kernel is None or not unobserved(states):
            return super().forward(states, state.unfolded())
        states, pasts = continue_layers(state.kernel, states, state.pasts, state.sources, state.rows)
        return states, replace(state, pasts=pasts)

    def _kernel(self) -> FusedLayers | None:
        layers = cast("Sequence[DecoderLayer]", self)
        known = all(type(each) is DecoderLayer for each in layers)
        return fused_layers(
            [
                Parts(one.self_attention, one.cross_attention, one.feedforward, [*one.residuals])
                for one in layers
                if known
            ]
        )
