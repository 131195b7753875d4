"""GPT-2's blocks by the fused kernel, where nothing observes their inside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor

from regard.kernels.fused_layer import FusedLayers
from regard.models.gpt2 import Block
from regard.nn.fused import Parts, continue_layers, fused_layers, unobserved
from regard.nn.kv_cache import Blocks, CausalState
from regard.shapes import States


@dataclass(frozen=True, eq=False)
class FusedGPT2State(CausalState):
    """GPT-2's state with the kernel of its blocks, if one serves."""

    kernel: FusedLayers | None = None


class FusedBlocks(Blocks):
    """Blocks by the fused kernel."""

    replaces = Blocks

    def start(self, like: Tensor) -> FusedGPT2State:
        blocks = cast("Sequence[Block]", self)
        known = all(type(each) is Block for each in blocks)
        parts = [
            Parts(one.self_attention, None, one.feedforward, [*one.residuals])
            for one in blocks
            if known
        ]
        return FusedGPT2State(super().start(like).pasts, fused_layers(parts))

    def forward(self, states: States, state: CausalState) -> tuple[States, CausalState]:
        state = cast(FusedGPT2State, state)
        if (
            state.kernel is None
            or not unobserved(states)
            or state.pasts[0].prefix is not None
        ):
            return super().forward(states, state)
        states, pasts = continue_layers(state.kernel, states, state.pasts)
        return states, replace(state, pasts=pasts)
