"""Fill CTranslate2's specifications with the weights of layers."""

from typing import Any, cast

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.models.gpt2 import Block
from regard.nn.decoders.transformer import DecoderLayer
from regard.nn.embeddings import Positions, TokenEmbedding
from regard.nn.encoders.transformer import EncoderLayer
from regard.nn.sublayers import FeedForward, Residual


def activation(network: FeedForward) -> Any:
    """CTranslate2's name for the activation between the two layers."""
    from ctranslate2.specs.common_spec import Activation

    between = network[1]
    if isinstance(between, nn.GELU) and between.approximate == "tanh":
        return Activation.GELUTanh
    return {
        nn.ReLU: Activation.RELU,
        nn.GELU: Activation.GELU,
        nn.SiLU: Activation.SWISH,
    }[type(between)]


def fill_layer(spec: Any, layer: EncoderLayer | DecoderLayer | Block) -> None:
    """Fill in the attentions, the feed-forward network and their norms."""
    residuals = cast("list[Residual]", [*layer.residuals])
    _self_attention(spec.self_attention, layer.self_attention)
    fill_norm(spec.self_attention.layer_norm, residuals[0].norm)
    if isinstance(layer, DecoderLayer):
        query, key, value, output = projections(layer.cross_attention)
        fill(spec.attention.linear[0], *query)
        fill(spec.attention.linear[1], *joined(key, value))
        fill(spec.attention.linear[2], *output)
        fill_norm(spec.attention.layer_norm, residuals[1].norm)
    _network(spec.ffn, layer.feedforward)
    fill_norm(spec.ffn.layer_norm, residuals[-1].norm)


def _self_attention(spec: Any, attention: MultiHead) -> None:
    *three, output = projections(attention)
    fill(spec.linear[0], *joined(*three))
    fill(spec.linear[1], *output)


Affine = tuple[Tensor, Tensor]
"""A weight and a bias."""


def projections(attention: MultiHead) -> tuple[Affine, Affine, Affine, Affine]:
    """The projections of queries, keys, values and the output. Shared keys and values are repeated for each head."""
    times = attention.heads // attention.key_value_heads

    def wide(linear: nn.Linear) -> Affine:
        return spread(linear.weight), spread(linear.bias)

    def spread(rows: Tensor) -> Tensor:
        heads = rearrange(rows, "(g d) ... -> g d ...", g=attention.key_value_heads)
        return rearrange(
            repeat(heads, "g d ... -> g r d ...", r=times), "g r d ... -> (g r d) ..."
        )

    query, output = attention.query, attention.output
    return (
        (query.weight, query.bias),
        wide(attention.key),
        wide(attention.value),
        (output.weight, output.bias),
    )


def joined(*parts: Affine) -> Affine:
    """One map whose output concatenates the outputs of several maps."""
    return torch.cat([weight for weight, _ in parts]), torch.cat(
        [bias for _, bias in parts]
    )


def _network(spec: Any, network: FeedForward) -> None:
    first, _, second = network
    fill_linear(spec.linear_0, cast(nn.Linear, first))
    fill_linear(spec.linear_1, cast(nn.Linear, second))


def fill_linear(spec: Any, linear: nn.Linear) -> None:
    """Fill in a linear map."""
    fill(spec, linear.weight, linear.bias)


def fill(spec: Any, weight: Tensor, bias: Tensor) -> None:
    """Fill in a weight and a bias."""
    spec.weight, spec.bias = weight.detach().numpy(), bias.detach().numpy()


def fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    """Fill in a norm."""
    spec.gamma, spec.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()


def fill_embedding(spec: Any, embedding: TokenEmbedding) -> None:
    """Fill in the table of an embedding."""
    spec.weight = embedding.table.weight.detach().numpy()


@torch.no_grad()
def fill_positions(
    spec: Any, positions: Positions, embedding: TokenEmbedding, most: int
) -> None:
    """Fill in the positional encodings and the factor of the embeddings."""
    spec.scale_embeddings = embedding.scale
    spec.position_encodings.encodings = positions(
        torch.zeros(1, most, embedding.width)
    )[0].numpy()
