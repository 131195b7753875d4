"""Replace plain layers by fused ones.

Model files define what a layer computes. Fused layers are in files of their own, found here by the name of the plain
layer's class, so that they are imported only with the models that use them.
"""

from torch import nn

from regard.config.registry import Registry
from regard.nn.fast_linear import replaced, sharing

FORMS = Registry(
    "regard",
    {
        "BahdanauDecoder": "models.fused_bahdanau:FusedBahdanauDecoder",
        "Blocks": "models.fused_gpt2:FusedBlocks",
        "DecoderLayers": "nn.fused_transformer:FusedDecoderLayers",
        "EncoderLayers": "nn.fused_transformer:FusedEncoderLayers",
        "LuongDecoder": "models.fused_luong:FusedLuongDecoder",
        "OnePassDecoder": "models.fused_one_pass:FusedOnePassDecoder",
        "Output": "nn.fast_linear:FusedOutput",
        "SampledOutput": "nn.fast_linear:FusedSampledOutput",
        "TransformerDecoder": "nn.fused_transformer:FusedTransformerDecoder",
        "UnfedLuongDecoder": "models.fused_luong:FusedUnfedLuongDecoder",
    },
)
"""The fused class for each class of layers and decoders."""


def fuse(model: nn.Module) -> None:
    """Replace each layer that has a fused form.

    A fused layer shares the parameters, names and hooks of the layer that it replaces. It runs the plain code while
    gradients are computed, weights are recorded, or modules have hooks. A subclass of a plain layer is not replaced.
    """

    def form_of(layer: nn.Module) -> nn.Module | None:
        form = FORMS.get(type(layer).__name__)
        return (
            sharing(form, layer)
            if form is not None and form.replaces is type(layer)
            else None
        )

    replaced(model, form_of)
