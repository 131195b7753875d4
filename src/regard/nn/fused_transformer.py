"""A Transformer's layers that use the fused kernel where nothing observes their inside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.kernels.fused_layer import FusedLayers, KernelAttention
from regard.kernels.fused_search import FusedSearch, SearchPlan
from regard.kernels.transformer_steps import DecoderWeights, TransformerSteps
from regard.nn.decoders.transformer import (
    DecoderLayer,
    DecoderLayers,
    TransformerDecoder,
    TransformerState,
)
from regard.nn.embeddings import (
    Integers,
    Learned,
    NoPositions,
    SinesThenCosines,
    Sinusoidal,
    TokenEmbedding,
)
from regard.nn.encoders.transformer import EncoderLayer, EncoderLayers
from regard.nn.fast_linear import affine
from regard.nn.fused import (
    Parts,
    continue_layers,
    fused_layers,
    layer_norm,
    only_its_forward,
    readable,
    unobserved,
)
from regard.shapes import Lengths, Rows, States

LARGEST_STORE = 1 << 28
"""The most bytes of keys and values that a whole search may reserve: it reserves room for its longest texts at once."""
TOGETHER = 16
"""Texts that are encoded together: some hundred positions, so many that a product is as fast as of more."""
ADDED = Integers, Learned, NoPositions, SinesThenCosines, Sinusoidal
"""Positions that add to a state what does not depend on it."""


class FusedEncoderLayers(EncoderLayers):
    """Encoder layers by the fused kernel."""

    replaces = EncoderLayers

    def forward(self, states: States, lengths: Lengths) -> States:
        kernel = self._kernel() if unobserved(states) else None
        if kernel is None:
            return super().forward(states, lengths)
        if len(states) <= TOGETHER:
            return kernel.whole(states, lengths)
        after = torch.zeros_like(states)
        for texts in lengths.argsort(descending=True).split(
            TOGETHER
        ):  # of similar length, so with little padding
            longest = int(lengths[texts[0]])
            after[texts, :longest] = kernel.whole(
                states[texts, :longest], lengths[texts]
            )
        return after

    def _kernel(self) -> FusedLayers | None:
        layers = cast("Sequence[EncoderLayer]", self)
        known = all(type(each) is EncoderLayer for each in layers)
        return fused_layers(
            [
                Parts(one.self_attention, None, one.feedforward, [*one.residuals])
                for one in layers
                if known
            ]
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
        return replace(
            self,
            pasts=pasts,
            rows=rows if self.rows is None else self.rows.index_select(0, rows),
        )

    def unfolded(self) -> "FusedState":
        """The state with each text's sources in the text's own row."""
        if self.rows is None:
            return self
        return replace(
            self,
            sources=tuple(each.select(self.rows) for each in self.sources),
            rows=None,
        )


class FusedDecoderLayers(DecoderLayers):
    """Decoder layers by the fused kernel."""

    replaces = DecoderLayers

    def start(self, memory: Memory) -> FusedState:
        plain = super().start(memory)
        return FusedState(
            plain.pasts, plain.sources, plain.alignments, self.kernel(plain.sources)
        )

    def forward(
        self, states: States, state: TransformerState
    ) -> tuple[States, TransformerState]:
        state = cast(FusedState, state)
        if state.kernel is None or not unobserved(states):
            return super().forward(states, state.unfolded())
        states, pasts = continue_layers(
            state.kernel, states, state.pasts, state.sources, state.rows
        )
        return states, replace(state, pasts=pasts)

    def kernel(self, sources: Sequence[Memory]) -> FusedLayers | None:
        """The kernel's form of the layers; None if a part or a prepared source has none."""
        if not all(map(readable, sources)):
            return None
        layers = cast("Sequence[DecoderLayer]", self)
        known = all(type(each) is DecoderLayer for each in layers)
        return fused_layers(
            [
                Parts(
                    one.self_attention,
                    one.cross_attention,
                    one.feedforward,
                    [*one.residuals],
                )
                for one in layers
                if known
            ]
        )


class FusedTransformerDecoder(TransformerDecoder):
    """A decoder whose searches the kernel can do as a whole."""

    replaces = TransformerDecoder

    def search(self, memory: Memory, plan: SearchPlan) -> FusedSearch | None:
        """A search by the kernel; None where only steps serve: something observes the inside, a part has no kernel, or
        texts may become too long to reserve their room."""
        layers = self.layers
        if (
            not isinstance(layers, FusedDecoderLayers)
            or not unobserved(memory.value)
            or not len(plan.limits)
        ):
            return None
        longest, width = plan.longest, self.embedding.width
        if 8 * len(layers) * plan.texts * longest * width > LARGEST_STORE:
            return None
        prepared = layers.sources(memory)
        kernel = layers.kernel(prepared)
        weights = None if kernel is None else self._weights(kernel)
        if weights is None:
            return None
        encodings = self.positions(memory.value.new_zeros(1, longest, width))[0]
        sources, lengths = (
            [KernelAttention(each.key, each.value) for each in prepared],
            prepared[0].lengths,
        )
        lengths = None if lengths is None else lengths.flatten().contiguous()
        return FusedSearch(
            TransformerSteps(weights, encodings.contiguous(), sources, lengths), plan
        )

    def _weights(self, kernel: FusedLayers) -> DecoderWeights | None:
        embedding, norm, output = self.embedding, self.norm, affine(self.output)
        parts = (
            self,
            self.layers,
            embedding,
            embedding.table,
            embedding.dropout,
            self.positions,
            norm,
            self.output,
        )
        known = type(embedding) is TokenEmbedding and isinstance(self.positions, ADDED)
        known &= type(norm) in (nn.LayerNorm, nn.Identity) and all(
            map(only_its_forward, (*parts, self.dropout))
        )
        table = embedding.table.weight
        served = table.is_contiguous() and table.dtype == torch.float32
        if output is None or not known or not served:
            return None
        return DecoderWeights(kernel, table, embedding.scale, layer_norm(norm), output)
