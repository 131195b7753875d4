"""Heads and layers against PyTorch's own with the same weights."""

from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layers import EncoderLayer, FeedForward
from regard.nn.transformer import DecoderLayer

LENGTHS = torch.tensor([5, 7])
HIDDEN = torch.arange(7) >= LENGTHS[:, None]
"""PyTorch's polarity: True is hidden."""
FUTURE = torch.ones(3, 3, dtype=torch.bool).triu(1)


def copy_heads(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    """Weights from PyTorch's packed projection."""
    width = ours.query.out_features
    if theirs.in_proj_weight is not None:
        weights = theirs.in_proj_weight.split(width)
    else:
        weights = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    with torch.no_grad():
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
        for layer, weight, bias in zip(
            (ours.query, ours.key, ours.value), weights, theirs.in_proj_bias.split(width), strict=True
        ):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_feedforward(theirs: nn.Module, ours: FeedForward) -> None:
    ours[0].load_state_dict(theirs.get_submodule("linear1").state_dict())
    ours[2].load_state_dict(theirs.get_submodule("linear2").state_dict())


def copy_norms(theirs: nn.Module, residuals: nn.ModuleList) -> None:
    for number, residual in enumerate(residuals, 1):
        norm = theirs.get_submodule(f"norm{number}")
        for parameter in norm.parameters():
            nn.init.normal_(parameter, 0.5)
        residual.get_submodule("norm").load_state_dict(norm.state_dict())


def copy_encoder_layer(theirs: nn.TransformerEncoderLayer, ours: EncoderLayer) -> None:
    copy_heads(theirs.self_attn, ours.self_attention)
    copy_feedforward(theirs, ours.feedforward)
    copy_norms(theirs, ours.residuals)


def copy_decoder_layer(theirs: nn.TransformerDecoderLayer, ours: DecoderLayer) -> None:
    copy_heads(theirs.self_attn, ours.self_attention)
    copy_heads(theirs.multihead_attn, ours.cross_attention)
    copy_feedforward(theirs, ours.feedforward)
    copy_norms(theirs, ours.residuals)


@pytest.mark.parametrize("memory_width", [6, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_heads(memory_width: int, masked: bool):
    theirs = nn.MultiheadAttention(6, 3, kdim=memory_width, vdim=memory_width, batch_first=True).double()
    ours = MultiHead(6, 3, memory_width=memory_width).double()
    copy_heads(theirs, ours)
    query, states = torch.randn(2, 3, 6).double(), torch.randn(2, 7, memory_width).double()
    mask = padding(LENGTHS, 7) if masked else None
    context, weights = theirs(
        query, states, states, key_padding_mask=HIDDEN if masked else None, average_attn_weights=False
    )
    torch.testing.assert_close(ours(query, Memory(states, states, mask)), context)
    with record(ours) as maps:
        ours(query, Memory(states, states, mask))
    torch.testing.assert_close(next(iter(maps.values())), weights)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("norm", ["before", "after"])
def test_the_whole_model(norm: Literal["before", "after"]):
    """nn.Transformer over embeddings times sqrt(width) and the sinusoids, with the output tied to the embedding."""
    model = Transformer(13, 13, TransformerConfig(layers=2, width=6, hidden=11, heads=2, norm=norm)).double().eval()
    first = norm == "before"
    theirs = nn.Transformer(6, 2, 2, 2, 11, 0.0, batch_first=True, norm_first=first).double().eval()
    for number in range(2):
        their = theirs.get_submodule(f"encoder.layers.{number}")
        our = model.get_submodule(f"encoder.layers.{number}")
        assert isinstance(their, nn.TransformerEncoderLayer)
        assert isinstance(our, EncoderLayer)
        copy_encoder_layer(their, our)
        their = theirs.get_submodule(f"decoder.layers.{number}")
        our = model.get_submodule(f"decoder.layers.{number}")
        assert isinstance(their, nn.TransformerDecoderLayer)
        assert isinstance(our, DecoderLayer)
        copy_decoder_layer(their, our)
    if not first:
        theirs.encoder.norm = theirs.decoder.norm = None
    source, target = torch.randint(1, 13, (2, 7)), torch.randint(1, 13, (2, 3))
    table = model.get_parameter("encoder.embedding.table.weight")

    def embed(tokens: Tensor) -> Tensor:
        position = torch.arange(tokens.shape[1]).double()[:, None]
        angle = position * 10_000.0 ** (-torch.tensor([0.0, 0, 2, 2, 4, 4]).double() / 6)
        return table[tokens] * 6**0.5 + torch.where(torch.arange(6) % 2 == 0, angle.sin(), angle.cos())

    states = theirs(
        embed(source),
        embed(target),
        tgt_mask=FUTURE,
        src_key_padding_mask=HIDDEN,
        memory_key_padding_mask=HIDDEN,
    )
    torch.testing.assert_close(model(source, LENGTHS, target), states @ table.T + model.decoder.output.bias)
