"""Any model of the transformers library as a run, opened without an import."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attribution.attention import Attributed, check_kinds, text_kinds
from regard.attribution.effects import record_places
from regard.attribution.kinds import ROLES, Kind
from regard.audio import LONGEST, encode_audio, read_audio, resample
from regard.data.tokens import side
from regard.errors import InputError, quote
from regard.hub.sentence_vectors import (
    MODULES,
    SentenceModules,
    list_modules,
    read_modules,
)
from regard.images import read_image
from regard.maps.alignment import Side
from regard.maps.lookups import (
    ImagePatches,
    Lookups,
    SoundParts,
    label_sinks,
    mean_alignment,
    patch_labels,
    select_rows,
    with_maps,
)
from regard.models.pretrained import (
    Pretrained,
    embedding_of,
    position_limit,
    run_plain,
)
from regard.models.published import (
    accepts,
    check_complete,
    check_published,
    convert_tokenizer,
    find_published,
    load_network,
    load_part,
    quiet_library,
    require_transformers,
)
from regard.pictures.panels import paint_sound, shade_features
from regard.storage.published_folder import CONFIG
from regard.tasks.attribution import Attribution
from regard.tasks.base import Explained, attribute_tokens
from regard.tasks.language_model.run import text_behind
from regard.tasks.options import (
    SAMPLING,
    AttributionOptions,
    GeneratedText,
    Json,
    PredictOptions,
    TextPrediction,
    Verb,
    rank_distinct,
)
from regard.tasks.run import Run

SOUNDS = ("input_features", "input_values")
"""The main inputs of models that read sounds."""
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
"""Files of image processors; transformers 5 writes the second."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"})
OUTPUTS = {
    "cross": "cross_attentions",
    "self": "attentions",
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
}
"""The output of a network that has the maps of each role, the default role first."""
NAMES: dict[str, str] = {"self": "self-attention", **ROLES}
MOST_WEIGHTS = 100_000_000
"""The most weights of all layers and heads, which take about 1 GB."""
PAGE = 12_000_000
"""The most weights of all roles on a page; beyond them the chosen role is alone."""
WRITTEN = 20
"""The most tokens that a model writes after a text."""
SETTINGS = {
    "beam": "num_beams",
    "no_repeat": "no_repeat_ngram_size",
    "repetition_penalty": "repetition_penalty",
    "length_penalty": "length_penalty",
}
"""The library's names of options of a search."""
MOST_PREFIXES = 8
"""The most positions before the patches of an image."""
Tensors = Mapping[str, Tensor]
Example = str | bytes
"""A text, two texts with a tab between, the path of an image or a sound, or the bytes of
such a file."""


