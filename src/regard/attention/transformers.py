"""Recording of models of the transformers library; their computation stays their own.

While an observer is active, tables of attention functions hand out each function with
an observer in front, and the library's caches and searches report which rows and
queries they drop. No result changes.
"""

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from copy import copy
from functools import cache, wraps
from threading import Lock
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from regard.attention.observer import (
    LookupEvent,
    Projected,
    active_observers,
    find_observer,
    report_event,
    select_from,
)
from regard.attention.scores import (
    expand_groups,
    group_size,
    index_broadcast,
    index_rows,
    multiply_groups,
)

FUSED = "sdpa"
"""The implementation whose weights are computed apart, since it returns none."""


class Call(NamedTuple):
    """A call of a module.

    number: Its number within the pass.
    first_key: Position of the first key.
    cached: Whether the keys come from a cache.
    """

    number: int = 0
    first_key: int = 0
    cached: bool = False


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
        self.caches: set[int] = set()

    def enter(self) -> None:
        """Begin a model's call."""
        if self.depth == 0:
            self.calls.clear()
        self.depth += 1

    def leave(self) -> None:
        """End a model's call."""
        self.depth = max(0, self.depth - 1)
        if self.depth == 0:
            self.calls.clear()

    def update_cache(self, kv_cache: Any, keys: Tensor, total: int) -> None:
        """Note that a cache of `total` positions returned these last keys of it."""
        first = max(0, total - keys.shape[-2])
        self.first_keys[keys], self.last = first, (keys.shape[-2], first)
        self.caches.add(id(kv_cache))

    def count_call(self, module: nn.Module, key: Tensor) -> Call:
        """Count a call of a module. Outside of a pass every call is the first."""
        number = self.calls[id(module)] if self.depth else 0
        self.calls[id(module)] += 1
        first, last = self.first_keys.get(key), self.last
        if first is None and last is not None and last[0] == key.shape[-2]:
            first = last[1]  # the keys were transformed after the cache returned them
        if first is None:
            return Call(number)
        self.last = None
        return Call(number, first, cached=True)


_passes: ContextVar[Passes | None] = ContextVar("regard_passes", default=None)


def current_passes() -> Passes:
    """Return the passes of this thread or task; without an open block new ones."""
    return _passes.get() or Passes()


