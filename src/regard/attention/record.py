"""Weights while somebody observes: `with record(model) as maps: model(...)`.

Then `maps["decoder.layers.0.cross_attention"]` is a tensor. Nothing is kept on the modules.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatchcase

from torch import Tensor, nn

from regard.attention.hugging_face import opened, refuse_closed
from regard.attention.observer import LookupRecord, chosen_of, observe, observing
from regard.attention.recorded import ALL, Choice, Maps, Measure
from regard.maps.reductions import Reduction


@contextmanager
def record(
    model: nn.Module,
    only: str | Sequence[str] = "*",
    *,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    reduce: Reduction = ALL,
    differentiable: bool = False,
    measure: Measure | None = None,
) -> Iterator[Maps]:
    """Collect the attention weights that `model` computes inside the block.

    Where less than all weights is asked for, attention by a softmax of products stays fused, and its weights are
    computed apart, of no more than `TOGETHER` queries at a time unless the weights themselves are kept. Other attention
    has its weights whole, and what is asked for is made of those. The model may be, or hold, one of the transformers
    library, whose attention stays fused always.

    Args:
        only: names of the modules to listen to, with `*` and `?` as wildcards, e.g. `"decoder.*.cross_attention"`.
        heads: heads to keep, of maps that have heads. Default all.
        rows: query positions to keep, counted over all steps of a decode. Default all.
        reduce: what to keep of these weights (`regard.maps.reductions`): by default `Whole()`, or the `Greatest(count)`
            of each query, whose keys `maps.places(name)` says, the `Entropy()` of each, or the `Totals()` over queries.
        differentiable: leave the weights in the graph, so that a loss may be made of them.
        measure: what to keep in place of the weights, made of these and the values that are read.

    Raises:
        ValueError: no module of the model has a name that `only` asks for; or there is a `measure`, and a module has no
            values to hand over; or all that is asked for is of transformers, in models that do not use the library's
            common attention.
    """
    with recording(model, only, Choice(heads, rows, reduce, measure, differentiable)) as maps:
        yield maps


def record_breakdown(
    model: nn.Module, only: str | Sequence[str], measure: Measure | None = None
) -> AbstractContextManager[Maps]:
    """As `record`, and keep what the weights are made of too, for `maps.breakdown`; no fused kernel serves then."""
    return recording(model, only, Choice(measure=measure, breakdown=True))


@contextmanager
def recording(model: nn.Module, only: str | Sequence[str], choice: Choice) -> Iterator[Maps]:
    """Collect what is chosen of the weights that `model` computes inside the block. Raises ValueError as `record`."""
    maps = Maps(named(model, only), choice)
    with observing(maps), opened(model, observe):
        yield maps


def named(model: nn.Module, only: str | Sequence[str]) -> dict[int, str]:
    """The names of the modules to listen to, by their identity. Raises ValueError where there is none,
    or none that can be heard."""
    patterns = [only] if isinstance(only, str) else list(only)
    found = {
        id(module): name.removesuffix(".attend")
        for name, module in model.named_modules()
        if any(fnmatchcase(name.removesuffix(".attend"), pattern) for pattern in patterns)
    }
    if not found:
        raise ValueError(f"no module is called {only!r}; the model has {[name for name, _ in model.named_children()]}")
    refuse_closed(model, found)
    return found


def give(module: nn.Module, weights: Tensor, value: Tensor | None = None) -> None:
    """Hand the weights `(*batch, query, key)` of `module`, and the values `(*batch, key, value_width)` that it reads
    with them, to whoever records it."""
    observe(module, LookupRecord(weights.shape[-2], chosen_of(weights), value))