@dataclass(frozen=True)
class NetworkInput:
    """What a network reads for one example.

    Attributes:
        network: The part of the model that reads it: the whole or one tower.
        tensors: The inputs by the names of its parameters.
        text: The ids of a text; empty for an image or a sound.
        pixels: An image in the form of the network's input.
        seconds: The length of a sound with its padding.
        share: The part of it before the padding.
        sound: The sound, as a WAV file, if each position is of a time.
        features: The sound in the form of the network's input, if in bands of frequencies.
    """

    network: Any
    tensors: Tensors
    text: tuple[int, ...] = ()
    pixels: np.ndarray | None = None
    seconds: float = 0.0
    share: float = 1.0
    sound: bytes = b""
    features: np.ndarray | None = None

    def label(self, count: int) -> tuple[Side, ImagePatches | None]:
        """Label positions without text; return the image that they are parts of.

        Positions of a sound's padding get no label.
        """
        size = getattr(self.network.config, "patch_size", None)
        if self.pixels is not None and isinstance(size, int):
            rows, columns = (pixels // size for pixels in self.pixels.shape[:2])
            first = count - rows * columns
            if 0 <= first <= MOST_PREFIXES:
                labels = ["[CLS]", *(f"token {number}" for number in range(1, first))]
                labels = [*labels[:first], *patch_labels(rows, columns)]
                return Side.of(labels), ImagePatches(self.pixels, rows, columns, first)
        labels = [f"position {number}" for number in range(count)]
        if self.features is not None and not self.sound:  # patches by row
            frames = len(self.features)
            config = self.network.config
            columns = (frames - config.patch_size) // config.time_stride + 1
            step = self.seconds / frames * config.time_stride
            for number in range(2, count):
                row, column = divmod(number - 2, columns)
                labels[number] = f"{column * step:.2f} s, row {row + 1}"
        elif self.seconds:
            step = self.seconds / count
            heard = math.ceil(count * self.share)
            labels = [f"{number * step:.2f} s" for number in range(heard)]
        if self.features is None or len(self.features) % count:
            return Side.of(labels), None
        bands = self.features.shape[1]
        frames = self.features.reshape(count, -1, bands).mean(1)[: len(labels)]
        ratio = len(labels) / bands / 4
        high, wide = (max(1, round(size)) for size in (ratio, 1 / ratio))
        pixels = paint_sound(shade_features(frames), high, wide)
        return Side.of(labels), ImagePatches(pixels, 1, len(labels))


@dataclass(frozen=True)
class AnyModel:
    """The configuration of a transformers model as a run."""

    task: str = "transformers"
    name: str = ""


class TransformersRun(Run[Example, GeneratedText]):
    """A published network with its tokenizer or processor."""

    config: AnyModel
    model: Pretrained
    checks_finite = False
    supports: Mapping[Verb, Collection[str]] = {
        "attribute": (
            "kinds",
            "maps",
            "cut",
            "role",
            "target",
            "target_tokens",
            "finished",
            "beam",
        )
    }

    def __init__(
        self,
        name: str,
        network: Any,
        *,
        tokenizer: Any = None,
        images: Any = None,
        sounds: Any = None,
        modules: SentenceModules | None = None,
    ):
        self.config = AnyModel(name=name)
        self.model = Pretrained(network)
        self.tokenizer = tokenizer
        self.images = images
        self.sounds = sounds
        self.modules = modules
        self.vocabulary: Any = None
        if tokenizer is not None:
            rows = embedding_of(network).weight.shape[0]
            self.vocabulary = convert_tokenizer(tokenizer, rows, name)
        if network.can_generate() and self.tokenizer is not None:
            options = {"beam", "n_best", "tokens", *SAMPLING, *SETTINGS}
            self.supports = {"predict": options, **self.supports}
        if self.sounds is not None:
            self.inputs = {"audio": bytes}
        elif self.images is not None and network.main_input_name == "pixel_values":
            self.inputs = {"image": bytes}

    @property
    def network(self) -> Any:
        """The model of transformers."""
        return self.model.network

    @property
    def is_pair(self) -> bool:
        """Whether the model is an encoder-decoder."""
        return bool(self.network.config.is_encoder_decoder)

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds of maps; what the model cannot explain is refused with its input."""
        kinds = text_kinds(self.model, self.model.self_attention)
        return [kind for kind in kinds if kind != "rollout"]

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of a sentence-transformers folder by name."""
        return {} if self.modules is None else self.modules.prompts

    def parse(self, line: str, place: str = "text 1") -> str:
        """Return the example itself. Raise InputError for an empty one."""
        if not line.strip():
            raise InputError(
                f"{place} is empty; write a text, or the path of an image or a sound"
            )
        return line

    def parse_arguments(self, texts: Sequence[str]) -> list[str]:
        """Return each text; an encoder reads two as a pair."""
        if len(texts) == 2 and "predict" not in self.supports:
            texts = ["\t".join(texts)]
        return super().parse_arguments(texts)

    def example(self, values: Json, /) -> Example:
        """Return the text, or the bytes of an image or a sound.

        Raises:
            InputError: A model with images would take the text for a file's name; no
                request of a server opens files.
        """
        if "text" not in self.inputs:
            return next(values[name] for name in self.inputs)
        text = values["text"]
        if "image" in self.record(text):
            raise InputError(
                f"the text ends in {Path(text).suffix}, a file's name; a server opens no "
                "files"
            )
        return self.parse(text)

    def record(self, example: Example) -> Json:
        """Return the text, or the path of a file; nothing of a file that was sent."""
        if not isinstance(example, str):
            return {}
        is_image = self.images is not None and Path(example).suffix.lower() in PICTURES
        return {"image" if is_image else next(iter(self.inputs)): example}

    def samples(self, options: PredictOptions) -> bool:
        """Return whether the options, or the model's own settings, sample."""
        if options.temperature is None and options.beam is None:
            return bool(self.network.generation_config.do_sample)
        return bool(options.temperature)

    def read_input(self, example: Example) -> NetworkInput:
        """Prepare an example: a file for a model of images or sounds, else a text.

        Raises:
            InputError: A file cannot be read, or a text is empty or too long.
        """
        network = self.network
        vision = dict(network.named_children()).get("vision_model")
        name = network.main_input_name
        if self.sounds is not None:
            rate = self.sounds.sampling_rate
            # models such as Whisper read windows of one length
            longest = getattr(self.sounds, "n_samples", LONGEST * rate) / rate
            sound = resample(read_audio(example, longest), rate)
            batch = self.sounds(sound.samples, sampling_rate=rate, return_tensors="pt")
            tensor = batch[name].to(self.device)
            frames, hop = tensor[0].float().cpu().numpy(), 1
            if frames.ndim == 2:
                hop = rate // 100  # as Kaldi's
                if len(frames) == getattr(self.sounds, "feature_size", 0):
                    frames = frames.T
            seconds = len(frames) * getattr(self.sounds, "hop_length", hop) / rate
            return NetworkInput(
                network,
                {name: tensor},
                seconds=seconds,
                share=min(1.0, len(sound.samples) / rate / seconds),
                sound=b""
                if getattr(network.config, "time_stride", 0)
                else encode_audio(sound),
                features=frames if frames.ndim == 2 else None,
            )
        is_image = isinstance(example, bytes) or (
            vision is not None and Path(example).suffix.lower() in PICTURES
        )
        if name != "pixel_values" and not is_image:
            texts = str(example).split("\t", 1)
            return self.read_text(self.tokenizer(*texts, return_tensors="pt"), example)
        if self.images is None:
            raise InputError(
                f"{self.config.name} has no {PROCESSORS[0]}, so an image cannot be "
                "prepared for it"
            )
        network = network if self.is_pair or vision is None else vision
        batch = self.images(images=read_image(example), return_tensors="pt")
        tensors = self._select_inputs(network, batch)
        pixels = tensors["pixel_values"][0].float().cpu().numpy().transpose(1, 2, 0)
        pixels = (pixels - pixels.min()) / max(np.ptp(pixels), 1e-9) * 255
        return NetworkInput(network, tensors, pixels=pixels.round().astype(np.uint8))

    def read_text(self, batch: Tensors, text: Example) -> NetworkInput:
        """Return the inputs that the network reads of what the tokenizer returned."""
        network = dict(self.network.named_children()).get("text_model", self.network)
        tensors = self._select_inputs(network, batch)
        ids = tensors["input_ids"][0].tolist()
        if not ids:
            raise InputError(f"{quote(str(text))} has no token; write a text")
        check_ids(network, ids)
        return NetworkInput(network, tensors, tuple(ids))

    def _select_inputs(self, network: Any, batch: Mapping[str, Any]) -> Tensors:
        return {
            name: tensor.to(self.device)
            for name, tensor in batch.items()
            if accepts(network.forward, name)
        }

    def _predict(
        self, examples: Sequence[Example], options: PredictOptions
    ) -> list[GeneratedText]:
        """Return what the model writes for each example, by the library's search."""
        return [self._generate(example, options) for example in examples]

    def _generate(self, example: Example, options: PredictOptions) -> GeneratedText:
        inputs = self.read_input(example)
        network = self.network
        settings = self._search_settings(len(inputs.text), options)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), quiet_library():
            torch.manual_seed(1 if options.seed is None else options.seed)
            result = network.generate(
                **inputs.tensors,
                **settings,
                return_dict_in_generate=True,
                output_scores=True,
            )
        has_scores = "sequences_scores" in result
        steps = None
        if not has_scores:
            steps = network.compute_transition_scores(
                result.sequences, result.scores, normalize_logits=True
            )
        ends = network.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        before = 1 if self.is_pair else len(inputs.text)
        prompt = None if self.is_pair else str(example)
        texts = []
        for number, row in enumerate(result.sequences[:, before:].tolist()):
            places = [place for place, token in enumerate(row, 1) if token in ends]
            ids = tuple(row[: places[0]] if places else row)
            if steps is None:
                score = float(result.sequences_scores[number])
            else:
                score = float(steps[number][: len(ids)].sum())
            if prompt is None:
                text = self.vocabulary.decode(ids).strip()
            else:
                text = text_behind(prompt, ids, self.vocabulary)
            tokens = tuple(self.vocabulary.pieces(ids))
            texts.append(
                GeneratedText(
                    text,
                    score,
                    bool(places),
                    tokens,
                    prompt=prompt,
                    ids=ids,
                )
            )
        first, *alternatives = texts
        alternatives.sort(key=lambda text: (not text.finished, -text.score))
        return rank_distinct([first, *alternatives], options.n_best)

    def _search_settings(self, length: int, options: PredictOptions) -> Json:
        """Return the library's settings for options behind a prompt of `length` tokens."""
        config = self.network.generation_config
        tokens = options.tokens or config.max_new_tokens or WRITTEN
        limit = None if self.is_pair else position_limit(self.network)
        if limit is not None and length + tokens > limit:
            raise InputError(
                f"the prompt has {length} tokens and {tokens} more are requested, but the "
                f"model has {limit:,} positions; shorten it, or request at most "
                f"{max(0, limit - length)} (--tokens)"
            )
        settings: Json = {
            "max_new_tokens": tokens,
            "num_return_sequences": options.n_best,
            "pad_token_id": config.pad_token_id or 0,
        }
        for option, value in options.chosen().items():
            if option in SETTINGS:
                settings[SETTINGS[option]] = value
        if options.temperature:
            settings |= {
                "do_sample": True,
                "num_beams": 1,
                "temperature": options.temperature,
                "top_k": options.top_k or 0,
                "top_p": options.top_p or 1.0,
            }
        elif options.sampling.keys() - {"temperature"}:
            raise InputError(
                f"{min(options.sampling)} is for sampling; give a temperature too"
            )
        elif options.beam or options.temperature == 0:
            settings["do_sample"] = False
        return settings

    @torch.no_grad()
    def _attribute(self, example: Example, options: AttributionOptions) -> Attribution:
        """Attribute positions to each other, and an output to its source.

        A decoder's map has the tokens that it writes, or those of the target, behind the
        text.
        """
        title = "file" if isinstance(example, bytes) else example.replace("\t", " | ")
        kinds = options.list_kinds()
        check_kinds(kinds, self.kinds)
        inputs = self.read_input(example)
        output = self._write_output(example, inputs, options)
        extras: list[Lookups] = []
        extra_kinds: list[Kind] = [kind for kind in kinds if kind != "weights"]
        if extra_kinds:
            extra, weights = self._explain(inputs, output, extra_kinds, options)
            if extra_kinds == [*kinds]:
                text = self.vocabulary.decode(output).strip() or weights.target[0]
                return Attribution(
                    TextPrediction(text), title, (extra,), weights, options
                )
            extras.append(extra)
        by_role = self.compute_lookups(inputs, output)
        role: str | None = options.role
        if not self.is_pair and role in ("encoder", "decoder"):
            role = "self"
        role = role or next(iter(by_role))
        if role not in by_role:
            raise InputError(
                f"{type(self.network).__name__} returns no maps of the role {role}; it "
                f"has {', '.join(by_role)}"
            )
        lookups = [by_role.pop(role), *by_role.values()]
        lookups[0] = with_maps(lookups[0], *extras)
        while len(lookups) > 1 and sum(item.weights.size for item in lookups) > PAGE:
            lookups.pop()
        network = self.network
        text = ""
        if output:
            text = self.vocabulary.decode(output).strip()
        elif "Classification" in type(network).__name__ and inputs.network is network:
            logits = network(**inputs.tensors).logits
            if logits.ndim == 2:
                text = str(network.config.id2label[int(logits[0].argmax())])
        if not inputs.text:
            title = Path(title).name
        return Attribution(
            TextPrediction(text or title),
            title,
            tuple(lookups),
            mean_alignment(lookups[0], options.maps),
            options,
            has_heads=True,
        )

    def _explain(
        self,
        inputs: NetworkInput,
        output: tuple[int, ...],
        kinds: Sequence[Kind],
        options: AttributionOptions,
    ) -> Attributed:
        """Return the maps of other kinds: from each written token, or from the class.

        Raises:
            InputError: The model reads no text, or neither writes nor classifies.
        """
        network, tensors, text = inputs.network, inputs.tensors, inputs.text
        if not text:
            raise InputError(
                f"{', '.join(kinds)} maps of a transformers model are of texts; leave "
                "--kind out"
            )
        choices = output
        rows = slice(len(text) - 1, -1)
        if output and self.is_pair:
            choices = output[1:]
            rows = slice(None)
            tensors = {**tensors, "decoder_input_ids": self._single(output[:-1])}
        elif output:
            text = (*text, *output)
            check_ids(network, text)
            tensors = {"input_ids": self._single(text)}

        masked: list[int] | None = None

        def compute() -> Tensor:
            logits = network(**tensors).logits
            if masked is not None:
                return logits[0, masked]
            return logits[0, rows] if output else logits

        names: Sequence[str] = side(self.vocabulary, choices).pieces
        if not output:
            logits = getattr(network(**tensors), "logits", None)
            mask = self.tokenizer.mask_token_id
            masked = [place for place, token in enumerate(text) if token == mask]
            if logits is not None and logits.ndim == 3 and masked:
                choices = logits[0, masked].argmax(-1).tolist()
                names = self.vocabulary.pieces(choices)
            elif logits is not None and logits.ndim == 2 and logits.shape[1] > 1:
                choices = [int(logits.argmax())]
                names = [str(network.config.id2label[choices[0]])]
                masked = None
            else:
                raise InputError(
                    f"{type(network).__name__} predicts nothing here that an input could "
                    f"change, so there is no {kinds[0]}; leave --kind out, or write "
                    "[MASK] for a masked language model"
                )
        read = side(self.vocabulary, text)
        explained = Explained(names, choices, compute)
        modules = self.model.self_attention
        if output and self.is_pair:
            modules = self._find_cross_attention(compute)
        return attribute_tokens(
            self.model, read, explained, replace(options, kinds=kinds), names=modules
        )

    def _find_cross_attention(self, call: Callable[[], object]) -> tuple[str, ...]:
        """Return the modules by which a decoder attends to its source.

        In each of its layers they follow those of its own text.
        """
        inner = {id(module) for module in self.network.get_decoder().modules()}
        with record_places(self.model, self.model.self_attention) as maps:
            call()
        names = [name for name in maps if id(self.model.get_submodule(name)) in inner]
        return tuple(names[1::2])

    def _write_output(
        self, example: Example, inputs: NetworkInput, options: AttributionOptions
    ) -> tuple[int, ...]:
        """Return the tokens of the target, or those that the model writes."""
        network = self.network
        ids = options.target_tokens
        has_target = options.target is not None or ids is not None
        can_write = network is inputs.network and "predict" in self.supports
        if not can_write and not has_target and not self.is_pair:
            return ()
        if not can_write and has_target is not self.is_pair:
            advice = "remove --target" if has_target else "give its output by --target"
            raise InputError(
                f"{type(network).__name__} writes nothing by itself; {advice}"
            )
        if options.target is not None:
            ids = self.tokenizer(
                text_target=options.target, add_special_tokens=self.is_pair
            )["input_ids"]
        elif ids is None:
            limit = None if self.is_pair else position_limit(network)
            room = WRITTEN if limit is None else limit - len(inputs.text)
            if room < 1:
                return ()
            search = PredictOptions(tokens=min(WRITTEN, room), beam=options.beam or 1)
            ids = self._generate(example, search).ids
        check_ids(network, [*ids])
        start = getattr(network.config, "decoder_start_token_id", None)
        if not self.is_pair or start is None or [*ids[:1]] == [start]:
            return tuple(ids)
        return (start, *ids)

    def compute_lookups(
        self, inputs: NetworkInput, output: tuple[int, ...]
    ) -> dict[str, Lookups]:
        """Run the network once, and return its lookups by role, the default first.

        Raises:
            InputError: There are too many tokens or weights, or the network returns no
                weights of queries by keys.
        """
        network = inputs.network
        tensors = inputs.tensors
        text = inputs.text
        read = output[:-1] or output
        if self.is_pair:
            tensors = {**tensors, "decoder_input_ids": self._single(read)}
        elif output:
            text = (*text, *output)
            check_ids(network, text)
            tensors = {"input_ids": self._single(text)}
        check_size(network, max(len(text), len(output)))
        lookups: dict[str, Lookups] = {}
        for role, weights in run_with_weights(network, tensors).items():
            patches = recording = None
            if role == "decoder" or text:
                ids = read if role == "decoder" else text
                source = side(self.vocabulary, ids)
            else:
                count = weights.shape[-1]
                source, patches = inputs.label(count)
                heard = len(source.pieces)
                if heard < count:  # the others are of a sound's padding
                    queries = slice(None if role == "cross" else heard)
                    weights = weights[:, :, queries, :heard]
                    weights = weights / weights.sum(-1, keepdim=True)
                if inputs.sound:
                    if role != "cross":  # a picture for each moment says little
                        patches = None
                    recording = SoundParts(inputs.sound, inputs.seconds / count)
            target, words = source, None if patches else source.words
            if role == "cross":
                target = side(self.vocabulary, output[1:])
            if weights.shape[2:] != (len(target.pieces), len(source.pieces)):
                continue  # there is no output, or keys are no tokens
            lookup = Lookups(
                weights.cpu().numpy(),
                source.pieces,
                target.pieces,
                NAMES[role],
                source_words=words,
                target_words=words if target is source else target.words,
                patches=patches,
                recording=recording,
            )
            lookups[role] = label_sinks(lookup)
        if not lookups:
            raise InputError(
                f"the attention of {type(network).__name__} (model type "
                f"{network.config.model_type}) cannot be shown: it returns no weights of "
                "queries by keys"
            )
        if output and "self" in lookups:
            first = len(inputs.text) - 1
            new = side(self.vocabulary, output)
            rows = slice(first, first + len(output))
            written = select_rows(lookups["self"], rows, new.pieces, new.words)
            return {"written": replace(written, name="written tokens"), **lookups}
        return lookups

    def _single(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=self.device)

    @torch.no_grad()
    def embed(
        self,
        texts: Sequence[Example],
        *,
        pool: Literal["mean", "first"] | None = None,
        prompt: str | None = None,
    ) -> Tensor:
        """Return a vector for each text, image or sound, `(example, width)`.

        The modules of a sentence-transformers folder compute it. With `pool`, or for
        another model, it is the mean or the first of the last states.

        Args:
            texts: The examples.
            pool: The states of which the vector is made.
            prompt: The name of a prompt of a sentence-transformers folder.

        Raises:
            InputError: The model cannot take an example, or there is no such prompt.
        """
        modules = self.modules
        if modules is None or pool is not None:
            if prompt is not None:
                raise InputError(
                    f"{self.config.name} has no prompt for such a vector; leave --prompt "
                    "or --pool out"
                )
            rows = [self.states(self.read_input(text)) for text in texts]
            vectors = [row[0] if pool == "first" else row.mean(0) for row in rows]
            return torch.stack(vectors).float()
        texts = [modules.prompt(prompt) + str(text) for text in texts]
        rows = [self.states(modules.encode(self, text)) for text in texts]
        return torch.stack([modules.vector(row) for row in rows])

    @torch.no_grad()
    def token_states(self, text: str) -> tuple[list[str], Tensor]:
        """Return the tokens of a text and the states whose mean is its vector.

        Raises:
            InputError: Its vector is no mean, or the model takes no text.
        """
        modules = self.modules
        if modules is not None and not modules.is_mean:
            raise InputError(
                f"{self.config.name} does not embed a text by the mean of its tokens, so "
                "a similarity has no exact parts"
            )
        if modules is None:
            inputs = self.read_input(text)
        else:
            inputs = modules.encode(self, modules.prompt(None) + text)
        if not inputs.text:
            raise InputError(f"{self.config.name} reads no texts; give it two texts")
        return list(self.vocabulary.pieces(inputs.text)), self.states(inputs)

    def states(self, inputs: NetworkInput) -> Tensor:
        """Return the last states of an example, of an encoder-decoder the encoder's."""
        network = inputs.network
        part = network.get_encoder() if self.is_pair else network.base_model
        return part(**inputs.tensors).last_hidden_state[0]


