"""The attention of models of the transformers library: their lookups are observed, their computation is their own.

While an observer is active, tables of attention functions hand out each function with an observer in front, and the
library's caches and searches report which rows and queries they drop. No result changes.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

from torch import Tensor, nn

from regard.attention.hugging_face_decoding import Patch, patches
from regard.attention.hugging_face_passes import passes, watching
from regard.attention.hugging_face_weights import scale_of, weights
from regard.attention.observer import (
    LookupRecord,
    Projected,
    chosen_of,
    observe,
    observer_of,
)

FUSED = "sdpa"
"""The implementation whose weights are computed apart, since it returns none."""
_lock, _active = Lock(), ExitStack()
_open: list[object] = []
"""The blocks of all threads in which the library is patched."""


@contextmanager
def opened(model: nn.Module) -> Iterator[None]:
    """Inside the block, every model of transformers within `model` reports its lookups to the observer of its modules.
    Its results are those of its own implementation, bit for bit."""
    found = hosts(model)
    if not found:
        yield
        return
    block = object()
    with _lock:
        if not _open:
            _install()
        _open.append(block)
    try:
        with watching(found):
            yield
    finally:
        with _lock:
            _open.remove(block)
            if not _open:
                _active.close()


def hosts(model: nn.Module) -> list[Any]:
    """The models of transformers within `model`, nested ones included."""
    library = sys.modules.get(
        "transformers"
    )  # a model of it exists only if it was imported
    return (
        []
        if library is None
        else [
            each
            for each in model.modules()
            if isinstance(each, library.PreTrainedModel)
        ]
    )


def _install() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as table

    # the class, not the one table: some models have a table of their own
    for owner, name, patch in [(type(table), "get_interface", _observed), *patches()]:
        _active.enter_context(_patched(owner, name, patch))


@contextmanager
def _patched(owner: Any, name: str, patch: Patch) -> Iterator[None]:
    own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, patch(before))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def _observed(get_interface: Callable[..., Any]) -> Callable[..., Any]:
    """A `get_interface` whose functions report each lookup of an observed module."""

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
            call = passes().call_of(module, key)
            read, found = function(module, query, key, value, attention_mask, **options)
            if observer_of(module) is not None:
                record = _record(module, (query, key, value), attention_mask, options)
                if found is not None:
                    record = record._replace(weights=chosen_of(found))
                elif implementation != FUSED:
                    raise ValueError(
                        f"the attention implementation {implementation!r} of {type(module).__name__} returns no "
                        "weights; call model.set_attn_implementation('sdpa') before recording"
                    )
                observe(
                    module,
                    record._replace(
                        call=call.number, first_key=call.first_key, cached=call.cached
                    ),
                )
            return read, found

        return attention

    return get


def _record(
    module: nn.Module,
    sides: tuple[Tensor, Tensor, Tensor],
    mask: Any,
    options: dict[str, Any],
) -> LookupRecord:
    query, key, value = sides

    def chosen(heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
        return weights(module, query, key, mask, heads, rows, options)

    projected = Projected(query, key, value, scale_of(query, options))
    width = query.shape[0] * query.shape[1] * key.shape[2]
    return LookupRecord(query.shape[2], chosen, projected=projected, width=width)
