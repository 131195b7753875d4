"""The weights of Transformers in the form of CTranslate2, a fast engine for CPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from regard.attention.align import Softmax
from regard.attention.heads import MultiHead
from regard.attention.scores import ScaledDot
from regard.nn.embeddings import Positions, TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.layers import FeedForward, PreNorm
from regard.nn.output import Output
from regard.nn.transformer import (
    DecoderLayer,
    EncoderLayer,
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
    decoder = model.decoder
    if (
        type(encoder) is not TransformerEncoder
        or type(decoder) is not TransformerDecoder
    ):
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

    encoder = cast(TransformerEncoder, model.encoder)
    decoder = cast(TransformerDecoder, model.decoder)
    encoder_layers = cast("list[EncoderLayer]", [*encoder.layers])
    decoder_layers = cast("list[DecoderLayer]", [*decoder.layers])
    first_layer = encoder_layers[0]
    norm_before = isinstance(first_layer.residuals[0], PreNorm)
    spec: Any = TransformerSpec.from_config(
        (len(encoder_layers), len(decoder_layers)),
        first_layer.self_attention.heads,
        pre_norm=norm_before,
        no_final_norm=not norm_before,
        activation=activation(first_layer.feedforward),
    )
    size = model.max_source or MAX_POSITIONS
    for side_spec, side, layers in (
        (spec.encoder, encoder, encoder_layers),
        (spec.decoder, decoder, decoder_layers),
    ):
        embedding = cast(TokenEmbedding, side.embedding)
        if norm_before:
            fill_norm(side_spec.layer_norm, cast(nn.LayerNorm, side.norm))
        fill_positions(side_spec, side.positions, embedding, size)
        for layer_spec, layer in zip(side_spec.layer, layers, strict=True):
            fill_layer(layer_spec, layer)
    fill_embedding(spec.encoder.embeddings[0], cast(TokenEmbedding, encoder.embedding))
    fill_embedding(spec.decoder.embeddings, decoder.embedding)
    fill_linear(spec.decoder.projection, cast(nn.Linear, decoder.output))
    spec.register_source_vocabulary([*source.vocabulary])
    spec.register_target_vocabulary([*target.vocabulary])
    set_special_tokens(spec, target)
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.validate()
    spec.save(str(folder))


def set_special_tokens(spec: Any, tokenizer: Tokenizer) -> None:
    """Name the unknown, start and end tokens."""
    ids = tokenizer.special
    names = tokenizer.pieces([ids.unknown, ids.start, ids.end])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = names


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
        layer: An `EncoderLayer`, a `DecoderLayer` or a block of GPT-2.
    """
    norms = [residual.norm for residual in layer.residuals]
    query, key, value, output = projections(layer.self_attention)
    maps = [concatenate(query, key, value), output]
    fill_attention(spec.self_attention, maps, norms[0])
    if isinstance(layer, DecoderLayer):
        query, key, value, output = projections(layer.cross_attention)
        maps = [query, concatenate(key, value), output]
        fill_attention(spec.attention, maps, norms[1])
    feedforward: Any = layer.feedforward
    fill_linear(spec.ffn.linear_0, feedforward[0])
    fill_linear(spec.ffn.linear_1, feedforward[2])
    fill_norm(spec.ffn.layer_norm, norms[-1])


def fill_attention(spec: Any, maps: Sequence[Affine], norm: nn.LayerNorm) -> None:
    """Fill in the maps of an attention and its norm."""
    for map_spec, (weight, bias) in zip(spec.linear, maps, strict=True):
        fill(map_spec, weight, bias)
    fill_norm(spec.layer_norm, norm)


def projections(attention: MultiHead) -> tuple[Affine, Affine, Affine, Affine]:
    """Return the projections of queries, keys, values and the output.

    Keys and values that heads share are repeated for each head.
    """
    groups = attention.key_value_heads
    group_size = attention.heads // groups

    def repeat_groups(rows: Tensor) -> Tensor:
        heads = rearrange(rows, "(g d) ... -> g d ...", g=groups)
        repeated = repeat(heads, "g d ... -> g r d ...", r=group_size)
        return rearrange(repeated, "g r d ... -> (g r d) ...")

    query = attention.query
    key = attention.key
    value = attention.value
    output = attention.output
    return (
        (query.weight, query.bias),
        (repeat_groups(key.weight), repeat_groups(key.bias)),
        (repeat_groups(value.weight), repeat_groups(value.bias)),
        (output.weight, output.bias),
    )


def concatenate(*maps: Affine) -> Affine:
    """Return one map whose output concatenates the outputs of several maps."""
    weights = [weight for weight, _ in maps]
    biases = [bias for _, bias in maps]
    return torch.cat(weights), torch.cat(biases)


def fill_linear(spec: Any, linear: nn.Linear) -> None:
    """Fill in a linear map."""
    fill(spec, linear.weight, linear.bias)


def fill(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    """Fill in a weight and, unless it is None, a bias."""
    spec.weight = weight.detach().numpy()
    if bias is not None:
        spec.bias = bias.detach().numpy()


def fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    """Fill in a norm."""
    spec.gamma = norm.weight.detach().numpy()
    spec.beta = norm.bias.detach().numpy()


def fill_embedding(spec: Any, embedding: TokenEmbedding) -> None:
    """Fill in the table of an embedding."""
    spec.weight = embedding.table.weight.detach().numpy()


@torch.no_grad()
def fill_positions(
    spec: Any,
    positions: Positions,
    embedding: TokenEmbedding,
    size: int,
) -> None:
    """Fill in the encodings of `size` positions and the factor of the embeddings."""
    spec.scale_embeddings = embedding.scale
    encodings = positions(torch.zeros(1, size, embedding.width))[0]
    spec.position_encodings.encodings = encodings.numpy()
