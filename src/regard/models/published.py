"""Published models as the transformers library loads them: checks, tokenizer, weights.

No code of a publisher runs: weights are safetensors, `trust_remote_code` is never set,
and every file lies inside the folder.
"""

import inspect
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.extras import how_to_install
from regard.storage import tensors
from regard.storage.published_folder import CONFIG, INDEX, WEIGHTS, PublishedFolder
from regard.text import Tokenizer, TokenizerSettings
from regard.text.pipeline import Pipeline
from regard.text.special import SpecialTokens

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
QUANTIZED = ("I8", "U8", "I32", "F8_E4M3", "F8_E5M2")
MATRICES = ("weight", "weight_packed")
"""Types of quantized numbers, and how the names of quantized tensors end."""
COPIES = 2
"""A model is in memory twice while its weights are loaded."""
BYTES = 4
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

    level, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()


def find_published(
    name: str, revision: str | None = None
) -> tuple[PublishedFolder, str]:
    """Return the folder of a published model, and its commit on the hub.

    Args:
        name: A folder, or a model's name on the hub, OWNER/NAME.
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

    return fetch(name, revision)


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
    kind = config.get("model_type")
    place = folder.path / CONFIG
    if not isinstance(kind, str):
        raise InputError(
            f"{place}: has no model_type. Expected the configuration of a "
            "transformers model."
        )
    about = folder.json(ABOUT) if folder.has(ABOUT) else {}
    for name, document in ((CONFIG, config), (ABOUT, about)):
        code = document.get(CODE)
        if code is not None and not (name == CONFIG and kind in library.CONFIG_MAPPING):
            files = ", ".join(_code_files(code)) or "unnamed"
            raise InputError(
                f"{folder.path / name}: {CODE} asks for code of its own ({files}), "
                "which regard never runs. Use a model without it."
            )
    if kind not in library.CONFIG_MAPPING:
        raise InputError(
            f"{folder.path}: model type {kind!r} is unknown to transformers "
            f"{library.__version__}. Install a newer version."
        )
    if "quantization_config" in config:
        settings = config["quantization_config"]
        method = settings.get("quant_method") if isinstance(settings, dict) else None
        raise InputError(
            f"{folder.path}: its weights are quantized ({method or 'unknown'}). Use the "
            "model's unquantized weights."
        )
    if not folder.has(WEIGHTS) and not folder.has(INDEX):
        raise InputError(folder.without_weights())
    check_memory(folder, available_memory())
    check_sizes(folder, config)
    return config


def _check_links(folder: PublishedFolder) -> None:
    for path in sorted(folder.path.glob("*")):
        folder.file(path.name)


def _code_files(code: Any) -> list[str]:
    """Return the files of classes in the form `file.Class`, or of lists of them."""
    values = code.values() if isinstance(code, dict) else [code]
    files = set()
    for value in values:
        for name in value if isinstance(value, list | tuple) else [value]:
            if name:
                module = str(name).rpartition("--")[2].partition(".")[0]
                files.add(f"{module}.py")
    return sorted(files)


def check_memory(folder: PublishedFolder, available: int) -> None:
    """Check that a model's weights fit into so many bytes.

    Raises:
        InputError: They don't fit, a file is broken, or a tensor is quantized.
    """
    needed = COPIES * BYTES * _count_numbers(folder)
    if needed > available:
        raise InputError(
            f"{folder.path}: loading its weights needs {needed / 1e9:.3g} GB, but "
            f"{available / 1e9:.3g} GB of memory are free. Use a smaller model or a "
            "larger machine."
        )


def _count_numbers(folder: PublishedFolder) -> int:
    """Return how many numbers the weights have, by the headers and the index."""
    count = _count_in_file(folder, WEIGHTS) if folder.has(WEIGHTS) else 0
    if not folder.has(INDEX):
        return count
    index = folder.json(INDEX)
    locations, about = index.get("weight_map"), index.get("metadata")
    names: set[str] = set()
    if isinstance(locations, dict):
        names = {name for name in locations.values() if isinstance(name, str)}
    total = about.get("total_size", 0) if isinstance(about, dict) else 0
    if type(total) not in (int, float) or not 0 <= total < math.inf:
        raise InputError(
            f"{folder.path / INDEX}: total_size is {total!r}; expected a number of bytes"
        )
    if names and all(folder.has(name) for name in names):
        return max(count, sum(_count_in_file(folder, name) for name in names))
    return max(count, int(total) // 2)


def _count_in_file(folder: PublishedFolder, name: str) -> int:
    count, path = 0, folder.file(name)
    for tensor, entry in tensors.check(path).items():
        if tensor == "__metadata__":
            continue
        if entry["dtype"] in QUANTIZED and tensor.endswith(MATRICES):
            raise InputError(
                f"{path}: the weights are quantized ({tensor} is of {entry['dtype']}). "
                "Use the model that they were made from."
            )
        count += math.prod(size for size in entry["shape"] if isinstance(size, int))
    return count


def check_sizes(folder: PublishedFolder, config: Mapping[str, Any]) -> None:
    """Refuse a configuration with far more layers than the weights have tensors.

    Raises:
        InputError: A number of layers exceeds the number of tensors, or a size exceeds
            the number of weights.
    """
    names = [WEIGHTS] if folder.has(WEIGHTS) else []
    if not names:
        locations = folder.json(INDEX).get("weight_map")
        names = sorted(set(locations.values())) if isinstance(locations, dict) else []
    headers = [tensors.check(folder.file(name)) for name in names if folder.has(name)]
    count = sum(len(header) for header in headers)
    numbers = _count_numbers(folder)
    for key, value in _integers(config):
        is_depth = "layers" in key or key == "n_layer"
        limit = count if is_depth else max(numbers, 1 << 20)
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
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # another system than Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = next(line for line in lines if line.startswith("MemAvailable"))
    return 1024 * int(free.split()[1])


def read_settings(folder: PublishedFolder) -> dict[str, Any]:
    """Return the keys of a model's configuration that differ from the library's.

    Raises:
        InputError: As `check_published`, or the library refuses the configuration.
    """
    check_published(folder)
    library = require_transformers(str(folder.path))
    try:
        with quiet_library():
            config = library.AutoConfig.from_pretrained(
                folder.path, local_files_only=True, trust_remote_code=False
            )
        settings = json.loads(json.dumps(config.to_diff_dict(), default=str))
    except Exception as error:  # its validators raise errors of their own
        raise InputError(
            f"{folder.path / CONFIG}: transformers cannot read it ({first_line(error)})"
        ) from error
    kept = {key: value for key, value in settings.items() if key not in UNRELATED}
    return kept | {"model_type": config.model_type}


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
    try:
        return library.CONFIG_MAPPING[kind].from_dict(values)
    except Exception as error:  # its validators raise errors of their own
        raise InputError(
            f"model.settings: transformers refuses them ({first_line(error)})"
        ) from error


def load_network(
    kind: Any, folder: PublishedFolder, *, exact: bool = False
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
    try:
        with quiet_library(), torch.random.fork_rng(devices=[]):
            model, report = kind.from_pretrained(
                folder.path,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder.path}: transformers cannot load it ({first_line(error)})"
        ) from error
    unexpected = sorted(report["unexpected_keys"])
    if exact and unexpected:
        raise InputError(
            f"{folder.path}: its weights have {len(unexpected)} tensors that a "
            f"{type(model).__name__} does not have, such as {unexpected[0]}"
        )
    mismatched = {str(entry[0]) for entry in report.get("mismatched_keys", ())}
    return model, set(report["missing_keys"]) | mismatched


def load_part(folder: PublishedFolder, kind: str) -> Any:
    """Load a tokenizer, image processor or feature extractor, such as `AutoTokenizer`.

    Raises:
        InputError: The library cannot load it.
    """
    library = require_transformers(str(folder.path))
    _check_links(folder)
    try:
        with quiet_library():
            return getattr(library, kind).from_pretrained(
                folder.path, local_files_only=True, trust_remote_code=False
            )
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        name = kind.removeprefix("Auto")
        raise InputError(
            f"{folder.path}: transformers cannot load its {name} ({first_line(error)})"
        ) from error
    except Exception as error:  # the tokenizers library raises bare Exception
        raise InputError(
            f"{folder.path}: transformers cannot load its {kind.removeprefix('Auto')} "
            f"({first_line(error)})"
        ) from error


def read_tokenizer(folder: PublishedFolder, size: int | None = None) -> Tokenizer:
    """Return a published tokenizer as one of kind pipeline.

    Args:
        folder: The folder of the model.
        size: Number of the model's embeddings; ids behind the tokenizer's have no text.

    Raises:
        InputError: The library cannot load the tokenizer, computes it in Python, or it
            has more entries than the model.
    """
    return convert_tokenizer(load_part(folder, "AutoTokenizer"), size, str(folder.path))


def convert_tokenizer(published: Any, size: int | None, place: str) -> Tokenizer:
    """Convert a tokenizer of transformers; see `read_tokenizer`."""
    library = require_transformers(place)
    if not isinstance(published, library.PreTrainedTokenizerFast):
        raise InputError(
            f"{place}: {type(published).__name__} is computed in Python. regard reads "
            "tokenizers of the tokenizers library."
        )
    backend = published.backend_tokenizer
    document = json.loads(backend.to_str())
    vocabulary = backend.get_vocab()
    entries = _entries_behind(document["model"]["vocab"], vocabulary)
    count = len(vocabulary)
    size = count if size is None else size
    if sorted(vocabulary.values()) != list(range(count)):
        count = max(vocabulary.values()) + 1
        free = set(range(count)) - {*vocabulary.values()}
        entries |= {f"<unused:{index}>": index for index in sorted(free)}
    if count > size:
        raise InputError(
            f"{place}: the tokenizer has {count} entries and the model {size}. Use the "
            "tokenizer that belongs to the model."
        )
    entries |= {f"<unused:{index}>": index for index in range(count, size)}
    special = special_tokens(published, unused=size - count)
    try:
        pipeline = Pipeline(document, entries, special)
    except Exception as error:  # the tokenizers library raises bare Exception
        raise InputError(
            f"{place}: the tokenizer cannot be used ({first_line(error)})"
        ) from error
    settings = TokenizerSettings("pipeline", max(size, 5))
    return Tokenizer.of_backend(settings, pipeline, special)


def _entries_behind(model: Any, vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Return the entries that are not pieces of the model, such as added tokens."""
    pieces = set(model) if isinstance(model, dict) else {piece for piece, _ in model}
    return {name: index for name, index in vocabulary.items() if name not in pieces}


