"""Trained models whose weights are bytes: dynamic quantisation."""

from torch import nn

from regard.errors import InputError
from regard.models.language_model import LanguageModel
from regard.nn.cells import Cell
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.fast_linear import with_int8


def quantised(model: nn.Module, place: str) -> None:
    """Quantize the weights of a model's linear maps to int8, for inference on a CPU. Raises InputError, which names the
    `place` of the run, for a model that has most of its weights elsewhere or is on another device.
    """
    recurrent = any(isinstance(each, (nn.RNNBase, Cell)) for each in model.modules())
    if recurrent or not isinstance(model, (EncoderDecoder, LanguageModel)):
        raise InputError(
            f"{place}: its model is a {type(model).__name__}; int8 is for Transformers that write text, GPT-2 among "
            "them, whose weights are those of linear maps; leave it out"
        )
    device = next(model.parameters()).device
    if device.type != "cpu":
        raise InputError(f"{place}: would be on {device.type}, but int8 is for a CPU; choose one of the two")
    with_int8(model)
