"""One pass of a transformers model over an example and what the model wrote, and its lookups by role."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.attention.recorded import ALL
from regard.attribution.kinds import ROLES
from regard.errors import InputError
from regard.hub.any_model.folder import Loaded
from regard.hub.any_model.inputs import Inputs, check_ids, single
from regard.hub.any_model.labels import side_of
from regard.hub.any_model.lookups import GENERATED, lookups_of, rows_of
from regard.hub.any_model.maps import Pass, attended, maps_of
from regard.maps.greatest import GreatestWeights, greatest
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, Patches
from regard.maps.reductions import Entropy, Totals
from regard.tasks.options import AttributionOptions, span

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
            found = attended(self.inputs.model, self.tensors())
            return found, self._lookups(found)
        if written and not self.pairs and maps * written * (source + written) <= PAGE:
            found = attended(
                self.inputs.model,
                self.tensors(),
                rows=range(source - 1, source + written - 1),
            )
            tokenizer, own = self.loaded.tokenizer, found.roles["self"]
            keys = side_of(
                tokenizer, (*self.text, *self.written)[: own.weights.shape[-1]]
            )
            return found, {
                "generated": lookups_of(
                    GENERATED, own, keys, side_of(tokenizer, self.written), None
                )
            }
        found = replace(
            attended(self.inputs.model, self.tensors(), reduce=Totals()), reduced=True
        )
        return found, self._lookups(found)

    @torch.no_grad()
    def entropies(self, role: str) -> Sequence[np.ndarray]:
        """The mean entropy of each head over all queries, in bits, a layer at a time."""
        found = attended(self.inputs.model, self.tensors(), reduce=Entropy(), role=role)
        return [*found.roles[role].weights[..., 0].nanmean(-1).cpu().numpy()]

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
            greatest(count),
            slice(None) if rows is None else self._span(rows, role),
        )
        some = None if rows is None else range(chosen.start, chosen.stop)
        # of an image or a sound all weights are kept: their number is that of its positions
        kept = ALL if self.inputs.text is None else reduction
        found = attended(self.inputs.model, self.tensors(), kept, rows=some, role=role)
        if role not in found.roles or (role == "cross" and len(self.written) < 2):
            reason = found.missing.get(
                role, "none of its parts has that role, or nothing was written"
            )
            raise InputError(f"{name} has no maps of the role {role}: {reason}")
        own, keys = (
            found.roles[role],
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
        return span(
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
        found = attended(
            self.inputs.model,
            self.tensors(),
            rows=range(chosen.start, chosen.stop),
            role=role,
        )
        return found, self._lookups(found, chosen)

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

    def _lookups(self, found: Pass, rows: slice | None = None) -> dict[str, Lookups]:
        """The lookups of every role that has maps, the default first; of some `rows` only."""
        every: dict[str, Lookups] = {}
        for role, name in NAMES.items():
            if role not in found.roles or (role == "cross" and len(self.written) < 2):
                continue
            maps = found.roles[role]
            source, target, patches = self._sides(role, maps.weights.shape[-1])
            target = target if rows is None else Side.of(target.pieces[rows])
            every[role] = lookups_of(name, maps, source, target, patches)
        if (
            "self" in every
            and self.text
            and self.written
            and not (found.reduced or rows)
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