def special_tokens(published: Any, unused: int = 0) -> SpecialTokens:
    """Return the roles of a published tokenizer's special tokens.

    What stands around a text and between two is read from the encoding of one and of
    two texts.
    """
    single, pair = _layout(published, "a"), _layout(published, "a", "a")
    first, last = single[0], single[-1]
    ends = [published.sep_token_id, published.eos_token_id, published.bos_token_id]
    end = last[0] if last else next((id_ for id_ in ends if id_ is not None), 0)
    starts = [published.cls_token_id, published.bos_token_id, end]
    start = first[-1] if first else next(id_ for id_ in starts if id_ is not None)
    pad = published.pad_token_id if published.pad_token_id is not None else end
    unknown = published.unk_token_id if published.unk_token_id is not None else end
    return SpecialTokens(
        pad,
        unknown,
        start,
        end,
        published.mask_token_id,
        unused=unused,
        between=min(2, len(pair[1])),
        opens=bool(first),
        closes=bool(last),
    )


def _layout(published: Any, *texts: str) -> list[list[int]]:
    """Return the special ids before, between and behind texts."""
    special = set(published.all_special_ids)
    marks = {
        published.bos_token_id,
        published.eos_token_id,
        published.cls_token_id,
        published.sep_token_id,
    }
    if published.unk_token_id not in marks:
        special.discard(published.unk_token_id)
    groups: list[list[int]] = [[]]
    inside = False
    for index in published(*texts, verbose=False)["input_ids"]:
        if index in special:
            if inside:
                groups.append([])
            groups[-1].append(index)
        inside = index not in special
    if len(groups) <= len(texts):
        groups += [[] for _ in range(len(texts) + 1 - len(groups))]
    return groups


def accepts(function: Any, name: str) -> bool:
    """Return whether a function has a parameter of this name."""
    return name in inspect.signature(function).parameters


def first_line(error: BaseException) -> str:
    """Return the beginning of an error's text."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
