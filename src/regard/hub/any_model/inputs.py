"""The loading of a transformers model from a folder, with the same checks as an import."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.audio import LONGEST, decode_audio, read_audio, resample
from regard.errors import InputError, quote
from regard.images import decode_image, read_image
from regard.maps.alignment import Words
from regard.maps.heads import Side
from regard.maps.lookups import Patches, patch_labels
from regard.models.published import (
    check_published,
    first_line,
    load_part,
    quiet_library,
    require_transformers,
)
from regard.storage.published_folder import CONFIG, PublishedFolder

SOUNDS = ("input_features", "input_values")
"""The main inputs of models that read sounds."""
MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
"""Files of image processors; transformers 5 writes the second."""


@dataclass(frozen=True)
class Loaded:
    """A model with the parts that turn an example into its inputs.

    A part that the model does not need is None. `folder` has the files of the model.
    """

    name: str
    model: Any
    tokenizer: Any = None
    images: Any = None
    sounds: Any = None
    folder: PublishedFolder | None = None


def load_model(
    folder: Path, root: Path | None = None, *, allow_missing: bool = False
) -> Loaded:
    """Load the transformers model in a folder.

    Args:
        folder: The folder, also that of a sentence-transformers model.
        root: The folder below which links may lead anywhere; by default `folder`.
        allow_missing: Whether parameters that the weights lack stay as initialized.

    Raises:
        InputError: The files are incomplete or unsafe (`check_published`), or the
            tokenizer does not belong to the model.
    """
    whole = PublishedFolder(folder, root)
    require_transformers(str(folder))
    part = text_folder(whole)
    config = check_published(part)
    loaded = _loaded(part, _load_network(part, config, allow_missing))
    return replace(loaded, name=whole.path.resolve().name, folder=whole)


def _loaded(folder: PublishedFolder, model: Any) -> Loaded:
    """Return the model with the parts that its main input needs."""
    name = model.main_input_name
    place = folder.path.resolve().name
    tokenizer = None
    if name == "input_ids" or model.config.is_encoder_decoder:
        tokenizer = load_part(folder, "AutoTokenizer")
        check_tokenizer(str(folder.path), len(tokenizer), count_embeddings(model))
    if name in SOUNDS:
        sounds = load_part(folder, "AutoFeatureExtractor")
        return Loaded(place, model, tokenizer, sounds=sounds)
    images = None
    if any(folder.has(file) for file in PROCESSORS):
        images = load_part(folder, "AutoImageProcessor")
    return Loaded(place, model, tokenizer, images)


def _load_network(
    folder: PublishedFolder, config: dict[str, Any], allow_missing: bool
) -> Any:
    """Load the published class, or the base model for a class without a name.

    Raises:
        InputError: The class is unknown, or its weights are incomplete.
    """
    library = require_transformers(str(folder.path))
    names = config.get("architectures") or ["AutoModel"]
    kind = getattr(library, str(names[0]), None)
    is_model = isinstance(kind, type) and issubclass(kind, library.PreTrainedModel)
    if names[0] == "AutoModel":
        kind = library.AutoModel
    elif kind is None or not is_model:
        raise InputError(
            f"{folder.path}: transformers {library.__version__} has no model named "
            f"{names[0]!r}. Install a newer version."
        )
    try:
        with quiet_library():
            model, report = kind.from_pretrained(
                folder.path,
                dtype="auto",
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder.path}: transformers cannot load it ({first_line(error)})"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing and not allow_missing:
        raise InputError(
            f"{folder.path}: its weights lack {len(missing)} parameters of "
            f"{type(model).__name__}, such as {missing[0]}; download it again, or give "
            "--allow-missing"
        )
    return model.eval()


def count_embeddings(model: Any) -> int:
    """Return the number of tokens that a model, or its text tower, embeds."""
    part = dict(model.named_children()).get("text_model", model)
    return part.get_input_embeddings().weight.shape[0]


def check_tokenizer(place: str, tokens: int, rows: int) -> None:
    """Raise InputError for a tokenizer with more tokens than the model embeds."""
    if tokens > rows:
        raise InputError(
            f"{place}: its tokenizer has {tokens:,} tokens, but the model has {rows:,} "
            "embeddings; use the tokenizer that belongs to the model"
        )


def text_folder(folder: PublishedFolder) -> PublishedFolder:
    """Return the folder of the transformers model.

    In a sentence-transformers folder it is that of the first module, else the folder
    itself.
    """
    if not folder.has(MODULES) or folder.has(CONFIG):
        return folder
    return module_folder(folder, list_modules(folder)[0])


def list_modules(folder: PublishedFolder) -> list[dict[str, Any]]:
    """The modules in their order. Raises InputError for anything else."""
    tokens = folder.array(MODULES)
    if not tokens or not all(isinstance(part, dict) for part in tokens):
        raise InputError(f"{folder.path / MODULES}: expected a list of modules")
    return tokens


def module_folder(
    folder: PublishedFolder, module: Mapping[str, Any]
) -> PublishedFolder:
    """The folder of a module. Raises InputError for a path that leads out of the whole."""
    path = Path(str(module.get("path", "")))
    if path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{folder.path / MODULES}: the path {str(path)!r} leads out of the folder; refused"
        )
    return PublishedFolder(folder.path / path, folder.root or folder.path)


MARKS = ("Ġ", "▁")
"""Marks before a token that begins a word, of byte-level BPE and of SentencePiece."""


def side_of(tokenizer: Any, ids: Sequence[int]) -> Side:
    """The tokens with these ids and the words that they form; a special token is a word of its own."""
    found, special = (
        tokenizer.convert_ids_to_tokens(list(ids)),
        set(tokenizer.all_special_ids),
    )
    tokens = [
        f"<{index}>" if token is None else token
        for index, token in zip(ids, found, strict=True)
    ]
    vocabulary = (
        tokenizer.get_vocab()
    )  # a padded model may write an id that is not in it
    marked = any(token.startswith(MARKS) for token in vocabulary)
    pieces, indices, alone = [], [], True
    for index, token in zip(ids, tokens, strict=True):
        own = index in special
        begins = token.startswith(MARKS) if marked else not token.startswith("##")
        indices.append((indices[-1] if indices else -1) + (own or alone or begins))
        pieces.append(token if own else _label(tokenizer, index, token))
        alone = own
    words = [""] * (indices[-1] + 1 if indices else 0)
    for piece, index in zip(pieces, indices, strict=True):
        words[index] += piece.removeprefix("##")
    return Side(tuple(pieces), Words(tuple(words), tuple(indices)))


def _label(tokenizer: Any, index: int, token: str) -> str:
    """A token as text: without the mark of a word's beginning, bytes as characters where they are some."""
    if token.startswith("##"):
        return token
    text = tokenizer.decode([index]).strip()
    return text if text and "\ufffd" not in text else token


