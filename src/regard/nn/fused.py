"""Transformer layers as one call of the C++ kernel, where nothing observes their inside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align import Softmax
from regard.attention.fast import FAST
from regard.attention.heads import MultiHead
from regard.attention.masks import Padding
from regard.attention.memory import Memory
from regard.attention.observer import current
from regard.attention.scores import ScaledDot
from regard.kernels.fused_layer import (
    LINEARS,
    NORMS,
    FusedLayers,
    KernelAttention,
    Normed,
    Weights,
    library,
    serves,
)
from regard.nn.fast_linear import affine
from regard.nn.kv_cache import Past
from regard.nn.sublayers import FeedForward, PostNorm, PreNorm

LONGEST = 256
"""Longest row, in positions, for the kernel: it reads key by key, and PyTorch's attention by blocks is faster
beyond."""


@dataclass(frozen=True)
class Parts:
    """The parts of a Transformer layer. Without `cross` it has no source."""

    own: MultiHead
    cross: MultiHead | None
    feedforward: nn.Module
    residuals: Sequence[nn.Module]

    @property
    def heads(self) -> list[MultiHead]:
        """The attention modules."""
        return [self.own] if self.cross is None else [self.own, self.cross]


def fused_layers(layers: Sequence[Parts]) -> FusedLayers | None:
    """The kernel's form of these layers, sharing their weights. None if a part has no kernel or has hooks."""
    if torch.compiler.is_compiling() or library() is None or not layers:
        return None
    found = [_weights(each) for each in layers]
    known = [each for each in found if each is not None]
    same = {
        (
            each.heads,
            each.key_value_heads,
            each.linears["own_query"].weight.shape,
            each.linears["wide"].weight.shape,
        )
        for each in known
    }
    return FusedLayers(known) if len(known) == len(found) and len(same) == 1 else None


def _weights(parts: Parts) -> Weights | None:
    """Weights of one layer."""
    network, residuals = parts.feedforward, parts.residuals
    modules = (
        each for part in (*parts.heads, network, *residuals) for each in part.modules()
    )
    norms, activation = [_normed(each) for each in residuals], _activation(network)
    alike = (
        len({type(each) for each in residuals}) == 1
        and len({(each.heads, each.key_value_heads) for each in parts.heads}) == 1
    )
    if (
        activation is None
        or not alike
        or not all(map(_fits, parts.heads))
        or not all(map(only_its_forward, modules))
    ):
        return None
    maps = [
        *_maps(parts.own),
        *([] if parts.cross is None else [parts.cross.query, parts.cross.output]),
    ]
    linears = [affine(each) for each in (*maps, network[0], network[2])]  # pyright: ignore[reportIndexIssue]
    if None in norms or None in linears:
        return None
    crossed = parts.cross is not None
    names = LINEARS if crossed else (*LINEARS[:4], *LINEARS[6:])
    places = NORMS if crossed else (NORMS[0], NORMS[2])
    return Weights(
        {
            name: each
            for name, each in zip(names, linears, strict=True)
            if each is not None
        },
        {
            name: each
            for name, each in zip(places, norms, strict=True)
            if each is not None
        },
        parts.own.heads,
        parts.own.key_value_heads,
        isinstance(residuals[0], PreNorm),
        activation,
    )


def unobserved(states: Tensor) -> bool:
    """Whether the kernel serves these states and no observer is active."""
    return serves(states) and states.shape[1] <= LONGEST and current() is None


def readable(memory: Memory) -> bool:
    """Whether the kernel supports the mask and layout of a prepared multi-head memory."""
    alike = (
        memory.key.stride() == memory.value.stride()
        and memory.key.shape == memory.value.shape
    )
    known = memory.mask is None or isinstance(memory.mask, Padding)
    return (
        known
        and alike
        and memory.key.stride(-1) == 1
        and memory.key.dtype == torch.float32
    )


def continue_layers(
    layers: FusedLayers,
    states: Tensor,
    pasts: Sequence[Past],
    sources: Sequence[Memory] = (),
    rows: Tensor | None = None,
) -> tuple[Tensor, tuple[Past, ...]]:
    """Run the layers on positions that follow their pasts -> states, and the pasts including them. Each layer reads its
    own source; `rows (text,)` is the source row of each text, by default its own row."""
    more, length = states.shape[1], pasts[0].length
    pasts = [past.with_room(more) for past in pasts]
    own = [KernelAttention(past.key, past.value, past.rows) for past in pasts]
    lengths = sources[0].lengths if sources else None
    read = [KernelAttention(source.key, source.value, rows) for source in sources]
    after = layers(
        states, own, length, read, None if lengths is None else lengths.flatten()
    )
    return after, tuple(past.filled_up(more) for past in pasts)


def only_its_forward(module: nn.Module) -> bool:
    """Whether a call of the module runs only its class's `forward`, in inference."""
    return not (module.training or module._forward_hooks or module._forward_pre_hooks)


def _fits(heads: MultiHead) -> bool:
    attend, width = heads.attend, heads.query.in_features
    known = (
        type(heads) is MultiHead
        and type(attend) is Attend
        and type(attend.score) is ScaledDot
    )
    groups = heads.heads // heads.key_value_heads
    one_width = (
        heads.query.out_features
        == groups * heads.key.out_features
        == heads.output.in_features
        == width
    )
    one_width &= heads.key.out_features == heads.value.out_features
    plain = (
        type(attend.align) is Softmax
        and heads.positions is None
        and attend.fast is FAST
    )
    return known and one_width and plain and heads.value is not heads.key


def _maps(heads: MultiHead) -> tuple[nn.Module, ...]:
    return heads.query, heads.key, heads.value, heads.output


def layer_norm(module: nn.Module) -> Normed | None:
    """A layer normalisation in the kernel's form; None if it is another module."""
    return (
        Normed(module.weight, module.bias, module.eps)
        if type(module) is nn.LayerNorm
        else None
    )


def _normed(residual: nn.Module) -> Normed | None:
    return (
        layer_norm(cast(nn.Module, residual.norm))
        if type(residual) in (PreNorm, PostNorm)
        else None
    )


def _activation(network: nn.Module) -> str | None:
    """The kernel's name of the activation between the two maps."""
    function = network[1] if type(network) is FeedForward else None
    if type(function) is nn.GELU:
        return {"none": "gelu", "tanh": "gelu-tanh"}[function.approximate]
    return {nn.ReLU: "relu", nn.SiLU: "swish"}.get(type(function))
