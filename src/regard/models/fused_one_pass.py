"""The one-pass decoder whose searches the kernel can do as a whole."""

from regard.kernels.recurrent_steps import Place
from regard.models.one_pass import OnePassDecoder, OnePassState
from regard.nn.fused_recurrent import DecoderSteps, FusedRecurrentDecoder


class FusedOnePassDecoder(FusedRecurrentDecoder[OnePassState], OnePassDecoder):
    """The decoder with attention between two recurrent networks."""

    replaces = OnePassDecoder

    def write(self, steps: DecoderSteps, state: OnePassState) -> int:
        width, both = self.first.width, self.second.input_width
        embedded, fed = steps.register(self.embedding.width), steps.register(both)
        parts = steps.register(self.readout.in_features)
        features = steps.register(self.readout.out_features)
        steps.embedded(self.embedding, Place(embedded))
        query = steps.network(self.first, embedded, state.first)
        steps.copy(query, Place(fed))
        steps.read_with(self.attend, state.memory, query, Place(fed, width))
        output = steps.network(self.second, fed, state.second)
        steps.copy(fed, Place(parts))
        steps.copy(output, Place(parts, both))
        steps.mapped(self.readout, parts, Place(features))
        return features