def numbered(count: int, name: str) -> Side:
    """Labels of positions without text."""
    return Side.of([f"{name} {number}" for number in range(count)])


def moments(count: int, seconds: float) -> Side:
    """Labels of a sound's positions: when each begins."""
    return Side.of([f"{number * seconds / count:.2f} s" for number in range(count)])


UNLIMITED = 10**9
"""Tokenizers without a limit have at least this one."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"})


@dataclass(frozen=True)
class SentFile:
    """The bytes of an image or a sound that came without a path."""

    content: bytes


Example = str | SentFile
"""A text, two texts with a tab between, the path of an image or a sound, or such a file's bytes."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model for one example.

    model: the part of the model that reads them, the whole or one tower.
    tensors: by the names of its parameters.
    text: the tokens, `(token,)`; None for images and sounds.
    pixels: the image as it is shown; None without one.
    seconds: the length of a sound; 0 without one.
    """

    model: Any
    tensors: dict[str, Tensor]
    text: tuple[int, ...] | None = None
    pixels: np.ndarray | None = None
    seconds: float = 0.0

    def side(self, tokenizer: Any, count: int) -> tuple[Side, Patches | None]:
        """The labels of `count` positions, and the image that they are patches of."""
        if self.text is not None and len(self.text) == count:
            return side_of(tokenizer, self.text), None
        if self.pixels is not None and (grid := self._grid(count)) is not None:
            rows, columns = grid
            first = count - rows * columns
            before = tuple(
                "[CLS]" if number == 0 else f"token {number}" for number in range(first)
            )
            return Side.of(before + patch_labels(rows, columns)), Patches(
                self.pixels, rows, columns, first
            )
        return (
            moments(count, self.seconds)
            if self.seconds
            else numbered(count, "position")
        ), None

    def _grid(self, count: int) -> tuple[int, int] | None:
        """The rows and columns of patches among `count` positions, of which a few come before."""
        size = getattr(self.model.config, "patch_size", None)
        if not isinstance(size, int):
            return None
        height, width = self.tensors["pixel_values"].shape[-2:]
        rows, columns = height // size, width // size
        return (rows, columns) if 0 <= count - rows * columns <= 8 else None


def inputs_of(loaded: Loaded, example: Example) -> Inputs:
    """The inputs of an example: a file for a model that reads images or sounds, else a text, or two with a tab between.

    Raises InputError for a file that cannot be read, and for a text that is empty or longer than the model's positions.
    """
    model, name = loaded.model, loaded.model.main_input_name
    if loaded.sounds is not None:
        return _sound(loaded, example)
    towers = {
        each: part
        for each, part in model.named_children()
        if each in ("vision_model", "text_model")
    }
    picture = isinstance(example, SentFile) or Path(example).suffix.lower() in PICTURES
    if name == "pixel_values" or (len(towers) == 2 and picture):
        alone = len(towers) == 2 or not model.config.is_encoder_decoder
        return _image(
            loaded, towers.get("vision_model", model) if alone else model, example
        )
    model = towers["text_model"] if len(towers) == 2 else model
    assert isinstance(example, str), "a run for texts makes no file of its inputs"
    return text_inputs(loaded.tokenizer, model, example)


def text_inputs(tokenizer: Any, model: Any, example: str) -> Inputs:
    """The inputs of a text, or of two with a tab between. Raises InputError as `inputs_of`."""
    first, tab, second = example.partition("\t")
    return _batch(
        model,
        tokenizer(*((first, second) if tab else (first,)), return_tensors="pt"),
        example,
    )


def cut_inputs(tokenizer: Any, model: Any, text: str, longest: int | None) -> Inputs:
    """The inputs of one text, whose end is cut off beyond `longest` tokens, those around it included; by default beyond
    what the tokenizer and the model take. Raises InputError for ids beyond the model's embeddings."""
    limits = (
        tokenizer.model_max_length if longest is None else longest,
        positions(model),
    )
    most = min(part for part in limits if part is not None)
    cut = {"truncation": True, "max_length": most} if most < UNLIMITED else {}
    return _batch(model, tokenizer(text, return_tensors="pt", **cut), text)