def check_ids(network: Any, ids: Sequence[int]) -> None:
    """Check that a network embeds ids and has positions for them.

    Raises:
        InputError: It doesn't.
    """
    rows = embedding_of(network).weight.shape[0]
    limit = position_limit(network)
    if max(ids, default=0) >= rows:
        raise InputError(
            f"the tokenizer gives the id {max(ids)}, but the model has {rows:,} "
            "embeddings; use the tokenizer that belongs to the model"
        )
    if limit is not None and len(ids) > limit:
        raise InputError(
            f"the text has {len(ids):,} tokens, but the model has {limit:,} positions; "
            "shorten it"
        )


def check_size(network: Any, tokens: int) -> None:
    """Raise InputError for a text with more weights than are kept."""
    config = network.config.get_text_config()
    maps = 1
    for name in ("num_hidden_layers", "num_attention_heads"):
        count = getattr(config, name, 1)
        maps *= count if isinstance(count, int) else 1
    if maps * tokens**2 > MOST_WEIGHTS:
        limit = int((MOST_WEIGHTS / maps) ** 0.5)
        raise InputError(
            f"the text has {tokens:,} tokens, and {maps} maps of them are too large to "
            f"show; shorten it to {limit:,} tokens, or record some rows or the greatest "
            "weights with regard.record"
        )


