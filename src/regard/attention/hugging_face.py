"""The attention of models of the transformers library: their weights can be recorded while the computation stays
fused."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.observer import LookupRecord, Projected
from regard.kernels.product import part, shared_part

NAME = "regard"
"""Name of this attention in their configurations while an observer is active."""
UNFUSED = ("softcap", "s_aux")
"""Options that the fused attention does not support: a cap on scores, and a sink for each head."""
Observe = Callable[[nn.Module, LookupRecord], None]
"""Receives a lookup of a module."""


@contextmanager
def opened(model: nn.Module, observe: Observe) -> Iterator[None]:
    """Inside the block, every model of transformers within `model` reports its lookups to `observe`. Its results are
    those of PyTorch's fused attention."""
    with ExitStack() as stack:
        if hosts := _hosts(model):
            _register(observe)
        for host in hosts:
            stack.enter_context(_switched(host.config))
        yield


def refuse_closed(model: nn.Module, is_causal: Collection[int]) -> None:
    """Raise ValueError if all selected modules (by identity) belong to models of transformers with attention code of
    their own, which no observer can reach."""
    closed = [host for host in _hosts(model) if not any(_calls_the_interface(each) for each in host.modules())]
    if closed and {*is_causal} <= {id(each) for host in closed for each in host.modules()}:
        kinds = " and ".join(
            sorted({f"{type(host).__name__} (model type {host.config.model_type})" for host in closed})
        )
        raise ValueError(
            f"the attention of {kinds} cannot be recorded: it does not go through ALL_ATTENTION_FUNCTIONS of "
            "transformers; call model(..., output_attentions=True).attentions, and show these weights "
            "with View(regard.maps.Lookups(weights, source, target))"
        )


def _hosts(model: nn.Module) -> list[Any]:
    """The models of transformers within `model`, nested ones included."""
    library = sys.modules.get("transformers")  # a model of it exists only if it was imported
    return [] if library is None else [each for each in model.modules() if isinstance(each, library.PreTrainedModel)]


def _calls_the_interface(module: nn.Module) -> bool:
    """Whether the file of a module's class imports the table that `_register` extends; the classes themselves do not
    show it."""
    return "ALL_ATTENTION_FUNCTIONS" in vars(sys.modules[type(module).__module__])


@contextmanager
def _switched(config: Any) -> Iterator[None]:
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _register(observe: Observe) -> None:
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    fused = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any):
        def chosen(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
            return weights(module, query, key, attention_mask, heads, rows, options)

        projected = Projected(query, key, value, scale_of(query, options))
        observe(module, LookupRecord(query.shape[2], chosen, projected=projected))
        if any(options.get(name) is not None for name in UNFUSED):
            read = chosen(None, None) @ value.repeat_interleave(_groups(module), 1)
            return read.transpose(1, 2).contiguous(), None
        return fused(module, query, key, value, attention_mask, **options)

    ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


def weights(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    heads: Sequence[int] | None,
    rows: Sequence[int] | None,
    options: dict[str, Any],
) -> Tensor:
    """softmax(scale q . k + bias) of the chosen heads and queries, under a mask that is True or 0 where a key may be
    read. A sink takes the rest of each row's sum."""
    queries, keys = query.shape[2], key.shape[2]
    key = part(key.repeat_interleave(_groups(module), 1), heads, None)
    scores = part(query, heads, rows) @ key.mT * scale_of(query, options)
    if options.get("position_bias") is not None:
        scores = scores + shared_part(options["position_bias"], heads, rows)
    if options.get("softcap") is not None:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    is_causal = options.get("is_causal")
    if mask is None and queries > 1 and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        mask = shared_part(mask, heads, rows)
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if options.get("s_aux") is not None:  # one more key for each head, without a value
        sink = options["s_aux"].view(1, -1, 1, 1)[:, slice(None) if heads is None else list(heads)]
        scores = torch.cat([scores, sink.to(scores).expand(*scores.shape[:-1], 1)], -1)
    return scores.float().softmax(-1).nan_to_num(0.0)[..., :keys].to(query.dtype)


def scale_of(query: Tensor, options: dict[str, Any]) -> float:
    """The factor that multiplies the scores."""
    scaling = options.get("scaling")
    return query.shape[-1] ** -0.5 if scaling is None else float(scaling)


def _groups(module: nn.Module) -> int:
    """Number of query heads that share a head of keys and values."""
    return getattr(module, "num_key_value_groups", 1)
