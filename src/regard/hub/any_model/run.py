"""A transformers model as a run: its attention on a text, a pair of texts, an image or a sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attribution.aggregation import to_single_map
from regard.attribution.kinds import Kind
from regard.errors import InputError, quote
from regard.hub.any_model.inputs import (
    PICTURES,
    SOUNDS,
    Example,
    Inputs,
    Loaded,
    SentFile,
    check_tokenizer,
    count_embeddings,
    inputs_of,
    positions,
)
from regard.hub.any_model.passes import PAGE, ExamplePass, Pass
from regard.hub.any_model.sentences import Embedding
from regard.maps.alignment import Alignment
from regard.maps.heads import GreatestWeights
from regard.maps.lookups import Lookups, mean_alignment, with_maps
from regard.maps.reductions import rollout
from regard.tasks.attribution import Attribution
from regard.tasks.options import (
    SAMPLING,
    SHAPING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    Verb,
)
from regard.tasks.prediction import ShortRepr, TextPrediction, rank_distinct
from regard.tasks.run import Run
from regard.text.special import REPLACEMENT


@dataclass(frozen=True, repr=False)
class Generated(ShortRepr):
    """A text that a model wrote: behind the prompt, or for the source of an encoder-decoder.

    score: its log-probability, of a beam as the library ranks it.
    finished: whether the model ended it.
    tokens: its pieces, the end included if it is finished; `ids` are theirs.
    """

    prompt: str
    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    alternatives: "tuple[Generated, ...]" = ()
    missing: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The prompt with its continuation."""
        return f"{self.prompt}{self.text}".split("\n")

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        others = [item.to_json() for item in self.alternatives]
        values = {
            name: value
            for name, value in vars(self).items()
            if name not in ("ids", "missing")
        }
        return {**values, "tokens": list(self.tokens), "alternatives": others}


@torch.no_grad()
def generated(
    loaded: Loaded, inputs: Inputs, prompt: str, options: PredictOptions
) -> Generated:
    """The best text of a model for one example, with the others of `n_best`. Raises InputError for more tokens than the
    model has positions, and for more texts than the beam finds."""
    model, pairs = loaded.model, loaded.model.config.is_encoder_decoder
    known = inputs.text or ()
    settings = settings_of(model, len(known), options)
    with torch.random.fork_rng(
        devices=[model.device] if model.device.type == "cuda" else []
    ):
        torch.manual_seed(1 if options.seed is None else options.seed)
        result = model.generate(
            **inputs.tensors,
            **settings,
            return_dict_in_generate=True,
            output_scores=True,
        )
    ends = ends_of(model)
    sequences = result.sequences[:, 1 if pairs else len(known) :].tolist()
    texts = [_cut(sequence, ends) for sequence in sequences]
    scores = _scores(model, result, [len(ids) for ids in texts])
    every = [
        _of(loaded, prompt, () if pairs else known, tuple(ids), score, ends)
        for ids, score in zip(texts, scores, strict=True)
    ]
    first, *rest = every
    ordered = sorted(rest, key=lambda one: (not one.finished, -one.score))
    return rank_distinct([first, *ordered], options.n_best)


def settings_of(model: Any, known: int, options: PredictOptions) -> dict[str, Any]:
    """The library's settings for the options, with `known` tokens of a prompt. Raises InputError as `generated`."""
    options.check()
    own, chosen = model.generation_config, options.chosen()
    limit = None if model.config.is_encoder_decoder else positions(model)
    tokens = options.tokens or own.max_new_tokens or 20
    if limit is not None and known + tokens > limit:
        room = max(0, limit - known)
        raise InputError(
            f"the prompt has {known} tokens and {tokens} more are requested, but the model has {limit:,} positions; "
            f"shorten it, or request at most {room} (--tokens {room})"
        )
    names = {"beam": "num_beams", "no_repeat": "no_repeat_ngram_size"}
    same = ("beam", "no_repeat", "repetition_penalty", "length_penalty")
    result: dict[str, Any] = {
        names.get(name, name): chosen[name] for name in same if name in chosen
    }
    result |= {"max_new_tokens": tokens, "num_return_sequences": options.n_best}
    result |= {"pad_token_id": own.pad_token_id if own.pad_token_id is not None else 0}
    if options.min_length:
        result["min_new_tokens"] = options.min_length - 1  # the library counts no end
    if options.end_at_limit and ends_of(model):
        result["forced_eos_token_id"] = min(ends_of(model))
    if options.temperature:
        sampling = {
            "temperature": options.temperature,
            "top_k": options.top_k or 0,
            "top_p": options.top_p or 1.0,
        }
        return result | {"do_sample": True, "num_beams": 1} | sampling
    if options.sampling.keys() - {"temperature"}:
        raise InputError(
            f"{min(options.sampling)} is for sampling; give a temperature too"
        )
    result |= {"do_sample": False} if options.beam or options.temperature == 0 else {}
    beam = result.get("num_beams", own.num_beams or 1)
    if not (options.n_best <= beam or (own.do_sample and "do_sample" not in result)):
        raise InputError(
            f"n_best is {options.n_best}; expected at most the beam, {beam} (--beam {options.n_best})"
        )
    return result


