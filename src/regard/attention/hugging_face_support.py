"""Which modules of the transformers library can be observed, by the source of their classes."""

import inspect
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Literal

from torch import nn

from regard.attention.hugging_face import hosts

Attends = Literal["open", "closed", "no"]
REMEDY = (
    "call model(..., output_attentions=True).attentions, and show these weights with "
    "View(regard.maps.Lookups(weights, source, target))"
)


@cache
def attends(kind: type[nn.Module]) -> Attends:
    """Whether modules of a class attend through the library's table of attention functions (`open`), by code of their
    own (`closed`), or not themselves."""
    owner = next((each for each in kind.__mro__ if "forward" in vars(each)), None)
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
    """Raise ValueError if a chosen module (by identity) of a model of transformers attends by code of its own, which no
    observer reaches, beside others that do not; or if all chosen modules belong to models without attention."""
    found = hosts(model)
    if not found:
        return
    names = {id(each): name for name, each in model.named_modules()}
    inside, possible = set[int](), False
    for host in outermost(found):
        modules = {id(each): each for each in host.modules()}
        kinds: dict[Attends, list[int]] = {"open": [], "closed": [], "no": []}
        for place, each in modules.items():
            kinds[attends(type(each))].append(place)
        closed = [each for each in kinds["closed"] if each in chosen]
        if kinds["open"] and closed:
            raise ValueError(_mixed(closed, modules, names, kinds["open"]))
        inside, possible = inside | {*modules}, possible or bool(kinds["open"])
    if not possible and {*chosen} <= inside:
        raise ValueError(_none(found))


def outermost(found: Sequence[Any]) -> list[Any]:
    """The models that are within no other of them."""
    nested = {id(each) for host in found for each in host.modules() if each is not host}
    return [host for host in found if id(host) not in nested]


def _none(found: list[Any]) -> str:
    """The message of models without a module that can be observed."""
    kinds = " and ".join(
        sorted(
            {
                f"{type(host).__name__} (model type {host.config.model_type})"
                for host in found
            }
        )
    )
    if not any(
        "Attention" in type(each).__name__ or attends(type(each)) != "no"
        for host in found
        for each in host.modules()
    ):
        return f"{kinds} has no attention, so there is nothing to record"
    return (
        f"the attention of {kinds} cannot be recorded: it does not go through ALL_ATTENTION_FUNCTIONS of "
        f"transformers; {REMEDY}"
    )


def _mixed(
    closed: list[int],
    inside: dict[int, nn.Module],
    names: dict[int, str],
    possible: list[int],
) -> str:
    """The message of a model of which some modules can be observed."""
    kinds = ", ".join(sorted({type(inside[each]).__name__ for each in closed}))
    others = sorted({type(inside[each]).__name__ for each in possible})
    example = names[possible[0]]
    return (
        f"{names[closed[0]]!r} and {len(closed) - 1} more modules ({kinds}) attend by code of their own, not through "
        f"ALL_ATTENTION_FUNCTIONS of transformers, so their weights cannot be recorded; record those of "
        f"{', '.join(others)} alone with only=, such as {example!r}"
    )
