"""The weights of Transformers in the form of CTranslate2, a fast engine for CPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.align import Softmax
from regard.attention.heads import MultiHead
from regard.attention.scores import ScaledDot
from regard.nn.decoders import EncoderDecoder
from regard.nn.layers import FeedForward, PreNorm
from regard.nn.output import Output
from regard.nn.transformer import (
    DecoderLayer,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.text import Tokenizer

MAX_POSITIONS = 1024
"""Number of exported positions of a model without a limit."""
Affine = tuple[Tensor, Tensor]
"""A weight and a bias."""


def supports_model(model: EncoderDecoder) -> bool:
    """Whether CTranslate2 has all layers of the model.

    It has Transformers with scaled dot products, softmax and absolute positions.
    """
    encoder = model.encoder
    decoder: Any = model.decoder
    sides = type(encoder), type(decoder)
    if sides != (TransformerEncoder, TransformerDecoder):
        return False
    attentions = [layer.self_attention for layer in encoder.layers]
    for layer in decoder.layers:
        attentions += [layer.self_attention, layer.cross_attention]
    return type(decoder.output) is Output and all(
        type(attention) is MultiHead
        and type(attention.attend.score) is ScaledDot
        and type(attention.attend.align) is Softmax
        and attention.positions is None
        for attention in attentions
    )


def save_transformer(
    model: EncoderDecoder,
    source: Tokenizer,
    target: Tokenizer,
    folder: Path,
) -> None:
    """Write a model that `supports_model` accepts, with its vocabularies."""
    from ctranslate2.specs import TransformerSpec

    encoder = model.encoder
    decoder: Any = model.decoder
    first_layer: Any = encoder.layers[0]
    norm_before = isinstance(first_layer.residuals[0], PreNorm)
    spec: Any = TransformerSpec.from_config(
        (len(encoder.layers), len(decoder.layers)),
        first_layer.self_attention.heads,
        pre_norm=norm_before,
        no_final_norm=not norm_before,
        activation=activation(first_layer.feedforward),
    )
    size = model.max_source or MAX_POSITIONS
    tables = spec.encoder.embeddings[0], spec.decoder.embeddings
    sides: Any = ((spec.encoder, encoder), (spec.decoder, decoder))
    for table, (side_spec, side) in zip(tables, sides, strict=True):
        if norm_before:
            fill_norm(side_spec.layer_norm, side.norm)
        embedding = side.embedding
        table.weight = embedding.table.weight.detach().numpy()
        side_spec.scale_embeddings = embedding.scale
        encodings = side.positions(torch.zeros(1, size, embedding.width))[0]
        side_spec.position_encodings.encodings = encodings.detach().numpy()
        for layer_spec, layer in zip(side_spec.layer, side.layers, strict=True):
            fill_layer(layer_spec, layer)
    fill(spec.decoder.projection, decoder.output)
    spec.register_source_vocabulary([*source.vocabulary])
    spec.register_target_vocabulary([*target.vocabulary])
    ids = target.special
    names = target.pieces([ids.unknown, ids.start, ids.end])
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = names
    config.decoder_start_token = config.bos_token
    config.add_source_eos = True
    spec.validate()
    spec.save(str(folder))


def activation(network: FeedForward) -> Any:
    """Return CTranslate2's name for the activation between the two layers."""
    from ctranslate2.specs.common_spec import Activation

    function = network[1]
    if isinstance(function, nn.GELU) and function.approximate == "tanh":
        return Activation.GELUTanh
    names = {
        nn.ReLU: Activation.RELU,
        nn.GELU: Activation.GELU,
        nn.SiLU: Activation.SWISH,
    }
    return names[type(function)]


def fill_layer(spec: Any, layer: Any) -> None:
    """Fill in the attentions, the feed-forward network and their norms.

    Args:
        spec: CTranslate2's layer.
        layer: An `EncoderLayer` or a `DecoderLayer`.
    """
    norms = [residual.norm for residual in layer.residuals]
    query, key, value, output = projections(layer.self_attention)
    fill_attention(spec.self_attention, [query + key + value, output], norms[0])
    if isinstance(layer, DecoderLayer):
        query, key, value, output = projections(layer.cross_attention)
        fill_attention(spec.attention, [query, key + value, output], norms[1])
    first, _, second = layer.feedforward
    fill(spec.ffn.linear_0, first)
    fill(spec.ffn.linear_1, second)
    fill_norm(spec.ffn.layer_norm, norms[-1])


def projections(attention: MultiHead) -> list[list[Any]]:
    """Return the projections of queries, keys, values and the output, each in a list.

    Keys and values that heads share are repeated for each head.
    """
    groups = attention.key_value_heads

    def repeat(part: Tensor) -> Tensor:
        heads = part.unflatten(0, (groups, -1))
        return heads.repeat_interleave(attention.heads // groups, 0).flatten(0, 1)

    parts = attention.query, attention.key, attention.value, attention.output
    query, key, value, output = ([(part.weight, part.bias)] for part in parts)
    key, value = (
        [(repeat(weight), repeat(bias)) for weight, bias in part]
        for part in (key, value)
    )
    return [query, key, value, output]


def fill_attention(spec: Any, maps: Sequence[Sequence[Affine]], norm: Any) -> None:
    """Fill in the maps of an attention, each concatenated of several, and its norm."""
    for map_spec, parts in zip(spec.linear, maps, strict=True):
        weights, biases = zip(*parts, strict=True)
        map_spec.weight = torch.cat(weights).detach().numpy()
        map_spec.bias = torch.cat(biases).detach().numpy()
    fill_norm(spec.layer_norm, norm)


def fill(spec: Any, linear: Any) -> None:
    """Fill in a linear map."""
    spec.weight = linear.weight.detach().numpy()
    spec.bias = linear.bias.detach().numpy()


def fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    """Fill in a norm."""
    spec.gamma = norm.weight.detach().numpy()
    spec.beta = norm.bias.detach().numpy()
