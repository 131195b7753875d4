"""The maps of one pass of a transformers model, by the role of the attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.hugging_face_support import attends
from regard.attention.record import record
from regard.attention.recorded import ALL
from regard.errors import InputError
from regard.maps.reductions import Reduction

CROSS = ("encoder_attn", "encdecattention", "crossattention", "cross_attn", "cross_attention")
"""Parts of the names of modules by which a decoder reads its encoder."""
RETURNED = {
    "attentions": "self",
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
}
"""The roles of the weights that models return themselves."""


@dataclass(frozen=True)
class RoleMaps:
    """The maps of a role: weights `(layer, head, query, key)`, and a name for each layer."""

    weights: Tensor
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Pass:
    """The maps of one pass by role (self, encoder, decoder, cross), and why a role has none; `reduced` if they are the
    sums over all queries."""

    roles: dict[str, RoleMaps] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    reduced: bool = False


@torch.no_grad()
def attended(
    model: nn.Module,
    inputs: Mapping[str, Any],
    reduce: Reduction = ALL,
    *,
    rows: Sequence[int] | None = None,
    role: str | None = None,
) -> Pass:
    """Run a model once and collect its maps: those that can be recorded, or else those that it returns itself. `rows`
    keeps these queries only, and `role` the maps of this role.

    Raises InputError for a model without attention, and for one whose maps can neither be recorded nor are returned.
    """
    kinds = {name: attends(type(each)) for name, each in model.named_modules()}
    found = [name for name, kind in kinds.items() if kind == "open"]
    closed = [name for name, kind in kinds.items() if kind == "closed"]
    if not found:
        return returned(model, inputs, closed, rows)
    names = [name for name in found if role is None or role_of(model, name) == role]
    by_role: dict[str, dict[str, Tensor]] = {}
    if names:
        with record(model, names, rows=rows, reduce=reduce) as maps:
            model(**inputs)
        for name, each in maps.items():
            by_role.setdefault(role_of(model, name), {})[name] = each[0]
    roles = {role: stacked(each) for role, each in by_role.items()}
    missing = {}
    for name in closed:
        kind = type(model.get_submodule(name)).__name__
        missing.setdefault(role_of(model, name), f"{kind} attends by code of its own, which no observer reaches")
    if not roles and role is None:
        raise InputError(f"no attention of {type(model).__name__} ran on this input, so there is nothing to show")
    return Pass(roles, {role: reason for role, reason in missing.items() if role not in roles})


def returned(model: Any, inputs: Mapping[str, Any], closed: list[str], rows: Sequence[int] | None = None) -> Pass:
    """The maps that a model returns itself, of all queries or some `rows`. Raises InputError for one that returns none
    of queries by keys."""
    name, kind = type(model).__name__, model.config.model_type
    if not closed and not any("Attention" in type(each).__name__ for each in model.modules()):
        raise InputError(f"{name} (model type {kind}) has no attention, so there is nothing to show")
    try:
        model.set_attn_implementation("eager")
        found = model(**inputs, output_attentions=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"the attention of {name} (model type {kind}) cannot be recorded ({error})") from error
    roles = {}
    for key, role in RETURNED.items():
        layers = [each for each in found.get(key) or () if each is not None and each.ndim == 4 and each.shape[0] == 1]
        if layers and len({each.shape for each in layers}) == 1:
            chosen = slice(None) if rows is None else list(rows)
            layered = {f"layer.{number}": each[0, :, chosen] for number, each in enumerate(layers)}
            roles[role] = stacked(layered)
    if not roles:
        raise InputError(
            f"the attention of {name} (model type {kind}) cannot be shown: its code is its own, and it returns no "
            "weights of queries by keys"
        )
    return Pass(roles)


def role_of(model: Any, name: str) -> str:
    """The role of a module by its name."""
    lower = name.lower()
    if any(part in lower for part in CROSS):
        return "cross"
    if not model.config.is_encoder_decoder:
        return "self"
    return "decoder" if "decoder" in lower.split(".") else "encoder"


def stacked(maps: Mapping[str, Tensor]) -> RoleMaps:
    """The maps of modules as layers. Of maps of several shapes, those of the most common one."""
    shapes = [each.shape for each in maps.values()]
    most = max(shapes, key=shapes.count)
    some = {name: each for name, each in maps.items() if each.shape == most}
    return RoleMaps(torch.stack([*some.values()]).float(), tuple(f"layer {number}" for number in range(len(some))))


def maps_of(model: Any) -> int:
    """The number of heads of all layers of one kind."""
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", 1)
    return heads_of(model) * (layers if isinstance(layers, int) else 1)


def heads_of(model: Any) -> int:
    """The number of heads of a layer; 1 where the configuration names none."""
    heads = getattr(model.config.get_text_config(), "num_attention_heads", 1)
    return heads if isinstance(heads, int) else 1
