"""Published models as the transformers library loads them: checks, tokenizer, weights.

No code of a publisher runs: weights are safetensors, `trust_remote_code` is never set,
and every file lies inside the folder.
"""

import inspect
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.extras import how_to_install
from regard.storage.published_folder import CONFIG, INDEX, WEIGHTS, PublishedFolder
from regard.storage.tensors import outline
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import SpecialTokens
from regard.text.pipeline import Pipeline

ABOUT = "tokenizer_config.json"
CODE = "auto_map"
UNRELATED = (
    "architectures",
    "auto_map",
    "dtype",
    "id2label",
    "label2id",
    "torch_dtype",
    "transformers_version",
    "_name_or_path",
    "_attn_implementation",
)
"""Keys of a configuration that do not describe the network."""
QUANTIZED = (
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
MATRICES = ("weight", "weight_packed")
"""Types of quantized numbers, and how the names of quantized tensors end."""
COPIES = 2
"""A model is in memory twice while its weights are loaded."""
BYTES = 4
SMALL = 1 << 20
"""A size in a configuration that needs no comparison with the weights."""
UNLIMITED = 10**9
"""Tokenizers without a limit have at least this one."""


def require_transformers(place: str) -> Any:
    """Return the transformers library.

    Raises:
        InputError: It is not installed; the message begins with `place`.
    """
    if find_spec("transformers") is None:
        raise InputError(
            f"{place}: published models need transformers. "
            f"Install it: {how_to_install('transformers')}"
        )
    import transformers

    return transformers


@contextmanager
def quiet_library() -> Iterator[None]:
    """Silence the progress bars and reports of transformers inside the block."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    has_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()


@contextmanager
def library_call(complaint: str) -> Iterator[None]:
    """Run a call of transformers without its reports.

    Raises:
        InputError: It fails; the message begins with `complaint`.
    """
    try:
        with quiet_library():
            yield
    except Exception as error:  # its parts raise errors of their own, and bare ones
        raise InputError(f"{complaint} ({first_line(error)})") from error


OWNERS = {
    "bert": "google-bert",
    "gpt2": "openai-community",
    "openai": "openai-community",
    "roberta": "FacebookAI",
    "xlm": "FacebookAI",
    "distilbert": "distilbert",
    "distilgpt2": "distilbert",
    "distilroberta": "distilbert",
    "albert": "albert",
    "t5": "google-t5",
    "xlnet": "xlnet",
    "all": "sentence-transformers",
}
"""Owners of models that are known by short names, by the first part of these."""


def complete_name(name: Path | str) -> str:
    """Return the name on the hub of a model with a known short name, else the name."""
    owner = OWNERS.get(str(name).partition("-")[0])
    is_short = owner is not None and "/" not in str(name) and not Path(name).exists()
    return f"{owner}/{name}" if is_short else str(name)


def find_published(
    name: str,
    revision: str | None = None,
) -> tuple[PublishedFolder, str]:
    """Return the folder of a published model, and its commit on the hub.

    Args:
        name: A folder, or a model's name on the hub, OWNER/NAME, or a short one.
        revision: Branch, tag or commit on the hub.

    Returns:
        The folder, and the commit; an empty text for a folder of this machine.

    Raises:
        InputError: There is no such model.
        RunError: The hub does not answer.
    """
    path = Path(name)
    if path.exists():
        return PublishedFolder(path), ""
    from regard.storage.hub_download import fetch  # imports huggingface_hub

    return fetch(complete_name(name), revision)


def check_published(folder: PublishedFolder) -> dict[str, Any]:
    """Check a folder before anything in it is loaded, and return its configuration.

    Raises:
        InputError: A file is a link out of the folder; the model needs code of its own,
            is of an unknown type or quantized, has no safetensors, or does not fit into
            the free memory.
    """
    library = require_transformers(str(folder.path))
    _check_links(folder)
    if not folder.has(CONFIG):
        raise InputError(
            f"{folder.path}: is no run and no transformers model; it has no {CONFIG}"
        )
    config = folder.json(CONFIG)
    place = folder.path / CONFIG
    about = folder.json(ABOUT) if folder.has(ABOUT) else {}
    kind = config.get("model_type")
    is_known = isinstance(kind, str) and kind in library.CONFIG_MAPPING
    for name, document in ((CONFIG, config), (ABOUT, about)):
        code = document.get(CODE)
        if code is not None and not (name == CONFIG and is_known):
            raise InputError(
                f"{folder.path / name}: {CODE} asks for code of its own ({code}), which "
                "regard never runs. Use a model without it."
            )
    if not isinstance(kind, str):
        raise InputError(
            f"{place}: has no model_type. Expected the configuration of a "
            "transformers model."
        )
    if not is_known:
        raise InputError(
            f"{folder.path}: model type {kind!r} is unknown to transformers "
            f"{library.__version__}. Install a newer version."
        )
    if "quantization_config" in config:
        raise InputError(
            f"{folder.path}: its weights are quantized. Use the model's unquantized "
            "weights."
        )
    if not folder.has(WEIGHTS) and not folder.has(INDEX):
        raise InputError(folder.without_weights())
    check_weights(folder, config, available_memory())
    return config


def _check_links(folder: PublishedFolder) -> None:
    for path in sorted(folder.path.glob("*")):
        folder.file(path.name)


def check_weights(
    folder: PublishedFolder,
    config: Mapping[str, Any],
    available: int,
) -> None:
    """Check that weights fit into so many bytes, and fit their configuration.

    Raises:
        InputError: They don't, a file is broken, or a tensor is quantized.
    """
    names = {WEIGHTS}
    if folder.has(INDEX):
        locations = folder.json(INDEX).get("weight_map")
        if isinstance(locations, dict):
            names |= {name for name in locations.values() if isinstance(name, str)}
    count = numbers = 0
    for name in sorted(filter(folder.has, names)):
        for key, tensor in outline(folder.file(name)).items():
            if tensor.dtype in QUANTIZED and key.endswith(MATRICES):
                raise InputError(
                    f"{folder.path / name}: the weights are quantized ({key} is of "
                    f"{tensor.dtype}). Use the model that they were made from."
                )
            count += 1
            numbers += tensor.numel()
    needed = COPIES * BYTES * numbers
    if needed > available:
        raise InputError(
            f"{folder.path}: loading its weights needs {needed / 1e9:.3g} GB, but "
            f"{available / 1e9:.3g} GB of memory are free. Use a smaller model or a "
            "larger machine."
        )
    for key, value in _integers(config):
        is_depth = "layers" in key or key == "n_layer"
        limit = count if is_depth else max(numbers, SMALL)
        is_free = "token_id" in key or "length" in key or key.startswith("max_")
        if not is_free and value > limit:
            raise InputError(
                f"{folder.path / CONFIG}: {key} is {value}, and there are {count} "
                f"tensors of {numbers} numbers. Do the weights belong to another model?"
            )


def _integers(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _integers(value)
        elif type(value) is int:
            yield key, value


def available_memory() -> int:
    """Return the bytes of memory that a program can allocate."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:  # another system than Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1024 * int(text.partition("MemAvailable:")[2].split()[0])


def read_settings(folder: PublishedFolder) -> dict[str, Any]:
    """Return the keys of a model's configuration that differ from the library's.

    Raises:
        InputError: As `check_published`, or the library refuses the configuration.
    """
    check_published(folder)
    library = require_transformers(str(folder.path))
    with library_call(f"{folder.path / CONFIG}: transformers cannot read it"):
        config = library.AutoConfig.from_pretrained(
            folder.path, local_files_only=True, trust_remote_code=False
        )
        settings = json.loads(json.dumps(config.to_diff_dict(), default=str))
    result = {key: value for key, value in settings.items() if key not in UNRELATED}
    return result | {"model_type": config.model_type}


def library_config(settings: Mapping[str, Any]) -> Any:
    """Return the configuration object of transformers for the keys of a run file.

    Raises:
        InputError: The model type is unknown, or a value is invalid.
    """
    library = require_transformers("model.settings")
    values = json.loads(json.dumps(dict(settings)))
    kind = values.get("model_type")
    if kind not in library.CONFIG_MAPPING:
        raise InputError(
            f"model.settings: model type {kind!r} is unknown to transformers "
            f"{library.__version__}. Install a newer version."
        )
    with library_call("model.settings: transformers refuses them"):
        return library.CONFIG_MAPPING[kind].from_dict(values)


def load_network(
    kind: Any,
    folder: PublishedFolder,
    *,
    exact: bool = False,
) -> tuple[Any, set[str]]:
    """Load a model by one of the library's classes, in 32-bit floats.

    Args:
        kind: The class.
        folder: The folder of the model.
        exact: Whether to refuse tensors that the class does not have.

    Returns:
        The model, and the names of parameters that the weights lack.

    Raises:
        InputError: The library cannot load the files, or tensors are left over.
    """
    check_published(folder)
    with (
        library_call(f"{folder.path}: transformers cannot load it"),
        torch.random.fork_rng(devices=[]),
    ):
        model, report = kind.from_pretrained(
            folder.path,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    unexpected = sorted(report["unexpected_keys"])
    if exact and unexpected:
        raise InputError(
            f"{folder.path}: its weights have {len(unexpected)} tensors that a "
            f"{type(model).__name__} does not have, such as {unexpected[0]}"
        )
    mismatched = {str(entry[0]) for entry in report.get("mismatched_keys", ())}
    return model, set(report["missing_keys"]) | mismatched


def check_complete(
    folder: PublishedFolder,
    network: Any,
    missing: Collection[str],
) -> None:
    """Raise InputError if the weights of a network lack parameters."""
    if missing:
        raise InputError(
            f"{folder.path}: its weights lack {len(missing)} parameters of "
            f"{type(network).__name__}, such as {min(missing)}. Download it again."
        )


def load_part(folder: PublishedFolder, kind: str) -> Any:
    """Load a tokenizer, image processor or feature extractor, such as `AutoTokenizer`.

    Raises:
        InputError: The library cannot load it.
    """
    library = require_transformers(str(folder.path))
    _check_links(folder)
    part = kind.removeprefix("Auto")
    with library_call(f"{folder.path}: transformers cannot load its {part}"):
        return getattr(library, kind).from_pretrained(
            folder.path, local_files_only=True, trust_remote_code=False
        )


def convert_tokenizer(published: Any, size: int | None, place: str) -> Tokenizer:
    """Convert a tokenizer of transformers to one of kind pipeline.

    Args:
        published: The tokenizer.
        size: Number of the model's embeddings; ids behind the tokenizer's have no text.
        place: What an error begins with.

    Raises:
        InputError: It is computed in Python, or has more entries than the model.
    """
    library = require_transformers(place)
    if not isinstance(published, library.PreTrainedTokenizerFast):
        raise InputError(
            f"{place}: {type(published).__name__} is computed in Python. regard reads "
            "tokenizers of the tokenizers library."
        )
    backend = published.backend_tokenizer
    document = json.loads(backend.to_str())
    vocabulary = backend.get_vocab()
    pieces = document["model"]["vocab"]
    if not isinstance(pieces, dict):
        pieces = {piece for piece, _ in pieces}
    entries = {name: id_ for name, id_ in vocabulary.items() if name not in pieces}
    count = max(vocabulary.values()) + 1
    rows: int = count if size is None else size
    if count > rows:
        raise InputError(
            f"{place}: the tokenizer has {count} entries and the model {rows}. Use the "
            "tokenizer that belongs to the model."
        )
    unused = sorted(set(range(rows)) - {*vocabulary.values()})
    entries |= {f"<unused:{index}>": index for index in unused}
    special = special_tokens(published, unused=rows - count)
    with library_call(f"{place}: the tokenizer cannot be used"):
        pipeline = Pipeline(document, entries, special)
    settings = TokenizerSettings("pipeline", max(rows, 5))
    return Tokenizer.of_backend(settings, pipeline, special)


def special_tokens(published: Any, unused: int = 0) -> SpecialTokens:
    """Return the roles of a published tokenizer's special tokens.

    What stands around a text and between two is read from the encoding of one and of
    two texts.
    """
    backend = published.backend_tokenizer
    before, after = _layout(backend.encode("a"), 1)
    _, between, _ = _layout(backend.encode("a", "a"), 2)
    names = ("sep", "eos", "bos", "cls", "pad", "unk")
    ids = {name: getattr(published, f"{name}_token_id") for name in names}

    def first(*choices: int | None) -> int:
        return next((id_ for id_ in choices if id_ is not None), 0)

    end = first(*after[:1], ids["sep"], ids["eos"], ids["bos"])
    return SpecialTokens(
        first(ids["pad"], end),
        first(ids["unk"], end),
        first(*before[-1:], ids["cls"], ids["bos"], end),
        end,
        published.mask_token_id,
        unused=unused,
        between=min(2, len(between)),
        opens=bool(before),
        closes=bool(after),
    )


def _layout(encoding: Any, texts: int) -> list[list[int]]:
    """Return the special ids before, between and behind texts."""
    groups: list[list[int]] = [[] for _ in range(texts + 1)]
    number = 0
    for id_, text in zip(encoding.ids, encoding.sequence_ids, strict=True):
        if text is None:
            groups[number].append(id_)
        else:
            number = text + 1
    return groups


def accepts(function: Any, name: str) -> bool:
    """Return whether a function has a parameter of this name."""
    return name in inspect.signature(function).parameters


def first_line(error: BaseException) -> str:
    """Return the beginning of an error's text."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
