"""Recording of models of the transformers library; their computation stays their own.

While an observer is active, tables of attention functions hand out each function with
an observer in front. No result changes.
"""

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
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
    find_observer,
    report_event,
    select_from,
)
from regard.attention.scores import (
    Indices,
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
            result = function(
                module,
                query,
                key,
                value,
                attention_mask,
                **options,
            )
            if find_observer(module) is None:
                return result
            weights = result[1]
            if weights is None and implementation != FUSED:
                raise ValueError(
                    f"the attention implementation {implementation!r} of "
                    f"{type(module).__name__} returns no weights; call "
                    "model.set_attn_implementation('sdpa') before recording"
                )

            compute = partial(
                compute_weights, module, query, key, attention_mask, options
            )
            event = LookupEvent(
                query.shape[2],
                compute if weights is None else select_from(weights),
                width=query.shape[0] * query.shape[1] * key.shape[2],
                call=call,
                first_key=first_key,
            )
            report_event(module, event)
            return result

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


_lock = Lock()
_active = ExitStack()
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
    _patch(Cache, "crop", refuse_recording)
    _patch(GenerationMixin, "_beam_search", refuse_recording)


def _patch(owner: Any, name: str, wrap: Callable[..., Any]) -> None:
    """Replace a method until `_active` is closed."""
    method = getattr(owner, name)
    setattr(owner, name, wrap(method))
    _active.callback(setattr, owner, name, method)


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
    if "ALL_ATTENTION_FUNCTIONS.get_interface(" in source:
        return "open"
    softmax = "softmax(" in source or "Softmax(" in source
    return "closed" if "Attention" in kind.__name__ and softmax else "no"


def refuse_closed(model: nn.Module, chosen: Collection[int]) -> None:
    """Raise ValueError for modules of transformers that no observer reaches.

    It is raised if a chosen module (by identity) attends by code of its own beside
    others that do not, or if all chosen modules belong to models without attention.
    """
    models = find_pretrained(model)
    names = {id(module): name for name, module in model.named_modules()}
    inside = {id(part): part for pretrained in models for part in pretrained.modules()}
    parts = inside.values()
    supported = [part for part in parts if attention_kind(type(part)) == "open"]
    closed = [part for part in parts if attention_kind(type(part)) == "closed"]
    closed = [part for part in closed if id(part) in chosen]
    if supported and closed:
        raise ValueError(
            f"{list_types(closed)} attend by code of their own, not through "
            "ALL_ATTENTION_FUNCTIONS of transformers, so their weights cannot be "
            f"recorded; record those of {list_types(supported)} alone with only=, "
            f"such as {names[id(supported[0])]!r}"
        )
    if models and not supported and {*chosen} <= inside.keys():
        raise ValueError(
            f"{list_types(models)} has no attention that can be recorded: nothing in it "
            "goes through ALL_ATTENTION_FUNCTIONS of transformers; call model(..., "
            "output_attentions=True).attentions, and show these weights with "
            "View(regard.maps.Lookups(weights, source, target))"
        )


def list_types(modules: Sequence[nn.Module]) -> str:
    """List the classes of modules, for messages."""
    return ", ".join(sorted({type(module).__name__ for module in modules}))
