"""Models of the transformers library, recorded or changed.

While an observer is active, tables of attention functions hand out each function with
an observer in front. Recording changes no result.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache, partial, wraps
from threading import Lock
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from regard.attention.observer import (
    LookupEvent,
    active_observers,
    find_changes,
    find_observer,
    report_event,
    select_from,
)
from regard.attention.scores import (
    Indices,
    Select,
    expand_groups,
    group_size,
    index_broadcast,
    index_rows,
    multiply_groups,
)

FUSED = "sdpa"
"""The implementation whose weights are computed apart, since it returns none."""


class Passes:
    """The current pass of the models of one thread or task.

    A pass is a call of the outermost model.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.calls: Counter[int] = Counter()
        self.first_keys: Any = WeakIdKeyDictionary()
        """Position of the first key of the keys that a cache returned."""
        self.last: tuple[int, int] | None = None
        """Number of keys and position of the first that a cache returned last, until a
        lookup reads them."""

    def move(self, change: int) -> None:
        """Begin a model's call, 1, or end it, -1."""
        if self.depth == 0 or self.depth + change == 0:
            self.calls.clear()
        self.depth += change

    def count_call(self, module: nn.Module, key: Tensor) -> tuple[int, int]:
        """Count a call of a module. Outside of a pass every call is the first.

        Returns:
            The number of the call within its pass, and the position of the first key.
        """
        number = self.calls[id(module)] if self.depth else 0
        self.calls[id(module)] += 1
        first = self.first_keys.get(key)
        last = self.last
        if first is None and last is not None and last[0] == key.shape[-2]:
            first = last[1]  # the keys were transformed after the cache returned them
        if first is None:
            return number, 0
        self.last = None
        return number, first


_passes: ContextVar[Passes | None] = ContextVar("regard_passes", default=None)


def current_passes() -> Passes:
    """Return the passes of this thread or task; without an open block new ones."""
    return _passes.get() or Passes()


@contextmanager
def count_passes(models: Sequence[nn.Module]) -> Iterator[None]:
    """Count the calls of these models as passes; nested blocks count the same ones."""
    token = _passes.set(current_passes())
    with ExitStack() as stack:
        stack.callback(_passes.reset, token)
        for model in models:
            before = model.register_forward_pre_hook(
                lambda *_: current_passes().move(1)
            )
            stack.callback(before.remove)
            after = model.register_forward_hook(
                lambda *_: current_passes().move(-1), always_call=True
            )
            stack.callback(after.remove)
        yield


def compute_weights(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    options: dict[str, Any],
    heads: Indices,
    rows: Indices,
) -> Tensor:
    """Return softmax(scale q . k + bias) of some heads and queries (None: all).

    The mask is True or 0 where a key may be read. Only the chosen rows of a causal mask
    are built.
    """
    queries = query.shape[2]
    keys = key.shape[2]
    if heads is not None:
        key = expand_groups(key, heads, group_size(query, key))
    scaling = options.get("scaling")
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    scores = multiply_groups(index_rows(query, heads, rows), key.mT) * scale
    if options.get("position_bias") is not None:
        scores = scores + index_broadcast(options["position_bias"], heads, rows)
    if mask is None and queries > 1 and is_causal(module, options):
        positions = torch.arange(queries, device=query.device)
        if rows is not None:
            positions = positions[list(rows)]
        allowed = torch.arange(keys, device=query.device) <= positions[:, None]
        scores = scores.masked_fill(~allowed, -torch.inf)
    if mask is not None:
        mask = index_broadcast(mask, heads, rows)[..., :keys]
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -torch.inf)
        scores = scores + mask
    return scores.float().softmax(-1).nan_to_num(0.0).to(query.dtype)


def is_causal(module: nn.Module, options: Mapping[str, Any]) -> bool:
    """Return whether queries without a mask read no later key."""
    causal = options.get("is_causal")
    return getattr(module, "is_causal", True) if causal is None else causal


def hide_keys(
    module: nn.Module,
    query: Tensor,
    shape: Sequence[int],
    mask: Tensor | None,
    options: Mapping[str, Any],
    places: Sequence[Any],
) -> Tensor | None:
    """Return the mask with the cut keys of `places` at the lowest number."""
    least = torch.finfo(query.dtype).min
    for place in places:
        hidden = place.hide(shape, query.device)
        if hidden is None:
            continue
        if mask is None:
            mask = torch.ones(shape[-2:], dtype=torch.bool, device=query.device)
            if shape[-2] > 1 and is_causal(module, options):
                mask = mask.tril()
        mask = mask[..., : shape[-1]]
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, least)
        mask = mask.masked_fill(hidden, least)
        mask = mask[(None,) * (4 - mask.ndim)]
    return mask


