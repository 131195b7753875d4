"""Bahdanau's decoder whose searches the kernel can do as a whole."""

from typing import cast

from regard.kernels.recurrent_steps import Place
from regard.models.bahdanau import BahdanauDecoder, MaxoutReadout
from regard.nn.decoders.recurrent import RecurrentDecoderState
from regard.nn.fused_recurrent import DecoderSteps, FusedRecurrentDecoder, require


class FusedBahdanauDecoder(
    FusedRecurrentDecoder[RecurrentDecoderState], BahdanauDecoder
):
    """The decoder that reads before its step."""

    replaces = BahdanauDecoder

    def write(self, steps: DecoderSteps, state: RecurrentDecoderState) -> int:
        require(type(self.readout) is MaxoutReadout)
        readout = cast(MaxoutReadout, self.readout)
        width, embedding = self.stack.width, self.embedding.width
        states = steps.states(state.cells, width)
        before = states[-1][0]
        parts, fed = (
            steps.register(readout.linear.in_features),
            steps.register(self.stack.input_width),
        )
        features = steps.register(readout.width)
        steps.copy(before, Place(parts))
        steps.embedded(self.embedding, Place(parts, width))
        steps.read_with(
            self.attend, state.memory, before, Place(parts, width + embedding)
        )
        steps.copy(parts, Place(fed), first=width, count=self.stack.input_width)
        steps.stack(self.stack, fed, states)
        steps.mapped(readout.linear, parts, Place(features), "maxout")
        return features
