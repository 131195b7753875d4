"""The maps of one pass of a transformers model, by the role of the attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.hugging_face_support import attends
from regard.attention.record import record
from regard.attention.recorded import ALL, Choice
from regard.errors import InputError
from regard.maps.reductions import Greatest, Kept, Reduction

CROSS = (
    "encoder_attn",
    "encdecattention",
    "crossattention",
    "cross_attn",
    "cross_attention",
)
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
    """The maps of a role: weights `(layer, head, query, key)`, a name for each layer, and the keys of single weights,
    below 0 where a query has fewer."""

    weights: Tensor
    layers: tuple[str, ...]
    places: Tensor | None = None


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
    choice, reasons = Choice(rows=rows, reduce=reduce), unreachable(model, closed)
    if not found:
        roles = returned(model, inputs, closed, choice)
        return Pass(
            roles,
            {each: reason for each, reason in reasons.items() if each not in roles},
        )
    recorded = _recorded(
        model,
        inputs,
        [name for name in found if role in (None, role_of(model, name))],
        choice,
    )
    reasons = recorded.missing | {
        each: reason for each, reason in reasons.items() if each not in recorded.missing
    }
    missing = {
        each: reason for each, reason in reasons.items() if each not in recorded.roles
    }
    lacking = closed and any(role in (None, each) for each in missing)
    more = _returned(model, inputs, choice) if lacking else {}
    roles = recorded.roles | {each: more[each] for each in missing if each in more}
    missing = {each: reason for each, reason in missing.items() if each not in roles}
    if not roles and role is None:
        reason = next(iter(missing.values()), "none ran on this input")
        raise InputError(
            f"the attention of {type(model).__name__} cannot be shown: {reason}"
        )
    return Pass(roles, missing)


def unreachable(model: nn.Module, closed: Sequence[str]) -> dict[str, str]:
    """Why the maps of these modules cannot be recorded, by role."""
    kinds = {
        role_of(model, name): type(model.get_submodule(name)).__name__
        for name in closed
    }
    return {
        role: f"{kind} attends by code of its own, which no observer reaches"
        for role, kind in kinds.items()
    }


def _recorded(
    model: Any, inputs: Mapping[str, Any], names: list[str], choice: Choice
) -> Pass:
    """The maps of these modules. A module whose maps are not of the example's positions is missing."""
    if not names:
        return Pass()
    with record(model, names, rows=choice.rows, reduce=choice.reduce) as maps:
        model(**inputs)
    by_role: dict[str, dict[str, Kept]] = {}
    missing: dict[str, str] = {}
    for name, each in maps.items():
        role, kind = (
            role_of(model, name),
            type(model.get_submodule(name.partition(":")[0])).__name__,
        )
        queries, keys = each.shape[-2:]
        if len(each) > 1:
            missing[role] = (
                f"{kind} attends within {len(each)} windows, whose maps are none of the whole"
            )
        elif choice.whole and role != "cross" and queries != keys:
            missing[role] = (
                f"{kind} reads {keys} keys that are not its {queries} positions"
            )
        else:
            places = (
                maps.places(name)[0] if isinstance(choice.reduce, Greatest) else None
            )
            by_role.setdefault(role, {})[name] = Kept(each[0], places)
    return Pass({role: stacked(each) for role, each in by_role.items()}, missing)


def returned(
    model: Any, inputs: Mapping[str, Any], closed: list[str], choice: Choice
) -> dict[str, RoleMaps]:
    """The maps that a model returns itself, by role. Raises InputError for one that returns none of queries by keys."""
    name, kind = type(model).__name__, model.config.model_type
    if not closed and not any(
        "Attention" in type(each).__name__ for each in model.modules()
    ):
        raise InputError(
            f"{name} (model type {kind}) has no attention, so there is nothing to show"
        )
    try:
        roles = _returned(model, inputs, choice)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the attention of {name} (model type {kind}) cannot be recorded ({error})"
        ) from error
    if not roles:
        raise InputError(
            f"the attention of {name} (model type {kind}) cannot be shown: its code is its own, and it returns no "
            "weights of queries by keys"
        )
    return roles


def _returned(
    model: Any, inputs: Mapping[str, Any], choice: Choice
) -> dict[str, RoleMaps]:
    """The weights of queries by keys that a model returns, by role, in a pass by its plain implementation."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
        found = model(**inputs, output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    roles = {}
    for key, role in RETURNED.items():
        layers = [
            each
            for each in found.get(key) or ()
            if each is not None and each.ndim == 4 and each.shape[0] == 1
        ]
        square = role == "cross" or all(
            each.shape[-1] == each.shape[-2] for each in layers
        )
        if role in ("self", "encoder") and "attention_window" in model.config.to_dict():
            continue  # Longformer's and LED's have a column for each place of a window, perhaps as many as queries
        if layers and square and len({each.shape for each in layers}) == 1:
            rows = slice(None) if choice.rows is None else list(choice.rows)
            reduced = [choice.reduce.of(each[0, :, rows]) for each in layers]
            roles[role] = stacked(
                {f"layer.{number}": each for number, each in enumerate(reduced)}
            )
    return roles


def role_of(model: Any, name: str) -> str:
    """The role of a module by its name."""
    lower = name.lower()
    if any(part in lower for part in CROSS):
        return "cross"
    if not model.config.is_encoder_decoder:
        return "self"
    return "decoder" if "decoder" in lower.split(".") else "encoder"


def stacked(maps: Mapping[str, Kept]) -> RoleMaps:
    """The maps of modules as layers. Of maps of several shapes, those of the most common one."""
    shapes = [each.values.shape for each in maps.values()]
    most = max(shapes, key=shapes.count)
    some = [each for each in maps.values() if each.values.shape == most]
    places = [each.places for each in some if each.places is not None]
    layers = tuple(f"layer {number}" for number in range(len(some)))
    return RoleMaps(
        torch.stack([each.values for each in some]).float(),
        layers,
        torch.stack(places) if places else None,
    )


def maps_of(model: Any) -> int:
    """The number of heads of all layers of one kind."""
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", 1)
    return heads_of(model) * (layers if isinstance(layers, int) else 1)


def heads_of(model: Any) -> int:
    """The number of heads of a layer; 1 where the configuration names none."""
    heads = getattr(model.config.get_text_config(), "num_attention_heads", 1)
    return heads if isinstance(heads, int) else 1
