"""Luong's decoders whose searches the kernel can do as a whole."""

from typing import cast

from regard.attention.memory import Memory
from regard.kernels.fused_search import FusedSearch, SearchPlan
from regard.kernels.recurrent_steps import Place
from regard.models.luong import LuongDecoder, LuongState, UnfedLuongDecoder
from regard.nn.decoders.protocol import State
from regard.nn.decoders.recurrent import RecurrentDecoderState
from regard.nn.fused_recurrent import DecoderSteps, recurrent_search


class FusedLuongDecoder(LuongDecoder):
    """Luong's decoder with input feeding."""

    replaces = LuongDecoder

    def search(self, memory: Memory, plan: SearchPlan) -> FusedSearch | None:
        """A search by the kernel; None where only steps serve."""
        return recurrent_search(self, memory, plan, self._write)

    def _write(self, steps: DecoderSteps, state: State) -> int:
        state = cast(LuongState, state)
        attentional, fed = steps.carried(state.attentional), steps.register(self.stack.input_width)
        steps.embedded(self.embedding, Place(fed))
        steps.copy(attentional, Place(fed, self.embedding.width))
        top = steps.stack(self.stack, fed, steps.states(state.cells, self.stack.width))
        return attended(self, steps, state.memory, top, attentional)


class FusedUnfedLuongDecoder(UnfedLuongDecoder):
    """Luong's decoder without input feeding."""

    replaces = UnfedLuongDecoder

    def search(self, memory: Memory, plan: SearchPlan) -> FusedSearch | None:
        """A search by the kernel; None where only steps serve."""
        return recurrent_search(self, memory, plan, self._write)

    def _write(self, steps: DecoderSteps, state: State) -> int:
        state = cast(RecurrentDecoderState, state)
        embedded = steps.register(self.embedding.width)
        steps.embedded(self.embedding, Place(embedded))
        top = steps.network(self.network, embedded, state.cells)
        return attended(self, steps, state.memory, top, steps.register(self.combine.out_features))


def attended(
    decoder: LuongDecoder | UnfedLuongDecoder, steps: DecoderSteps, memory: Memory, top: int, attentional: int
) -> int:
    """h~ = tanh(W_c [c; h]) in the register `attentional`, where the state h in `top` reads the memory."""
    both, context = steps.register(decoder.combine.in_features), memory.value.shape[-1]
    steps.read_with(decoder.attend, memory, top, Place(both))
    steps.copy(top, Place(both, context))
    steps.mapped(decoder.combine, both, Place(attentional), "tanh")
    return attentional