def _batch(model: Any, batch: Any, example: str) -> Inputs:
    """The inputs that a model reads of what a tokenizer gave."""
    parameters = _parameters(model)
    tensors = {
        key: part.to(model.device) for key, part in batch.items() if key in parameters
    }
    ids = tensors["input_ids"][0].tolist()
    if not ids:
        raise InputError(f"{quote(example)} has no token; write a text")
    check_ids(model, ids)
    return Inputs(model, tensors, tuple(ids))


def check_ids(model: Any, ids: Sequence[int]) -> None:
    """Raises InputError for ids beyond the model's embeddings, or more of them than it has positions."""
    rows = count_embeddings(model)
    if max(ids) >= rows:
        raise InputError(
            f"the tokenizer gives the id {max(ids)}, but the model has {rows:,} embeddings; "
            "use the tokenizer that belongs to the model"
        )
    limit = positions(model)
    if limit is not None and len(ids) > limit:
        raise InputError(
            f"the text has {len(ids):,} tokens, but the model has {limit:,} positions; shorten it"
        )


def positions(model: Any) -> int | None:
    """The most positions of a text; None for a model without a limit."""
    for name, part in model.named_modules():
        if (
            name.endswith("position_embeddings")
            and isinstance(part, nn.Embedding)
            and part.padding_idx is not None
        ):
            return (
                part.num_embeddings - part.padding_idx - 1
            )  # the first ones belong to padding
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _image(loaded: Loaded, model: Any, example: Example) -> Inputs:
    if loaded.images is None:
        raise InputError(
            f"{loaded.name} has no preprocessor_config.json, so an image cannot be prepared for it"
        )
    image = (
        decode_image(example.content)
        if isinstance(example, SentFile)
        else read_image(Path(example))
    )
    tensors = dict(loaded.images(images=image, return_tensors="pt"))
    parameters = _parameters(model)
    tensors = {
        key: part.to(model.device) for key, part in tensors.items() if key in parameters
    }
    shown = tensors["pixel_values"][0].float().cpu().numpy()
    shown = np.moveaxis(shown, 0, -1)
    low, high = shown.min(), shown.max()
    pixels = ((shown - low) / max(high - low, 1e-9) * 255).round().astype(np.uint8)
    return Inputs(model, tensors, pixels=pixels)


def _sound(loaded: Loaded, example: Example) -> Inputs:
    rate = loaded.sounds.sampling_rate
    most = getattr(
        loaded.sounds, "n_samples", None
    )  # of a model with windows of one length, such as Whisper
    longest = LONGEST if most is None else most / rate
    sent = isinstance(example, SentFile)
    sound = resample(
        decode_audio(example.content, longest)
        if sent
        else read_audio(example, longest),
        rate,
    )
    batch = loaded.sounds(sound.samples, sampling_rate=rate, return_tensors="pt")
    tensors = {
        loaded.model.main_input_name: batch[loaded.model.main_input_name].to(
            loaded.model.device
        )
    }
    feature = tensors[loaded.model.main_input_name]
    hop = getattr(loaded.sounds, "hop_length", 1)
    return Inputs(loaded.model, tensors, seconds=feature.shape[-1] * hop / rate)


def _parameters(model: Any) -> set[str]:
    """The names of the parameters of a model's call."""
    return set(inspect.signature(model.forward).parameters)


def single(ids: Sequence[int], device: torch.device) -> Tensor:
    """Ids as a batch of one, `(1, token)`."""
    return torch.tensor([list(ids)], device=device)
