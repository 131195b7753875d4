"""Layers that a kernel of our own serves, put in the place of the plain ones.

Model files say what a layer computes; what computes it faster stands in files of its own, found here by the name of the
layer's class, so that a model's fused layers are imported with that model alone.
"""

from torch import nn

from regard.config.registry import Registry
from regard.nn.fast_linear import replaced, sharing

FORMS = Registry(
    "regard",
    {
        "Blocks": "models.fused_gpt2:FusedBlocks",
        "DecoderLayers": "nn.fused_transformer:FusedDecoderLayers",
        "EncoderLayers": "nn.fused_transformer:FusedEncoderLayers",
        "Output": "nn.fast_linear:FusedOutput",
        "SampledOutput": "nn.fast_linear:FusedSampledOutput",
    },
)
"""The fused form of each class of layers."""


def fuse(model: nn.Module) -> None:
    """Put the fused form in place of each layer of the model that has one.

    A fused layer shares the parameters, their names and the hooks of the layer that it replaces, and falls back on its
    code while gradients are computed, weights are recorded or modules hooked. A layer of a class derived by somebody
    else, whose code no kernel knows, stays.
    """

    def form_of(layer: nn.Module) -> nn.Module | None:
        form = FORMS.get(type(layer).__name__)
        return sharing(form, layer) if form is not None and form.replaces is type(layer) else None

    replaced(model, form_of)
