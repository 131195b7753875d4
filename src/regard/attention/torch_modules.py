"""PyTorch's own attention, recorded or changed.

This is `nn.MultiheadAttention`, what contains it, and every module that calls
`scaled_dot_product_attention` of `torch.nn.functional`. While somebody observes such a
model, these functions have an observer in front, and PyTorch's fast path of encoder
layers, which no function reaches, is off. Recording changes no result.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.observer import (
    LookupEvent,
    Observer,
    active_observers,
    find_changes,
    observe_with,
    report_event,
    select_from,
)
from regard.attention.transformers import (
    SharedPatch,
    attention_kind,
    change_result,
    compute_weights,
    forbid,
    hide_keys,
    replace_attribute,
)


class RunningModule:
    """A running `forward` of a module, and how often it has attended."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.calls = 0


_frames: ContextVar[tuple[RunningModule, ...]] = ContextVar("regard_frames", default=())


def current_frame() -> RunningModule | None:
    """Return the innermost running module, if it attends by PyTorch's functions."""
    frame = next(reversed(_frames.get()), None)
    return None if frame is None or has_own_attention(frame.module) else frame


def has_own_attention(module: nn.Module) -> bool:
    """Return whether a module is observed elsewhere: this library's or transformers'."""
    homes = {base.__module__.partition(".")[0] for base in type(module).__mro__}
    return "regard" in homes or attention_kind(type(module)) == "open"


def wrap_product_attention(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let `scaled_dot_product_attention` report its lookups."""

    @wraps(attend)
    def wrapper(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        settings: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
        frame = current_frame()
        if not active_observers() or frame is None or query.ndim < 3:
            return attend(
                query, key, value, attn_mask, dropout_p, is_causal, **settings
            )
        module = frame.module
        leading = query.shape[:-2]
        query, key, value = map(add_head_axis, (query, key, value))
        shape = (*query.shape[:3], key.shape[2])
        places = find_changes(module, shape, frame.calls)
        options = {"scaling": scale, "is_causal": is_causal}
        mask = hide_keys(module, query, shape, attn_mask, options, places)
        causal = is_causal and mask is None
        context = attend(query, key, value, mask, dropout_p, causal, **settings)
        visible = forbid(mask) if places else mask
        compute = partial(compute_weights, module, query, key, visible, options)
        weights = None
        if places:
            context, weights = change_result(
                context.transpose(1, 2), None, value, mask, compute, places
            )
            context = context.transpose(1, 2)
        event = LookupEvent(
            shape[2],
            compute if weights is None else select_from(weights),
            width=shape[0] * shape[1] * shape[3],
            call=frame.calls,
        )
        report_event(module, event)
        frame.calls += 1
        return context.reshape(*leading, *context.shape[-2:])

    return wrapper


def add_head_axis(side: Tensor) -> Tensor:
    """Return `(batch, head, position, width)`, one head if there is no such axis."""
    return side.unsqueeze(1) if side.ndim == 3 else side.flatten(0, -4)


class Collector(Observer):
    """An observer that keeps the lookups of one module."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.events: list[LookupEvent] = []

    def observes(self, module: nn.Module) -> bool:
        return module is self.module

    def receive(self, module: nn.Module, event: LookupEvent) -> None:
        self.events.append(event)


def wrap_multi_head(attend: Callable[..., Any]) -> Callable[..., Any]:
    """Let `multi_head_attention_forward` report the weights that it computes."""

    @wraps(attend)
    def wrapper(
        *sides: Any,
        need_weights: bool = True,
        average_attn_weights: bool = True,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        frame = current_frame()
        if frame is None or not need_weights:
            return attend(
                *sides,
                need_weights=need_weights,
                average_attn_weights=average_attn_weights,
                **options,
            )
        module = frame.module
        if any(observer.changes(module) for observer in active_observers()):
            # only the function of products takes the changes
            collector = Collector(module)
            with observe_with(collector):
                context, _ = attend(*sides, need_weights=False, **options)
            event = collector.events[0]
            weights = event.weights(None, None)
            weights = weights if sides[0].ndim > 2 else weights[0]
        else:
            context, weights = attend(
                *sides, need_weights=True, average_attn_weights=False, **options
            )
            batched = weights if weights.ndim > 3 else weights[None]
            count = batched.shape[-2]
            event = LookupEvent(count, select_from(batched), call=frame.calls)
            frame.calls += 1
        report_event(module, event)
        return context, weights.mean(-3) if average_attn_weights else weights

    return wrapper


def install(stack: ExitStack) -> None:
    """Replace PyTorch's functions, and switch its fast path off, until a stack closes."""
    replace_attribute(
        stack, functional, "scaled_dot_product_attention", wrap_product_attention
    )
    replace_attribute(
        stack, functional, "multi_head_attention_forward", wrap_multi_head
    )
    stack.callback(
        torch.backends.mha.set_fastpath_enabled,
        torch.backends.mha.get_fastpath_enabled(),
    )
    torch.backends.mha.set_fastpath_enabled(False)


PATCH = SharedPatch(install)


@contextmanager
def patch_torch(model: nn.Module) -> Iterator[None]:
    """Let every module of `model` report the attention that PyTorch computes for it."""

    def enter(module: nn.Module, _: Any) -> None:
        _frames.set((*_frames.get(), RunningModule(module)))

    def leave(*_: Any) -> None:
        _frames.set(_frames.get()[:-1])

    with PATCH.open(), ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(enter).remove)
            hook = module.register_forward_hook(leave, always_call=True)
            stack.callback(hook.remove)
        yield
