"""A transformers model as a run: its attention on a text, a pair of texts, an image or a sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tokenizers.normalizers import Lowercase
from torch import Tensor

from regard.attribution.aggregation import single_map
from regard.attribution.kinds import ROLES, Kind
from regard.errors import InputError
from regard.hub.any_model.folder import SOUNDS, Loaded, check_tokenizer, embeddings
from regard.hub.any_model.inputs import Inputs, check_ids, cut_inputs, inputs_of, single
from regard.hub.any_model.labels import side_of
from regard.hub.any_model.lookups import lookups_of, rows_of
from regard.hub.any_model.maps import Pass, attended
from regard.hub.any_model.sentences import SentenceModules, prompt_tokens, read_modules
from regard.maps.alignment import Alignment
from regard.maps.lookups import Lookups, beside, mean_alignment
from regard.maps.reductions import Totals
from regard.maps.rollout import rollout
from regard.tasks.attribution import Attribution
from regard.tasks.options import AttributionOptions, EvaluationOptions, Verb
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run

WHOLE = 1024
"""The most positions of which every weight is kept; of more, the mean over queries."""
WRITTEN = 20
"""The most tokens that a model writes after a text."""
PAGE = 12_000_000
"""The most weights of all roles on a page; beyond them the chosen role is alone."""


@dataclass(frozen=True)
class AnyModel:
    """The configuration of a transformers model as a run."""

    task: str = "transformers"
    name: str = ""


class TransformersRun(Run[str, TextPrediction]):
    """A model of the transformers library with its tokenizer or processor. Examples are texts, pairs of texts with a
    tab between, or the paths of images and sounds."""

    config: AnyModel
    supports: Mapping[Verb, frozenset[str]] = {"attribute": frozenset({"kinds", "maps", "role", "target", "beam"})}

    def __init__(self, loaded: Loaded):
        self.loaded, self.model = loaded, loaded.model
        self.config = AnyModel(name=loaded.name)

    def parse(self, line: str, place: str = "text 1") -> str:
        """The example itself. Raises InputError for an empty one."""
        if not line.strip():
            raise InputError(f"{place} is empty; write a text, or the path of an image or a sound")
        return line

    def example(self, values: Mapping[str, Any], /) -> str:
        """The text. Raises InputError for a model of images or sounds: a text from the network may name no file."""
        if self.loaded.images is not None or self.loaded.sounds is not None:
            raise InputError(f"{self.loaded.name} reads files, which a server does not open; use regard show")
        return super().example(values)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The weights, and the rollout of layers of self-attention."""
        return ("weights", "rollout")

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of a sentence-transformers folder by name."""
        return {} if self._sentences is None else self._sentences.prompts

    @torch.no_grad()
    def embed(
        self, texts: Sequence[str], *, pool: Literal["mean", "first"] | None = None, prompt: str | None = None
    ) -> Tensor:
        """A vector for each text, `(text, width)`: of a sentence-transformers folder that of its modules, with one of
        its prompts; of another model, or with `pool`, the mean or the first of the last states. Raises InputError for a
        text that the model cannot take, and for a module or a prompt that there is not."""
        modules = self._sentences if pool is None else None
        if modules is not None:
            return torch.stack([self._sentence(modules, text, modules.prompt(prompt)) for text in texts])
        if prompt is not None:
            raise InputError(f"{self.loaded.name} has no prompt for such a vector; leave --prompt or --pool out")
        found = []
        for text in texts:
            states = self._states(inputs_of(self.loaded, text))
            found.append(states[0] if pool == "first" else states.mean(0))
        return torch.stack(found).float()

    @cached_property
    def _sentences(self) -> SentenceModules | None:
        return None if self.loaded.folder is None else read_modules(self.loaded.folder)

    def _sentence(self, modules: SentenceModules, text: str, prompt: str) -> Tensor:
        """The vector of one text behind a prompt."""

        def inputs(text: str) -> Inputs:
            text = Lowercase().normalize_str(text) if modules.lower else text
            return cut_inputs(self.loaded.tokenizer, self.model, text, modules.longest)

        before = prompt_tokens(self.loaded.tokenizer, inputs(prompt).text or ()) if prompt else 0
        return modules.vector(self._states(inputs(prompt + text)), before)

    def _states(self, inputs: Inputs) -> Tensor:
        """The last states of an example, `(token, width)`."""
        model = inputs.model.get_encoder() if self.model.config.is_encoder_decoder else inputs.model.base_model
        return model(**inputs.tensors).last_hidden_state[0]

    def _evaluate(self, examples: Any, options: EvaluationOptions) -> dict[str, float]:
        raise self._missing("evaluate")

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Raises InputError for a role, kind or target that the model does not have, and as `inputs_of`."""
        inputs = inputs_of(self.loaded, example)
        source = _length(inputs)
        written = self._written(inputs, options)
        reduce = {"reduce": Totals()} if max(source, len(written)) > WHOLE else {}
        found = attended(inputs.model, self._joined(inputs, written), **reduce)
        every = self._lookups(inputs, written, found)
        role, first = self._first(every, found, options)
        kept = [first, *(each for name, each in every.items() if name != role)]
        while len(kept) > 1 and sum(each.weights.size for each in kept) > PAGE:
            kept.pop()
        first, weights = self._kinds(first, options)
        title = example if inputs.text is not None else Path(example).name
        return Attribution(
            TextPrediction(self._text(inputs, written, title)),
            title,
            (first, *kept[1:]),
            weights,
            options,
            has_heads=True,
        )

    def _written(self, inputs: Inputs, options: AttributionOptions) -> tuple[int, ...]:
        """The tokens that the model writes, or those of the target. None for a model that writes nothing."""
        model, tokenizer = self.model, self.loaded.tokenizer
        pairs = model.config.is_encoder_decoder
        if options.target is not None:
            if not (pairs or model.can_generate()) or tokenizer is None:
                raise InputError(f"{type(model).__name__} writes nothing, so it has no target; leave --target out")
            ids = tokenizer(text_target=options.target, add_special_tokens=pairs)["input_ids"]
            check_ids(model, ids)
            start = getattr(model.config, "decoder_start_token_id", None)
            return (start, *ids) if pairs and start is not None and ids[:1] != [start] else tuple(ids)
        if not model.can_generate() or _length(inputs) > WHOLE:
            if pairs:
                raise InputError(f"{type(model).__name__} writes nothing by itself; give the output by --target")
            return ()
        limit = {"max_new_tokens": WRITTEN, "do_sample": False, "num_beams": options.beam or 1}
        padding = model.generation_config.pad_token_id or 0
        sequence = model.generate(**inputs.tensors, **limit, pad_token_id=padding)[0].tolist()
        return tuple(sequence if pairs else sequence[len(inputs.text or ()) :])

    def _joined(self, inputs: Inputs, written: tuple[int, ...]) -> dict[str, Tensor]:
        """The inputs of one pass over a text and what was written after it."""
        device = self.model.device
        if self.model.config.is_encoder_decoder:
            return inputs.tensors | {"decoder_input_ids": single(written[:-1] or written, device)}
        if inputs.text is None or not written:
            return inputs.tensors
        check_ids(self.model, (*inputs.text, *written))
        return {"input_ids": single((*inputs.text, *written), device)}

    def _lookups(self, inputs: Inputs, written: tuple[int, ...], found: Pass) -> dict[str, Lookups]:
        """The lookups of every role that has maps, the default first."""
        tokenizer, roles = self.loaded.tokenizer, found.roles
        every: dict[str, Lookups] = {}
        if "cross" in roles and len(written) > 1:
            source, patches = inputs.side(tokenizer, roles["cross"].weights.shape[-1])
            target = side_of(tokenizer, written[1:])
            every["cross"] = lookups_of(ROLES["cross"], roles["cross"], source, target, patches)
        for role in ("self", "encoder"):
            if role in roles:
                read = replace(inputs, text=(*inputs.text, *written)) if role == "self" and inputs.text else inputs
                side, patches = read.side(tokenizer, roles[role].weights.shape[-1])
                name = "self-attention" if role == "self" else ROLES["encoder"]
                every[role] = lookups_of(name, roles[role], side, side, patches)
        if "decoder" in roles:
            side = side_of(tokenizer, written[:-1] or written)
            every["decoder"] = lookups_of(ROLES["decoder"], roles["decoder"], side, side, None)
        if "self" in every and inputs.text and written and every["self"].weights.shape[2] > 1:
            generated = rows_of(every["self"], len(inputs.text) - 1, side_of(tokenizer, written))
            every = {"generated": generated, **every}
        return every

    def _first(self, every: dict[str, Lookups], found: Pass, options: AttributionOptions) -> tuple[str, Lookups]:
        """The chosen role and its lookups. Raises InputError for a role without maps, with the reason."""
        if options.role is None:
            return next(iter(every.items()))
        if options.role not in every:
            reason = found.missing.get(options.role, f"it has {', '.join(every)} attention")
            raise InputError(f"{type(self.model).__name__} has no maps of the role {options.role}: {reason}")
        return options.role, every[options.role]

    def _kinds(self, first: Lookups, options: AttributionOptions) -> tuple[Lookups, Alignment]:
        """The lookups with every chosen kind, and the one map of the first. Raises InputError for another kind, or a
        rollout of attention that is not of a text to itself."""
        kinds = options.each_kind()
        if unknown := [kind for kind in kinds if kind not in self.kinds]:
            raise InputError(f"a transformers model has no {unknown[0]}; it has {', '.join(self.kinds)}")
        weights = mean_alignment(first, options.maps)
        if "rollout" not in kinds:
            return first, weights
        if first.source != first.target:
            raise InputError("a rollout needs layers of a text that reads itself; choose --role encoder or decoder")
        if options.maps is not None:
            raise InputError("a rollout combines all layers and heads; choose no map")
        rolled = Alignment(rollout([*first.weights.astype(np.float64)]), first.source, first.target)
        alone = single_map(rolled, "rollout")
        return (alone, rolled) if len(kinds) == 1 else (beside(first, alone), weights)

    def _text(self, inputs: Inputs, written: tuple[int, ...], example: str) -> str:
        """What the model predicts: the text that it wrote, or the class; otherwise the example."""
        if written:
            return self.loaded.tokenizer.decode(written, skip_special_tokens=True).strip()
        if "Classification" in type(self.model).__name__ and inputs.model is self.model:
            logits = self.model(**inputs.tensors).logits
            return str(self.model.config.id2label[int(logits.flatten(1)[0].argmax())]) if logits.ndim == 2 else example
        return example


def show(model: Any, tokenizer: Any, text: str, /, **settings: Any) -> Attribution:
    """The attention of a transformers model on a text, as `Run.attribute`; a notebook displays its page, and `write`
    makes it a file. `tokenizer` may be the image processor or feature extractor of a model of images or sounds, whose
    `text` is a path. `settings` are fields of `AttributionOptions`.

    Raises InputError for a tokenizer of another model, an input beyond the model's positions, and a model whose
    attention cannot be shown.
    """
    name = type(model).__name__
    if model.main_input_name == "pixel_values":
        loaded = Loaded(name, model, images=tokenizer)
    elif model.main_input_name in SOUNDS:
        text_part, sounds = getattr(tokenizer, "tokenizer", None), getattr(tokenizer, "feature_extractor", tokenizer)
        loaded = Loaded(name, model, text_part, sounds=sounds)
    else:
        check_tokenizer(name, len(tokenizer), embeddings(model))
        loaded = Loaded(name, model, tokenizer)
    training = model.training
    try:
        return TransformersRun(replace(loaded, model=model.eval())).attribute(text, **settings)
    finally:
        model.train(training)


def _length(inputs: Inputs) -> int:
    """The number of tokens; 0 for images and sounds."""
    return len(inputs.text or ())
