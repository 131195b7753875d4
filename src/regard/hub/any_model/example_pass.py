"""One pass of a transformers model over an example and what the model wrote, and its lookups by role."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.attribution.kinds import ROLES
from regard.errors import InputError
from regard.hub.any_model.folder import Loaded
from regard.hub.any_model.inputs import Inputs, check_ids, single
from regard.hub.any_model.labels import side_of
from regard.hub.any_model.lookups import GENERATED, lookups_of, rows_of
from regard.hub.any_model.maps import Pass, attended, maps_of
from regard.maps.heads import Side
from regard.maps.lookups import Lookups
from regard.maps.reductions import Entropy, Totals
from regard.tasks.options import AttributionOptions, span

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
    def of(cls, loaded: Loaded, inputs: Inputs, options: AttributionOptions) -> "ExamplePass":
        """With what the model writes, or the target of the options. Raises InputError for a target of a model that
        writes nothing."""
        model = loaded.model
        pairs = model.config.is_encoder_decoder
        if options.target is not None or options.target_tokens is not None:
            return cls(loaded, inputs, target_of(loaded, options))
        alone = inputs.model is not model  # one tower
        if alone or not model.can_generate() or len(inputs.text or ()) > WHOLE:
            if pairs:
                raise InputError(f"{type(model).__name__} writes nothing by itself; give the output by --target")
            return cls(loaded, inputs, ())
        limit = {"max_new_tokens": WRITTEN, "do_sample": False, "num_beams": options.beam or 1}
        padding = model.generation_config.pad_token_id or 0
        sequence = model.generate(**inputs.tensors, **limit, pad_token_id=padding)[0].tolist()
        return cls(loaded, inputs, tuple(sequence if pairs else sequence[len(inputs.text or ()) :]))

    @property
    def text(self) -> tuple[int, ...]:
        """The tokens of the example; none of an image or a sound."""
        return self.inputs.text or ()

    @property
    def pairs(self) -> bool:
        """Whether the model is an encoder-decoder."""
        return bool(self.loaded.model.config.is_encoder_decoder)

    def read(self, rows: str | None = None, role: str | None = None) -> tuple[Pass, dict[str, Lookups]]:
        """The maps and the lookups of every role, the default first. Of a long text only the rows of what was written
        after it are kept, or the mean over all queries. `rows` `A:B` keeps these queries of a role only. Raises
        InputError for rows that there are not, or too many."""
        if rows is not None:
            return self._rows(rows, role or ("cross" if self.pairs else "self"))
        source, written, maps = len(self.text), len(self.written), maps_of(self.loaded.model)
        if max(source, written) <= WHOLE and maps * (source + written) ** 2 <= KEPT:
            found = attended(self.inputs.model, self.tensors())
            return found, self._lookups(found)
        if written and not self.pairs and maps * written * (source + written) <= PAGE:
            found = attended(self.inputs.model, self.tensors(), rows=range(source - 1, source + written - 1))
            tokenizer, own = self.loaded.tokenizer, found.roles["self"]
            keys = side_of(tokenizer, (*self.text, *self.written)[: own.weights.shape[-1]])
            return found, {"generated": lookups_of(GENERATED, own, keys, side_of(tokenizer, self.written), None)}
        found = replace(attended(self.inputs.model, self.tensors(), reduce=Totals()), reduced=True)
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
            return self.inputs.tensors | {"decoder_input_ids": single(self.written[:-1] or self.written, device)}
        if not self.text or not self.written:
            return self.inputs.tensors
        check_ids(self.loaded.model, (*self.text, *self.written))
        return {"input_ids": single((*self.text, *self.written), device)}

    def _rows(self, rows: str, role: str) -> tuple[Pass, dict[str, Lookups]]:
        """Some rows of a role."""
        output = role in ("cross", "decoder")
        if not output and self.inputs.text is None:
            raise InputError("rows are tokens of a text; leave --rows out for an image or a sound")
        keys, maps = len(self.text) + len(self.written), maps_of(self.loaded.model)
        chosen = span("rows", rows, len(self.written) - 1 if output else len(self.text) if self.pairs else keys)
        count, most = chosen.stop - chosen.start, max(1, KEPT // (keys * maps))
        if count > most:
            raise InputError(f"{count:,} rows of {keys:,} keys are too many weights; choose at most {most:,} rows")
        found = attended(self.inputs.model, self.tensors(), rows=range(chosen.start, chosen.stop), role=role)
        return found, self._lookups(found, chosen)

    def _lookups(self, found: Pass, rows: slice | None = None) -> dict[str, Lookups]:
        """The lookups of every role that has maps, the default first; of some `rows` only."""
        tokenizer, roles = self.loaded.tokenizer, found.roles
        text, written = self.inputs.text, self.written

        def queries(side: Side) -> Side:
            return side if rows is None else Side.of(side.pieces[rows])

        every: dict[str, Lookups] = {}
        if "cross" in roles and len(written) > 1:
            source, patches = self.inputs.side(tokenizer, roles["cross"].weights.shape[-1])
            target = queries(side_of(tokenizer, written[1:]))
            every["cross"] = lookups_of(ROLES["cross"], roles["cross"], source, target, patches)
        for role in ("self", "encoder"):
            if role in roles:
                whole = replace(self.inputs, text=(*text, *written)) if role == "self" and text else self.inputs
                side, patches = whole.side(tokenizer, roles[role].weights.shape[-1])
                name = "self-attention" if role == "self" else ROLES["encoder"]
                every[role] = lookups_of(name, roles[role], side, queries(side), patches)
        if "decoder" in roles:
            side = side_of(tokenizer, written[:-1] or written)
            every["decoder"] = lookups_of(ROLES["decoder"], roles["decoder"], side, queries(side), None)
        if "self" in every and text and written and not (found.reduced or rows):
            generated = rows_of(every["self"], len(text) - 1, side_of(tokenizer, written))
            every = {"generated": generated, **every}
        return every


def target_of(loaded: Loaded, options: AttributionOptions) -> tuple[int, ...]:
    """The tokens of the target. Raises InputError for a model that writes nothing."""
    model, tokenizer = loaded.model, loaded.tokenizer
    pairs = model.config.is_encoder_decoder
    if not (pairs or model.can_generate()) or tokenizer is None:
        raise InputError(f"{type(model).__name__} writes nothing, so it has no target; leave --target out")
    forced = options.target_tokens
    if forced is None:
        forced = tokenizer(text_target=options.target, add_special_tokens=pairs)["input_ids"]
    ids = list(forced)
    check_ids(model, ids)
    start = getattr(model.config, "decoder_start_token_id", None)
    return (start, *ids) if pairs and start is not None and ids[:1] != [start] else tuple(ids)