def forbid(mask: Tensor | None) -> Tensor | None:
    """Return a mask with minus infinity for the lowest number.

    A query without any key has no weights then.
    """
    if mask is None or mask.dtype == torch.bool:
        return mask
    return mask.masked_fill(mask <= torch.finfo(mask.dtype).min / 2, -torch.inf)


def change_result(
    context: Tensor,
    weights: Tensor | None,
    value: Tensor,
    mask: Tensor | None,
    compute: Select,
    places: Sequence[Any],
) -> tuple[Tensor, Tensor | None]:
    """Return the changed context `(batch, query, head, width)` and weights, if known.

    Args:
        context: The context under `mask`.
        weights: Its weights, if they are known.
        value: The values.
        mask: The mask with the cut keys.
        compute: Computes the weights.
        places: The changes.
    """
    allowed = torch.ones((1, 1), dtype=torch.bool, device=context.device)
    if mask is not None:
        is_boolean = mask.dtype == torch.bool
        allowed = mask if is_boolean else mask > torch.finfo(mask.dtype).min / 2
    empty = ~allowed.any(-1, keepdim=True)
    if weights is not None:
        weights = weights.masked_fill(empty, 0.0)
    if not any(place.replaces_weights for place in places):
        if mask is not None:
            context = context.masked_fill(empty.transpose(-3, -2), 0.0)
        return context, weights
    changed = compute(None, None) if weights is None else weights
    for place in places:
        changed = place.reweigh(changed, allowed)
    return multiply_groups(changed, value).transpose(1, 2).contiguous(), changed


def wrap_attention(get_interface: Callable[..., Any]) -> Callable[..., Any]:
    """Let attention functions report each lookup of an observed module."""

    def get(
        self: Any,
        implementation: str,
        default: Callable[..., Any],
    ) -> Callable[..., Any]:
        function = get_interface(self, implementation, default)

        def attention(
            module: nn.Module,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            attention_mask: Any,
            **options: Any,
        ):
            call, first_key = current_passes().count_call(module, key)
            shape = (*query.shape[:3], key.shape[2])
            first_query = None
            if is_causal(module, options) and shape[3] >= shape[2]:
                first_query = first_key + shape[3] - shape[2]
            places = find_changes(module, shape, call, first_key, first_query)
            mask = attention_mask
            if places:
                if implementation not in (FUSED, "eager"):
                    raise ValueError(
                        f"the attention implementation {implementation!r} of "
                        f"{type(module).__name__} cannot be changed; call "
                        "model.set_attn_implementation('sdpa') before"
                    )
                mask = hide_keys(module, query, shape, mask, options, places)
            context, weights = function(module, query, key, value, mask, **options)
            visible = forbid(mask) if places else mask
            compute = partial(compute_weights, module, query, key, visible, options)
            if places:
                context, weights = change_result(
                    context, weights, value, mask, compute, places
                )
            if find_observer(module) is None:
                return context, weights
            if weights is None and implementation != FUSED:
                raise ValueError(
                    f"the attention implementation {implementation!r} of "
                    f"{type(module).__name__} returns no weights; call "
                    "model.set_attn_implementation('sdpa') before recording"
                )

            event = LookupEvent(
                query.shape[2],
                compute if weights is None else select_from(weights),
                width=query.shape[0] * query.shape[1] * key.shape[2],
                call=call,
                first_key=first_key,
            )
            report_event(module, event)
            return context, weights

        return attention

    return get


def wrap_update(update: Callable[..., Any]) -> Callable[..., Any]:
    """Report where the keys begin that a cache returns: a window forgets the first."""

    @wraps(update)
    def wrapper(
        self: Any,
        key: Tensor,
        value: Tensor,
        layer_idx: int,
        *args: Any,
        **options: Any,
    ):
        result = update(
            self,
            key,
            value,
            layer_idx,
            *args,
            **options,
        )
        if active_observers():
            passes = current_passes()
            keys = result[0].shape[-2]
            first = max(0, int(self.get_seq_length(layer_idx)) - keys)
            passes.first_keys[result[0]] = first
            passes.last = (keys, first)
        return result

    return wrapper


