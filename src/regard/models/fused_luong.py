"""Luong's decoders whose searches the kernel can do as a whole."""

from regard.attention.memory import Memory
from regard.kernels.recurrent_steps import Place
from regard.models.luong import LuongDecoder, LuongState, UnfedLuongDecoder
from regard.nn.decoders.recurrent import RecurrentDecoderState
from regard.nn.fused_recurrent import DecoderSteps, FusedRecurrentDecoder


class FusedLuongDecoder(FusedRecurrentDecoder[LuongState], LuongDecoder):
    """Luong's decoder with input feeding."""

    replaces = LuongDecoder

    def write(self, steps: DecoderSteps, state: LuongState) -> int:
        attentional, fed = (
            steps.carried(state.attentional),
            steps.register(self.stack.input_width),
        )
        steps.embedded(self.embedding, Place(fed))
        steps.copy(attentional, Place(fed, self.embedding.width))
        top = steps.stack(self.stack, fed, steps.states(state.cells, self.stack.width))
        return attended(self, steps, state.memory, top, attentional)


class FusedUnfedLuongDecoder(
    FusedRecurrentDecoder[RecurrentDecoderState], UnfedLuongDecoder
):
    """Luong's decoder without input feeding."""

    replaces = UnfedLuongDecoder

    def write(self, steps: DecoderSteps, state: RecurrentDecoderState) -> int:
        embedded = steps.register(self.embedding.width)
        steps.embedded(self.embedding, Place(embedded))
        top = steps.network(self.network, embedded, state.cells)
        return attended(
            self, steps, state.memory, top, steps.register(self.combine.out_features)
        )


def attended(
    decoder: LuongDecoder | UnfedLuongDecoder,
    steps: DecoderSteps,
    memory: Memory,
    top: int,
    attentional: int,
) -> int:
    """h~ = tanh(W_c [c; h]) in the register `attentional`, where the state h in `top` reads the memory."""
    both, context = steps.register(decoder.combine.in_features), memory.value.shape[-1]
    steps.read_with(decoder.attend, memory, top, Place(both))
    steps.copy(top, Place(both, context))
    steps.mapped(decoder.combine, both, Place(attentional), "tanh")
    return attentional