def ends_of(model: Any) -> set[int]:
    """The tokens that end a text."""
    ends = model.generation_config.eos_token_id
    return set() if ends is None else {*ends} if isinstance(ends, list) else {ends}


def _cut(ids: Sequence[int], ends: set[int]) -> list[int]:
    """The ids up to the first end, which is kept."""
    last = next((place for place, item in enumerate(ids) if item in ends), len(ids) - 1)
    return list(ids[: last + 1])


def _scores(model: Any, result: Any, lengths: Sequence[int]) -> list[float]:
    """The score of each sequence: of a beam its own, otherwise the sum of its tokens' log-probabilities."""
    if "sequences_scores" in result:
        return result.sequences_scores.tolist()
    steps: Tensor = model.compute_transition_scores(
        result.sequences, result.scores, normalize_logits=True
    )
    return [
        float(row[:length].sum()) for row, length in zip(steps, lengths, strict=True)
    ]


def _of(
    loaded: Loaded,
    prompt: str,
    known: tuple[int, ...],
    ids: tuple[int, ...],
    score: float,
    ends: set[int],
) -> Generated:
    """The text of some tokens behind the `known` ones of a prompt."""
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        raise InputError(
            f"{loaded.name} has no tokenizer for what it writes, {quote(str(ids[:5]))}"
        )
    before, whole = (
        tokenizer.decode(item, skip_special_tokens=True)
        for item in (known, (*known, *ids))
    )
    text = (
        whole.removeprefix(before)
        if whole.startswith(before)
        else tokenizer.decode(ids, skip_special_tokens=True)
    )
    pieces = tuple(str(item) for item in tokenizer.convert_ids_to_tokens(list(ids)))
    finished = bool(ids) and ids[-1] in ends
    return Generated(
        prompt if known else "",
        text if known else text.strip(),
        score,
        finished,
        pieces,
        ids,
    )


@dataclass(frozen=True)
class AnyModel:
    """The configuration of a transformers model as a run."""

    task: str = "transformers"
    name: str = ""


class TransformersRun(Run[Example, Generated]):
    """A model of the transformers library with its tokenizer or processor. Examples are texts, pairs of texts with a
    tab between, or images and sounds, by their paths or as files that were sent."""

    config: AnyModel
    checks_finite = False
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
            generated(self.loaded, inputs_of(self.loaded, item), prompt, options)
            for item, prompt in pairs
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
        raise self._not_implemented("evaluate")

    @torch.no_grad()
    def _attribute(self, example: Example, options: AttributionOptions) -> Attribution:
        """Raises InputError for a role, kind, target or rows that the model does not have, and as `inputs_of`."""
        inputs = inputs_of(self.loaded, example)
        whole = ExamplePass.of(self.loaded, inputs, options)
        result, every = whole.read(options.rows, self._role(options))
        role, first = self._first(every, result, options)
        kept = [first, *(item for name, item in every.items() if name != role)]
        while len(kept) > 1 and sum(item.weights.size for item in kept) > PAGE:
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
            entropies=partial(whole.entropies, role) if result.reduced else None,
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
        chosen = self._check_options("attribute", AttributionOptions, options, settings)
        if chosen.list_kinds() != ("weights",):
            raise InputError(
                f"the greatest weights are of the kind weights; leave {chosen.list_kinds()[-1]} out"
            )
        whole = ExamplePass.of(self.loaded, inputs_of(self.loaded, example), chosen)
        return whole.greatest(count, self._role(chosen), chosen.rows)

    def _first(
        self, every: dict[str, Lookups], result: Pass, options: AttributionOptions
    ) -> tuple[str, Lookups]:
        """The chosen role and its lookups. Raises InputError for a role without maps, with the reason."""
        role = self._role(options)
        if role is None and "rollout" in options.kinds and "self" in every:
            role = "self"
        if role is None and every:
            return next(iter(every.items()))
        if role is None or role not in every:
            reason = result.missing.get(
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
        kinds = options.list_kinds()
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
        alone = to_single_map(rolled, "rollout")
        return (
            (alone, rolled) if len(kinds) == 1 else (with_maps(first, alone), weights)
        )

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
        check_tokenizer(name, len(tokenizer), count_embeddings(model))
        loaded = Loaded(name, model, tokenizer)
    training = model.training
    try:
        return TransformersRun(replace(loaded, model=model.eval())).attribute(
            text, **settings
        )
    finally:
        model.train(training)
