"""A transformers model as a run: its attention on a text, a pair of texts, an image or a sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attribution.aggregation import single_map
from regard.attribution.kinds import Kind
from regard.errors import InputError
from regard.hub.any_model.embedding import Embedding
from regard.hub.any_model.example_pass import PAGE, ExamplePass
from regard.hub.any_model.folder import SOUNDS, Loaded, check_tokenizer, embeddings
from regard.hub.any_model.generated import Generated, generated
from regard.hub.any_model.inputs import PICTURES, Example, Inputs, SentFile, inputs_of
from regard.hub.any_model.maps import Pass
from regard.maps.alignment import Alignment
from regard.maps.greatest import GreatestWeights
from regard.maps.lookups import Lookups, beside, mean_alignment
from regard.maps.rollout import rollout
from regard.tasks.attribution import Attribution
from regard.tasks.options import (
    SAMPLING,
    SHAPING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    Verb,
)
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run
from regard.text.special import REPLACEMENT


@dataclass(frozen=True)
class AnyModel:
    """The configuration of a transformers model as a run."""

    task: str = "transformers"
    name: str = ""


class TransformersRun(Run[Example, Generated]):
    """A model of the transformers library with its tokenizer or processor. Examples are texts, pairs of texts with a
    tab between, or images and sounds, by their paths or as files that were sent."""

    config: AnyModel
    supports: Mapping[Verb, frozenset[str]] = {
        "attribute": frozenset(
            {
                "kinds",
                "maps",
                "role",
                "rows",
                "target",
                "target_tokens",
                "finished",
                "beam",
            }
        )
    }

    def __init__(self, loaded: Loaded):
        self.loaded, self.model = loaded, loaded.model
        self.config, self.embedding = AnyModel(name=loaded.name), Embedding(loaded)
        if loaded.model.can_generate() and loaded.tokenizer is not None:
            written = frozenset({"beam", "n_best", "tokens", *SAMPLING, *SHAPING})
            self.supports = {"predict": written, **self.supports}
        images = (
            loaded.images is not None and loaded.model.main_input_name == "pixel_values"
        )
        self.inputs = (
            {"image": bytes}
            if images
            else {"text": str}
            if loaded.sounds is None
            else {"audio": bytes}
        )

    def parse(self, line: str, place: str = "text 1") -> str:
        """The example itself. Raises InputError for an empty one."""
        if not line.strip():
            raise InputError(
                f"{place} is empty; write a text, or the path of an image or a sound"
            )
        return line

    def example(self, values: Mapping[str, Any], /) -> Example:
        """The text, or the bytes of an image or a sound. Raises InputError for a text that a model with images too
        would take for a file's name: one from the network may name no file."""
        if "text" not in self.inputs:
            return SentFile(*(values[name] for name in self.inputs))
        if (
            Path(values["text"]).suffix.lower() in PICTURES
            and self.loaded.images is not None
        ):
            raise InputError(
                f"the text ends in {Path(values['text']).suffix}, a file's name; a server opens no files"
            )
        return self.parse(values["text"])

    def prediction_warnings(self, prediction: Any, /) -> list[str]:
        """That a prediction is empty, or has bytes that are no whole character."""
        if REPLACEMENT in prediction.text:
            return [
                f"the prediction has {REPLACEMENT}, for bytes of a character that is not whole"
            ]
        return super().prediction_warnings(prediction)

    def record(self, example: Example) -> dict[str, Any]:
        """The text; nothing of a file that was sent."""
        return {"text": example} if isinstance(example, str) else {}

    def samples(self, options: PredictOptions) -> bool:
        """Whether the options, or the model's own settings, sample."""
        own = bool(self.model.generation_config.do_sample) and options.beam is None
        return options.temperature != 0 if options.temperature is not None else own

    def _predict(
        self, examples: Sequence[Example], options: PredictOptions
    ) -> list[Generated]:
        """What the model writes for each example. Raises InputError as `generated` and `inputs_of`."""
        prompts = [example if isinstance(example, str) else "" for example in examples]
        pairs = zip(examples, prompts, strict=True)
        return [
            generated(self.loaded, inputs_of(self.loaded, each), prompt, options)
            for each, prompt in pairs
        ]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The weights, and the rollout of layers of self-attention."""
        return ("weights", "rollout")

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of a sentence-transformers folder by name."""
        return self.embedding.prompts

    def embed(
        self,
        texts: Sequence[Example],
        *,
        pool: Literal["mean", "first"] | None = None,
        prompt: str | None = None,
    ) -> Tensor:
        """A vector for each text, image or sound, as `Embedding`."""
        return self.embedding(texts, pool=pool, prompt=prompt)

    def _evaluate(self, examples: Any, options: EvaluationOptions) -> dict[str, float]:
        raise self._missing("evaluate")

    @torch.no_grad()
    def _attribute(self, example: Example, options: AttributionOptions) -> Attribution:
        """Raises InputError for a role, kind, target or rows that the model does not have, and as `inputs_of`."""
        inputs = inputs_of(self.loaded, example)
        whole = ExamplePass.of(self.loaded, inputs, options)
        found, every = whole.read(options.rows, self._role(options))
        role, first = self._first(every, found, options)
        kept = [first, *(each for name, each in every.items() if name != role)]
        while len(kept) > 1 and sum(each.weights.size for each in kept) > PAGE:
            kept.pop()
        first, weights = self._kinds(first, options)
        title = (
            Path(example).name
            if isinstance(example, str) and inputs.text is None
            else str(example)
        )
        return Attribution(
            TextPrediction(self._text(inputs, whole.written, title)),
            title,
            (first, *kept[1:]),
            weights,
            options,
            has_heads=True,
            entropies=partial(whole.entropies, role) if found.reduced else None,
        )

    @torch.no_grad()
    def greatest(
        self,
        example: Example,
        count: int,
        options: AttributionOptions | None = None,
        /,
        **settings: Any,
    ) -> GreatestWeights:
        """The `count` greatest weights of each query of the chosen role; of a text no tensor of queries by keys exists.

        Raises InputError as `attribute`, for a count below 1, and another kind than the weights."""
        chosen = self._options("attribute", AttributionOptions, options, settings)
        if chosen.each_kind() != ("weights",):
            raise InputError(
                f"the greatest weights are of the kind weights; leave {chosen.each_kind()[-1]} out"
            )
        whole = ExamplePass.of(self.loaded, inputs_of(self.loaded, example), chosen)
        return whole.greatest(count, self._role(chosen), chosen.rows)

    def _first(
        self, every: dict[str, Lookups], found: Pass, options: AttributionOptions
    ) -> tuple[str, Lookups]:
        """The chosen role and its lookups. Raises InputError for a role without maps, with the reason."""
        role = self._role(options)
        if role is None and "rollout" in options.kinds and "self" in every:
            role = "self"
        if role is None and every:
            return next(iter(every.items()))
        if role is None or role not in every:
            reason = found.missing.get(
                role or "", f"it has {', '.join(every) or 'no such'} attention"
            )
            raise InputError(
                f"{type(self.model).__name__} has no maps of the role {options.role}: {reason}"
            )
        return role, every[role]

    def _role(self, options: AttributionOptions) -> str | None:
        """The chosen role; `self` for the only side of a model that is an encoder or a decoder."""
        if self.model.config.is_encoder_decoder:
            return options.role
        return (
            "self"
            if options.role == ("decoder" if self.model.can_generate() else "encoder")
            else options.role
        )

    def _kinds(
        self, first: Lookups, options: AttributionOptions
    ) -> tuple[Lookups, Alignment]:
        """The lookups with every chosen kind, and the one map of the first. Raises InputError for another kind, or a
        rollout of attention that is not of a text to itself."""
        kinds = options.each_kind()
        if unknown := [kind for kind in kinds if kind not in self.kinds]:
            raise InputError(
                f"a transformers model has no {unknown[0]}; it has {', '.join(self.kinds)}"
            )
        weights = mean_alignment(first, options.maps)
        if "rollout" not in kinds:
            return first, weights
        if first.source != first.target:
            if first.weights.shape[2] < len(first.source):
                raise InputError(
                    "a rollout needs the weights of all queries, of which a few or the mean are kept here"
                )
            raise InputError(
                "a rollout needs layers of a text that reads itself; choose --role encoder or decoder"
            )
        if options.maps is not None:
            raise InputError("a rollout combines all layers and heads; choose no map")
        rolled = Alignment(
            rollout([*first.weights.astype(np.float64)]), first.source, first.target
        )
        alone = single_map(rolled, "rollout")
        return (alone, rolled) if len(kinds) == 1 else (beside(first, alone), weights)

    def _text(self, inputs: Inputs, written: tuple[int, ...], example: str) -> str:
        """What the model predicts: the text that it wrote, or the class; otherwise the example."""
        if written:
            return self.loaded.tokenizer.decode(
                written, skip_special_tokens=True
            ).strip()
        if "Classification" in type(self.model).__name__ and inputs.model is self.model:
            logits = self.model(**inputs.tensors).logits
            return (
                str(self.model.config.id2label[int(logits.flatten(1)[0].argmax())])
                if logits.ndim == 2
                else example
            )
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
        text_part, sounds = (
            getattr(tokenizer, "tokenizer", None),
            getattr(tokenizer, "feature_extractor", tokenizer),
        )
        loaded = Loaded(name, model, text_part, sounds=sounds)
    else:
        check_tokenizer(name, len(tokenizer), embeddings(model))
        loaded = Loaded(name, model, tokenizer)
    training = model.training
    try:
        return TransformersRun(replace(loaded, model=model.eval())).attribute(
            text, **settings
        )
    finally:
        model.train(training)
