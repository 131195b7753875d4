"""Record attention weights: `with record(model) as maps: model(...)`.

Then `maps["decoder.layers.0.cross_attention"]` is a tensor. Nothing is stored on the modules.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatchcase

from torch import Tensor, nn

from regard.attention.hugging_face import opened
from regard.attention.hugging_face_support import refuse_closed
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

    If only some weights are recorded, attention by a softmax of products stays fused: the recorded weights are computed
    apart, at most `TOGETHER` queries at a time unless the weights themselves are kept. Other attention computes all its
    weights first. The model may be or contain a model of the transformers library, which computes as
    without the block.

    Args:
        only: names of the modules to record, with `*` and `?` as wildcards, e.g. `"decoder.*.cross_attention"`.
        heads: heads to keep, of maps that have heads. Default all.
        rows: query positions to keep, counted over all steps of a decode. Default all.
        reduce: what to keep of these weights (`regard.maps.reductions`): by default `Whole()`, or the `Greatest(count)`
            of each query, whose keys are `maps.places(name)`, the `Entropy()` of each, or the `Totals()` over queries.
        differentiable: keep the weights in the graph, so that a loss can be computed from them.
        measure: a function of module, weights and values whose result is kept in place of the weights.

    Raises:
        ValueError: no module has a name that `only` matches; or there is a `measure` and a module does not report
            values; or a matched module of transformers does not use the library's common attention.
    """
    with recording(
        model, only, Choice(heads, rows, reduce, measure, differentiable)
    ) as maps:
        yield maps


def record_breakdown(
    model: nn.Module, only: str | Sequence[str], measure: Measure | None = None
) -> AbstractContextManager[Maps]:
    """Record weights together with their scores and values, for `maps.breakdown`. No fused kernel is used."""
    return recording(model, only, Choice(measure=measure, breakdown=True))


@contextmanager
def recording(
    model: nn.Module, only: str | Sequence[str], choice: Choice
) -> Iterator[Maps]:
    """Collect the weights that `choice` selects inside the block. Raises ValueError as `record` does."""
    maps = Maps(named(model, only), choice)
    with observing(maps), opened(model):
        yield maps


def named(model: nn.Module, only: str | Sequence[str]) -> dict[int, str]:
    """Names of the modules to record, by identity. Raises ValueError if no module matches or none of them can be
    recorded."""
    patterns = [only] if isinstance(only, str) else list(only)
    found = {
        id(module): name.removesuffix(".attend")
        for name, module in model.named_modules()
        if any(
            fnmatchcase(name.removesuffix(".attend"), pattern) for pattern in patterns
        )
    }
    if not found:
        raise ValueError(
            f"no module is called {only!r}; the model has {[name for name, _ in model.named_children()]}"
        )
    refuse_closed(model, found)
    return found


def report(module: nn.Module, weights: Tensor, value: Tensor | None = None) -> None:
    """Report the weights `(*batch, query, key)` of `module`, and the values `(*batch, key, value_width)` that it reads
    with them, to its observer."""
    observe(module, LookupRecord(weights.shape[-2], chosen_of(weights), value))
