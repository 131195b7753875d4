"""One pass of a transformers model over an example and what the model wrote, and its lookups by role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import KEEP_ALL, RecordOptions, record
from regard.attention.transformers import attention_kind
from regard.attribution.kinds import ROLES
from regard.errors import InputError
from regard.hub.any_model.inputs import Inputs, Loaded, check_ids, side_of, single
from regard.maps.heads import GreatestWeights, Side, keep_greatest
from regard.maps.lookups import Lookups, Patches, label_sinks, select_rows
from regard.maps.reductions import Entropy, Greatest, Reduced, Reduction, Totals
from regard.tasks.options import AttributionOptions, parse_range

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
    reduce: Reduction = KEEP_ALL,
    *,
    rows: Sequence[int] | None = None,
    role: str | None = None,
) -> Pass:
    """Run a model once and collect its maps: those that can be recorded, or else those that it returns itself. `rows`
    keeps these queries only, and `role` the maps of this role.

    Raises InputError for a model without attention, and for one whose maps can neither be recorded nor are returned.
    """
    kinds = {name: attention_kind(type(item)) for name, item in model.named_modules()}
    maps_by_role = [name for name, kind in kinds.items() if kind == "open"]
    closed = [name for name, kind in kinds.items() if kind == "closed"]
    choice, reasons = (
        RecordOptions(rows=rows, reduce=reduce),
        unreachable(model, closed),
    )
    if not maps_by_role:
        roles = returned(model, inputs, closed, choice)
        return Pass(
            roles,
            {item: reason for item, reason in reasons.items() if item not in roles},
        )
    recorded = _recorded(
        model,
        inputs,
        [name for name in maps_by_role if role in (None, role_of(model, name))],
        choice,
    )
    reasons = recorded.missing | {
        item: reason for item, reason in reasons.items() if item not in recorded.missing
    }
    missing = {
        item: reason for item, reason in reasons.items() if item not in recorded.roles
    }
    lacking = closed and any(role in (None, item) for item in missing)
    more = _returned(model, inputs, choice) if lacking else {}
    roles = recorded.roles | {item: more[item] for item in missing if item in more}
    missing = {item: reason for item, reason in missing.items() if item not in roles}
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
    model: Any, inputs: Mapping[str, Any], names: list[str], choice: RecordOptions
) -> Pass:
    """The maps of these modules. A module whose maps are not of the example's positions is missing."""
    if not names:
        return Pass()
    with record(model, names, rows=choice.rows, reduce=choice.reduce) as maps:
        model(**inputs)
    by_role: dict[str, dict[str, Reduced]] = {}
    missing: dict[str, str] = {}
    for name, item in maps.items():
        role, kind = (
            role_of(model, name),
            type(model.get_submodule(name.partition(":")[0])).__name__,
        )
        queries, keys = item.shape[-2:]
        if len(item) > 1:
            missing[role] = (
                f"{kind} attends within {len(item)} windows, whose maps are none of the whole"
            )
        elif choice.keeps_all and role != "cross" and queries != keys:
            missing[role] = (
                f"{kind} reads {keys} keys that are not its {queries} positions"
            )
        else:
            places = (
                maps.key_indices(name)[0]
                if isinstance(choice.reduce, Greatest)
                else None
            )
            by_role.setdefault(role, {})[name] = Reduced(item[0], places)
    return Pass({role: stacked(item) for role, item in by_role.items()}, missing)