def refuse_recording(method: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse to record a search that reorders the batch or takes tokens back."""

    @wraps(method)
    def wrapper(self: Any, *args: Any, **options: Any) -> Any:
        if active_observers():
            raise ValueError(
                "a beam search or a search with drafts cannot be recorded, because it "
                "drops rows and tokens; record a pass over the finished text instead"
            )
        return method(self, *args, **options)

    return wrapper


class SharedPatch:
    """Replaced functions of a library, in place while any block of any thread is open."""

    def __init__(self, install: Callable[[ExitStack], None]):
        self.install = install
        self.lock = Lock()
        self.stack = ExitStack()
        self.blocks = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the functions replaced."""
        with self.lock:
            if not self.blocks:
                self.install(self.stack)
            self.blocks += 1
        try:
            yield
        finally:
            with self.lock:
                self.blocks -= 1
                if not self.blocks:
                    self.stack.close()


def replace_attribute(
    stack: ExitStack, owner: Any, name: str, wrap: Callable[..., Any]
) -> None:
    """Wrap an attribute until a stack is closed."""
    original = getattr(owner, name)
    setattr(owner, name, wrap(original))
    stack.callback(setattr, owner, name, original)


def install(stack: ExitStack) -> None:
    """Replace the library's functions until a stack closes."""
    from transformers.cache_utils import Cache
    from transformers.generation.utils import GenerationMixin
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as table

    # the class, not the one table: some models have a table of their own
    replace_attribute(stack, type(table), "get_interface", wrap_attention)
    replace_attribute(stack, Cache, "update", wrap_update)
    replace_attribute(stack, Cache, "crop", refuse_recording)
    replace_attribute(stack, GenerationMixin, "_beam_search", refuse_recording)


PATCH = SharedPatch(install)


@contextmanager
def patch_models(models: Sequence[Any]) -> Iterator[None]:
    """Let models of transformers report their lookups.

    Their results are those of their own implementation, bit for bit.
    """
    with PATCH.open(), count_passes(models):
        yield


AttentionKind = Literal["open", "closed", "no"]


@cache
def attention_kind(kind: type[nn.Module]) -> AttentionKind:
    """Return whether modules of a class attend, by the source of their `forward`.

    `open`: through the library's table of attention functions. `closed`: by code of
    their own. `no`: not themselves.
    """
    owner = next(base for base in kind.__mro__ if "forward" in vars(base))
    if owner.__module__.startswith("torch."):
        return "closed" if issubclass(kind, nn.MultiheadAttention) else "no"
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # defined without a file
        return "no"
    if "ALL_ATTENTION_FUNCTIONS" in source:
        return "open"
    softmax = "softmax(" in source or "Softmax(" in source
    return "closed" if "Attention" in kind.__name__ and softmax else "no"


def refuse_closed(
    model: nn.Module, pretrained: Sequence[Any], chosen: Collection[int]
) -> None:
    """Raise ValueError for modules of transformers that no observer reaches.

    It is raised if a chosen module (by identity) attends by code of its own beside
    others that do not, or if all chosen modules belong to models without attention.
    """
    inside = {id(part): part for inner in pretrained for part in inner.modules()}
    parts = inside.values()
    supported = [part for part in parts if attention_kind(type(part)) == "open"]
    closed = [part for part in parts if attention_kind(type(part)) == "closed"]
    closed = [part for part in closed if id(part) in chosen]
    if supported and closed:
        names = {id(module): name for name, module in model.named_modules()}
        raise ValueError(
            f"{list_types(closed)} attend by code of their own, not through "
            "ALL_ATTENTION_FUNCTIONS of transformers, so their weights cannot be "
            f"recorded; record those of {list_types(supported)} alone with only=, "
            f"such as {names[id(supported[0])]!r}"
        )
    if not supported and {*chosen} <= inside.keys():
        raise ValueError(
            f"{list_types(pretrained)} has no attention that can be recorded: nothing in it "
            "goes through ALL_ATTENTION_FUNCTIONS of transformers; call model(..., "
            "output_attentions=True).attentions, and show these weights with "
            "View(regard.maps.Lookups(weights, source, target))"
        )


def list_types(modules: Sequence[nn.Module]) -> str:
    """List the classes of modules, for messages."""
    return ", ".join(sorted({type(module).__name__ for module in modules}))