@contextmanager
def count_passes(models: Sequence[nn.Module]) -> Iterator[None]:
    """Count the calls of these models as passes; nested blocks count the same ones."""

    def enter(module: nn.Module, inputs: Any) -> None:
        current_passes().enter()

    def leave(module: nn.Module, inputs: Any, outputs: Any) -> None:
        current_passes().leave()

    token = _passes.set(current_passes())
    with ExitStack() as stack:
        stack.callback(_passes.reset, token)
        for model in models:
            before = model.register_forward_pre_hook(enter)
            after = model.register_forward_hook(leave, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
        yield


def compute_weights(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    heads: Sequence[int] | None,
    rows: Sequence[int] | None,
    options: dict[str, Any],
) -> Tensor:
    """Return softmax(scale q . k + bias) of some heads and queries (None: all).

    The mask is True or 0 where a key may be read. Only the chosen rows of a causal mask
    are built.
    """
    queries, keys = query.shape[2], key.shape[2]
    if heads is not None:
        key = expand_groups(key, heads, group_size(query, key))
    scores = multiply_groups(index_rows(query, heads, rows), key.mT)
    scores = scores * get_scale(query, options)
    if options.get("position_bias") is not None:
        scores = scores + index_broadcast(options["position_bias"], heads, rows)
    causal = options.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    if mask is None and queries > 1 and causal:
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


def get_scale(query: Tensor, options: dict[str, Any]) -> float:
    """Return the factor that multiplies the scores."""
    scaling = options.get("scaling")
    return query.shape[-1] ** -0.5 if scaling is None else float(scaling)


def wrap_attention(get_interface: Callable[..., Any]) -> Callable[..., Any]:
    """Let attention functions report each lookup of an observed module."""

    def get(
        self: Any, implementation: str, default: Callable[..., Any]
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
            call = current_passes().count_call(module, key)
            result = function(module, query, key, value, attention_mask, **options)
            if find_observer(module) is None:
                return result
            context, weights = result
            if weights is None and implementation != FUSED:
                raise ValueError(
                    f"the attention implementation {implementation!r} of "
                    f"{type(module).__name__} returns no weights; call "
                    "model.set_attn_implementation('sdpa') before recording"
                )

            def select(heads: Sequence[int] | None, rows: Sequence[int] | None):
                return compute_weights(
                    module, query, key, attention_mask, heads, rows, options
                )

            event = LookupEvent(
                query.shape[2],
                select if weights is None else select_from(weights),
                projected=Projected(query, key, value, get_scale(query, options)),
                width=query.shape[0] * query.shape[1] * key.shape[2],
                call=call.number,
                first_key=call.first_key,
                cached=call.cached,
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
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *args: Any,
        **options: Any,
    ) -> Any:
        result = update(self, key_states, value_states, layer_idx, *args, **options)
        if active_observers():
            total = int(self.get_seq_length(layer_idx))
            current_passes().update_cache(self, result[0], total)
        return result

    return wrapper


def wrap_reorder(reorder_cache: Callable[..., Any]) -> Callable[..., Any]:
    """Report how a decode reorders its rows."""

    @wraps(reorder_cache)
    def wrapper(self: Any, beam_idx: Tensor) -> Any:
        result = reorder_cache(self, beam_idx)
        if id(self) in current_passes().caches:
            for observer in active_observers():
                observer.reorder_rows(beam_idx)
        return result

    return wrapper


def wrap_crop(crop: Callable[..., Any]) -> Callable[..., Any]:
    """Report how many of the last positions are rejected."""

    @wraps(crop)
    def wrapper(self: Any, *args: Any, **options: Any) -> Any:
        if id(self) not in current_passes().caches:
            return crop(self, *args, **options)
        before = int(self.get_seq_length())
        result = crop(self, *args, **options)
        rejected = before - int(self.get_seq_length())
        if rejected > 0:
            for observer in active_observers():
                observer.reject_queries(rejected)
        return result

    return wrapper


def wrap_beam_search(beam_search: Callable[..., Any]) -> Callable[..., Any]:
    """Report which row each returned sequence had in each pass."""

    @wraps(beam_search)
    def wrapper(
        self: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **options: Any,
    ) -> Any:
        observers = active_observers()
        given = input_ids, logits_processor, stopping_criteria
        if not observers:
            return beam_search(self, *given, generation_config, **options)
        config = copy(generation_config)
        config.return_dict_in_generate = True
        for observer in observers:
            observer.start_search()
        result = beam_search(self, *given, config, **options)
        for observer in observers:
            observer.end_search(result.beam_indices)
        return result if generation_config.return_dict_in_generate else result.sequences

    return wrapper


_lock, _active = Lock(), ExitStack()
_blocks: list[object] = []
"""The blocks of all threads in which the library is patched."""


@contextmanager
def patch_models(model: nn.Module) -> Iterator[None]:
    """Let every model of transformers within `model` report its lookups.

    Its results are those of its own implementation, bit for bit.
    """
    models = find_pretrained(model)
    if not models:
        yield
        return
    block = object()
    with _lock:
        if not _blocks:
            _patch_library()
        _blocks.append(block)
    try:
        with count_passes(models):
            yield
    finally:
        with _lock:
            _blocks.remove(block)
            if not _blocks:
                _active.close()


def find_pretrained(model: nn.Module) -> list[Any]:
    """Return the models of transformers within `model`, nested ones included."""
    library = sys.modules.get("transformers")
    if library is None:  # a model of it exists only if it was imported
        return []
    kind = library.PreTrainedModel
    return [module for module in model.modules() if isinstance(module, kind)]


def _patch_library() -> None:
    from transformers.cache_utils import Cache
    from transformers.generation.utils import GenerationMixin
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as table

    # the class, not the one table: some models have a table of their own
    _patch(type(table), "get_interface", wrap_attention)
    _patch(Cache, "update", wrap_update)
    _patch(Cache, "reorder_cache", wrap_reorder)
    _patch(Cache, "crop", wrap_crop)
    _patch(GenerationMixin, "_beam_search", wrap_beam_search)


def _patch(owner: Any, name: str, wrap: Callable[..., Any]) -> None:
    """Replace a method until `_active` is closed."""
    method, inherited = getattr(owner, name), name not in vars(owner)
    setattr(owner, name, wrap(method))
    if inherited:
        _active.callback(delattr, owner, name)
    else:
        _active.callback(setattr, owner, name, method)


AttentionKind = Literal["open", "closed", "no"]
REMEDY = (
    "call model(..., output_attentions=True).attentions, and show these weights with "
    "View(regard.maps.Lookups(weights, source, target))"
)


@cache
def attention_kind(kind: type[nn.Module]) -> AttentionKind:
    """Return whether modules of a class attend, by the source of their `forward`.

    `open`: through the library's table of attention functions. `closed`: by code of
    their own. `no`: not themselves.
    """
    owner = next((base for base in kind.__mro__ if "forward" in vars(base)), None)
    if owner is None or owner.__module__.startswith("torch."):
        return "closed" if issubclass(kind, nn.MultiheadAttention) else "no"
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # defined without a file
        return "no"
    if "ALL_ATTENTION_FUNCTIONS.get_interface(" in source:
        return "open"
    softmax = "softmax(" in source or "Softmax(" in source
    return "closed" if "Attention" in kind.__name__ and softmax else "no"


def refuse_closed(model: nn.Module, chosen: Collection[int]) -> None:
    """Raise ValueError for modules of transformers that no observer reaches.

    That is if a chosen module (by identity) attends by code of its own beside others
    that do not, or if all chosen modules belong to models without attention.
    """
    models = find_pretrained(model)
    if not models:
        return
    names = {id(module): name for name, module in model.named_modules()}
    inside, recordable = set[int](), False
    for pretrained in find_outermost(models):
        kinds: dict[AttentionKind, list[nn.Module]] = {
            "open": [],
            "closed": [],
            "no": [],
        }
        for module in pretrained.modules():
            kinds[attention_kind(type(module))].append(module)
            inside.add(id(module))
        closed = [module for module in kinds["closed"] if id(module) in chosen]
        recordable = recordable or bool(kinds["open"])
        if kinds["open"] and closed:
            types = sorted({type(module).__name__ for module in closed})
            supported = sorted({type(module).__name__ for module in kinds["open"]})
            raise ValueError(
                f"{names[id(closed[0])]!r} and {len(closed) - 1} more modules "
                f"({', '.join(types)}) attend by code of their own, not through "
                "ALL_ATTENTION_FUNCTIONS of transformers, so their weights cannot be "
                f"recorded; record those of {', '.join(supported)} alone with only=, "
                f"such as {names[id(kinds['open'][0])]!r}"
            )
    if not recordable and {*chosen} <= inside:
        raise ValueError(explain_unrecordable(models))


def find_outermost(models: Sequence[Any]) -> list[Any]:
    """Return the models that are within no other of them."""
    nested = set()
    for model in models:
        nested |= {id(module) for module in model.modules() if module is not model}
    return [model for model in models if id(model) not in nested]


def explain_unrecordable(models: Sequence[Any]) -> str:
    """Return the message of models without a module that can be recorded."""
    types = {
        f"{type(model).__name__} (model type {model.config.model_type})"
        for model in models
    }
    names, attends = " and ".join(sorted(types)), False
    for model in models:
        for module in model.modules():
            kind = type(module)
            named = "Attention" in kind.__name__
            attends = attends or named or attention_kind(kind) != "no"
    if not attends:
        return f"{names} has no attention, so there is nothing to record"
    return (
        f"the attention of {names} cannot be recorded: it does not go through "
        f"ALL_ATTENTION_FUNCTIONS of transformers; {REMEDY}"
    )