def returned(
    model: Any, inputs: Mapping[str, Any], closed: list[str], choice: RecordOptions
) -> dict[str, RoleMaps]:
    """The maps that a model returns itself, by role. Raises InputError for one that returns none of queries by keys."""
    name, kind = type(model).__name__, model.config.model_type
    if not closed and not any(
        "Attention" in type(item).__name__ for item in model.modules()
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
    model: Any, inputs: Mapping[str, Any], choice: RecordOptions
) -> dict[str, RoleMaps]:
    """The weights of queries by keys that a model returns, by role, in a pass by its plain implementation."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
        maps_by_role = model(**inputs, output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    roles = {}
    for key, role in RETURNED.items():
        layers = [
            item
            for item in maps_by_role.get(key) or ()
            if item is not None and item.ndim == 4 and item.shape[0] == 1
        ]
        square = role == "cross" or all(
            item.shape[-1] == item.shape[-2] for item in layers
        )
        if role in ("self", "encoder") and "attention_window" in model.config.to_dict():
            continue  # Longformer's and LED's have a column for each place of a window, perhaps as many as queries
        if layers and square and len({item.shape for item in layers}) == 1:
            rows = slice(None) if choice.rows is None else list(choice.rows)
            reduced = [choice.reduce.of(item[0, :, rows]) for item in layers]
            roles[role] = stacked(
                {f"layer.{number}": item for number, item in enumerate(reduced)}
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


def stacked(maps: Mapping[str, Reduced]) -> RoleMaps:
    """The maps of modules as layers. Of maps of several shapes, those of the most common one."""
    shapes = [item.values.shape for item in maps.values()]
    most = max(shapes, key=shapes.count)
    some = [item for item in maps.values() if item.values.shape == most]
    places = [item.places for item in some if item.places is not None]
    layers = tuple(f"layer {number}" for number in range(len(some)))
    return RoleMaps(
        torch.stack([item.values for item in some]).float(),
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


GENERATED = "written tokens"
"""The name of the lookups of what a model wrote."""


def lookups_of(
    name: str, maps: RoleMaps, source: Side, target: Side, patches: Patches | None
) -> Lookups:
    """The maps of a role with their labels. A sink among the keys has its share in its label, and a further map has the
    weights of the other keys, as shares. Totals over queries become their mean, one row."""
    weights = maps.weights.cpu().numpy()
    if weights.shape[2] == 1 < len(target.pieces):
        target = Side.of([f"all {len(target.pieces):,} positions (mean)"])
        weights = weights / weights.sum(-1, keepdims=True)
    own = {
        "source_words": source.words,
        "target_words": target.words,
        "patches": patches,
    }
    return label_sinks(
        Lookups(weights, source.pieces, target.pieces, name, maps.layers, **own)
    )


def rows_of(lookups: Lookups, first: int, target: Side) -> Lookups:
    """The rows from number `first` on that wrote the tokens of `target`: each that of the token before it."""
    rows = slice(first, first + len(target.pieces))
    return replace(
        select_rows(lookups, rows, target.pieces, target.words), name=GENERATED
    )


NAMES: dict[str, str] = {"self": "self-attention", **ROLES}
"""The name of the lookups of each role, the default first."""
WHOLE = 1024
"""The most positions of which every weight is kept; of more, the mean over queries."""
KEPT = 50_000_000
"""The most weights of all layers and heads that are kept, which take about 800 MB until they are in a page."""
WRITTEN = 20
"""The most tokens that a model writes after a text."""
PAGE = 12_000_000
"""The most weights of all roles on a page; beyond them the chosen role is alone."""


@dataclass(frozen=True)
class ExamplePass:
    """A pass over the inputs of an example and the tokens `written` after it, or those of a target; of an
    encoder-decoder they are its output."""

    loaded: Loaded
    inputs: Inputs
    written: tuple[int, ...]

    @classmethod
    def of(
        cls, loaded: Loaded, inputs: Inputs, options: AttributionOptions
    ) -> "ExamplePass":
        """With what the model writes, or the target of the options. Raises InputError for a target of a model that
        writes nothing."""
        model = loaded.model
        pairs = model.config.is_encoder_decoder
        if options.target is not None or options.target_tokens is not None:
            return cls(loaded, inputs, target_of(loaded, options))
        alone = inputs.model is not model  # one tower
        if alone or not model.can_generate() or len(inputs.text or ()) > WHOLE:
            if pairs:
                raise InputError(
                    f"{type(model).__name__} writes nothing by itself; give the output by --target"
                )
            return cls(loaded, inputs, ())
        limit = {
            "max_new_tokens": WRITTEN,
            "do_sample": False,
            "num_beams": options.beam or 1,
        }
        padding = model.generation_config.pad_token_id or 0
        sequence = model.generate(**inputs.tensors, **limit, pad_token_id=padding)[
            0
        ].tolist()
        return cls(
            loaded,
            inputs,
            tuple(sequence if pairs else sequence[len(inputs.text or ()) :]),
        )

    @property
    def text(self) -> tuple[int, ...]:
        """The tokens of the example; none of an image or a sound."""
        return self.inputs.text or ()

    @property
    def pairs(self) -> bool:
        """Whether the model is an encoder-decoder."""
        return bool(self.loaded.model.config.is_encoder_decoder)

    def read(
        self, rows: str | None = None, role: str | None = None
    ) -> tuple[Pass, dict[str, Lookups]]:
        """The maps and the lookups of every role, the default first. Of a long text only the rows of what was written
        after it are kept, or the mean over all queries. `rows` `A:B` keeps these queries of a role only. Raises
        InputError for rows that there are not, or too many."""
        if rows is not None:
            return self._rows(rows, role or ("cross" if self.pairs else "self"))
        source, written, maps = (
            len(self.text),
            len(self.written),
            maps_of(self.loaded.model),
        )
        if max(source, written) <= WHOLE and maps * (source + written) ** 2 <= KEPT:
            maps_by_role = attended(self.inputs.model, self.tensors())
            return maps_by_role, self._lookups(maps_by_role)
        if written and not self.pairs and maps * written * (source + written) <= PAGE:
            maps_by_role = attended(
                self.inputs.model,
                self.tensors(),
                rows=range(source - 1, source + written - 1),
            )
            tokenizer, own = self.loaded.tokenizer, maps_by_role.roles["self"]
            keys = side_of(
                tokenizer, (*self.text, *self.written)[: own.weights.shape[-1]]
            )
            return maps_by_role, {
                "generated": lookups_of(
                    GENERATED, own, keys, side_of(tokenizer, self.written), None
                )
            }
        maps_by_role = replace(
            attended(self.inputs.model, self.tensors(), reduce=Totals()), reduced=True
        )
        return maps_by_role, self._lookups(maps_by_role)

    @torch.no_grad()
    def entropies(self, role: str) -> Sequence[np.ndarray]:
        """The mean entropy of each head over all queries, in bits, a layer at a time."""
        maps_by_role = attended(
            self.inputs.model, self.tensors(), reduce=Entropy(), role=role
        )
        return [*maps_by_role.roles[role].weights[..., 0].nanmean(-1).cpu().numpy()]

    def tensors(self) -> dict[str, Tensor]:
        """The inputs of the pass. Raises InputError for more tokens than the model has positions."""
        device = self.loaded.model.device
        if self.pairs:
            return self.inputs.tensors | {
                "decoder_input_ids": single(self.written[:-1] or self.written, device)
            }
        if not self.text or not self.written:
            return self.inputs.tensors
        check_ids(self.loaded.model, (*self.text, *self.written))
        return {"input_ids": single((*self.text, *self.written), device)}

    def greatest(
        self, count: int, role: str | None, rows: str | None
    ) -> GreatestWeights:
        """The greatest weights of each query of a role, or of some `rows`. Raises InputError for a count
        below 1, a role without maps, and rows that there are not."""
        role, name = (
            role or ("cross" if self.pairs else "self"),
            type(self.inputs.model).__name__,
        )
        reduction, chosen = (
            keep_greatest(count),
            slice(None) if rows is None else self._span(rows, role),
        )
        some = None if rows is None else range(chosen.start, chosen.stop)
        # of an image or a sound all weights are kept: their number is that of its positions
        kept = KEEP_ALL if self.inputs.text is None else reduction
        maps_by_role = attended(
            self.inputs.model, self.tensors(), kept, rows=some, role=role
        )
        if role not in maps_by_role.roles or (
            role == "cross" and len(self.written) < 2
        ):
            reason = maps_by_role.missing.get(
                role, "none of its parts has that role, or nothing was written"
            )
            raise InputError(f"{name} has no maps of the role {role}: {reason}")
        own, keys = (
            maps_by_role.roles[role],
            len(self.text) + len(self.written) * (role == "self"),
        )
        source, target, _ = self._sides(
            role, keys if self.text else own.weights.shape[-1]
        )
        values, places = (
            reduction.of(own.weights)
            if own.places is None
            else (own.weights, own.places)
        )
        assert places is not None
        pieces = target.pieces[chosen]
        if len(pieces) != values.shape[-2] or places.max() >= len(source.pieces):
            raise InputError(
                f"{name} reads keys that are not the tokens of its text, so a table cannot name them"
            )
        own = values.cpu().numpy(), places.cpu().numpy()
        return GreatestWeights(*own, source.pieces, pieces, chosen.start or 0)

    def _span(self, rows: str, role: str) -> slice:
        """Some rows of a role. Raises InputError for none, and for an image or a sound."""
        output = role in ("cross", "decoder")
        if not output and self.inputs.text is None:
            raise InputError(
                "rows are tokens of a text; leave --rows out for an image or a sound"
            )
        keys = len(self.text) + len(self.written)
        return parse_range(
            "rows",
            rows,
            len(self.written) - 1 if output else len(self.text) if self.pairs else keys,
        )

    def _rows(self, rows: str, role: str) -> tuple[Pass, dict[str, Lookups]]:
        """Some rows of a role."""
        chosen, keys = self._span(rows, role), len(self.text) + len(self.written)
        count, most = (
            chosen.stop - chosen.start,
            max(1, KEPT // (keys * maps_of(self.loaded.model))),
        )
        if count > most:
            raise InputError(
                f"{count:,} rows of {keys:,} keys are too many weights; choose at most {most:,} rows"
            )
        maps_by_role = attended(
            self.inputs.model,
            self.tensors(),
            rows=range(chosen.start, chosen.stop),
            role=role,
        )
        return maps_by_role, self._lookups(maps_by_role, chosen)

    def _sides(self, role: str, keys: int) -> tuple[Side, Side, Patches | None]:
        """The labels of what a role reads, `keys` positions if it is no text, and of its queries; and the image of
        which the keys are patches."""
        tokenizer, text, written = self.loaded.tokenizer, self.text, self.written
        if role == "decoder":
            side = side_of(tokenizer, written[:-1] or written)
            return side, side, None
        whole = (
            replace(self.inputs, text=(*text, *written))
            if role == "self" and text
            else self.inputs
        )
        source, patches = whole.side(tokenizer, keys)
        return (
            source,
            side_of(tokenizer, written[1:]) if role == "cross" else source,
            patches,
        )

    def _lookups(
        self, maps_by_role: Pass, rows: slice | None = None
    ) -> dict[str, Lookups]:
        """The lookups of every role that has maps, the default first; of some `rows` only."""
        every: dict[str, Lookups] = {}
        for role, name in NAMES.items():
            if role not in maps_by_role.roles or (
                role == "cross" and len(self.written) < 2
            ):
                continue
            maps = maps_by_role.roles[role]
            source, target, patches = self._sides(role, maps.weights.shape[-1])
            target = target if rows is None else Side.of(target.pieces[rows])
            every[role] = lookups_of(name, maps, source, target, patches)
        if (
            "self" in every
            and self.text
            and self.written
            and not (maps_by_role.reduced or rows)
        ):
            first = len(self.text) - 1
            generated = rows_of(
                every["self"], first, side_of(self.loaded.tokenizer, self.written)
            )
            every = {"generated": generated, **every}
        return every


def target_of(loaded: Loaded, options: AttributionOptions) -> tuple[int, ...]:
    """The tokens of the target. Raises InputError for a model that writes nothing."""
    model, tokenizer = loaded.model, loaded.tokenizer
    pairs = model.config.is_encoder_decoder
    if not (pairs or model.can_generate()) or tokenizer is None:
        raise InputError(
            f"{type(model).__name__} writes nothing, so it has no target; leave --target out"
        )
    forced = options.target_tokens
    if forced is None:
        forced = tokenizer(text_target=options.target, add_special_tokens=pairs)[
            "input_ids"
        ]
    ids = list(forced)
    check_ids(model, ids)
    start = getattr(model.config, "decoder_start_token_id", None)
    return (
        (start, *ids)
        if pairs and start is not None and ids[:1] != [start]
        else tuple(ids)
    )