def run_with_weights(network: Any, tensors: Tensors) -> Tensors:
    """Run a network once, and return its weights `(layer, head, query, key)` by role."""
    try:
        outputs = run_plain(network, tensors)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the attention of {type(network).__name__} cannot be shown ({error})"
        ) from error
    # Longformer and LED have a column for each place of a window
    is_windowed = "attention_window" in network.config.to_dict()
    roles = {}
    for role, name in OUTPUTS.items():
        layers = [layer for layer in outputs.get(name) or () if layer is not None]
        shapes = {tuple(layer.shape) for layer in layers}
        if len(shapes) != 1 or layers[0].ndim != 4 or len(layers[0]) != 1:
            continue
        is_square = layers[0].shape[-1] == layers[0].shape[-2]
        if role in ("cross", "decoder") or (is_square and not is_windowed):
            roles[role] = torch.cat(layers).float()
    return roles


def open_model(name: Path | str, *, allow_missing: bool = False) -> TransformersRun:
    """Open the transformers model in a folder, or on the hub by OWNER/NAME.

    Args:
        name: The folder, also that of a sentence-transformers model, or the name.
        allow_missing: Whether parameters that the weights lack stay as initialized.

    Raises:
        InputError: The files are incomplete or unsafe, or the tokenizer does not belong
            to the model.
        RunError: The hub does not answer.
    """
    parent, _ = find_published(str(name))
    library = require_transformers(str(parent.path))
    folder = parent
    if parent.has(MODULES) and not parent.has(CONFIG):
        folder = list_modules(parent)[0][1]
    names = check_published(folder).get("architectures") or ["AutoModel"]
    kind = getattr(library, str(names[0]), None)
    is_model = isinstance(kind, type) and issubclass(kind, library.PreTrainedModel)
    if not is_model and kind is not library.AutoModel:
        raise InputError(
            f"{folder.path}: transformers {library.__version__} has no model named "
            f"{names[0]!r}. Install a newer version."
        )
    network, missing = load_network(kind, folder)
    if not allow_missing:
        check_complete(folder, network, missing)
    reads = network.main_input_name
    parts = {}
    if reads == "input_ids" or network.config.is_encoder_decoder:
        parts["tokenizer"] = load_part(folder, "AutoTokenizer")
    if reads in SOUNDS:
        parts["sounds"] = load_part(folder, "AutoFeatureExtractor")
    elif any(map(folder.has, PROCESSORS)):
        parts["images"] = load_part(folder, "AutoImageProcessor")
    return TransformersRun(
        parent.path.resolve().name,
        network.eval(),
        **parts,
        modules=read_modules(parent),
    )


def show_network(
    model: Any, tokenizer: Any, text: Any, /, **settings: Any
) -> Attribution:
    """Return the attention of a transformers model on a text.

    Args:
        tokenizer: Its tokenizer, or the image processor or feature extractor of a model
            of images or sounds.
        text: The text, two of them, or the path of an image or a sound.
        **settings: Fields of `AttributionOptions`.

    Raises:
        InputError: The tokenizer is of another model, the input is too long, or the
            attention of the model cannot be shown.
    """
    name = type(model).__name__
    parts = {"tokenizer": tokenizer}
    if model.main_input_name == "pixel_values":
        parts = {"images": tokenizer}
    elif model.main_input_name in SOUNDS:
        parts["sounds"] = getattr(tokenizer, "feature_extractor", tokenizer)
        parts["tokenizer"] = getattr(tokenizer, "tokenizer", None)
    is_training = model.training
    try:
        run = TransformersRun(name, model.eval(), **parts)
        return run.show(text, **settings)
    finally:
        model.train(is_training)
