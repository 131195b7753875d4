"""A folder of a transformers model: what is checked before it is loaded, and its loading."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.extras import how_to_install
from regard.hub.any_model.sentences import text_folder
from regard.hub.formats.folder import Folder
from regard.hub.tolerances import quiet
from regard.storage.manifest import content

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
SOUNDS = ("input_features", "input_values")
"""The main inputs of models that read sounds."""
ROOM = 1.2
"""Memory that a model needs, as a multiple of its weights."""


@dataclass(frozen=True)
class Loaded:
    """A model with the parts that turn an example into its inputs, and the `folder` of its files. A part that the model
    does not need is None."""

    name: str
    model: Any
    tokenizer: Any = None
    images: Any = None
    sounds: Any = None
    folder: Folder | None = None


def load_model(
    folder: Path, root: Path | None = None, *, allow_missing: bool = False
) -> Loaded:
    """Load the transformers model in a folder, whose links may lead anywhere below `root`. With `allow_missing`,
    parameters that its weights lack stay as initialised.

    Raises InputError: the files are incomplete, the model would run its own code, its type is unknown, its weights are
    quantised or larger than the memory, or its tokenizer does not belong to it.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise InputError(
            f"{folder}: needs transformers: {how_to_install('transformers')}"
        ) from error
    whole = Folder(folder, root)
    folder = text_folder(whole)
    config = read_config(folder)
    check_config(folder, config)
    check_memory(folder, available_memory())
    with quiet(transformers.utils.logging):
        found = _loaded(folder, _model(folder, config, allow_missing))
    return replace(found, name=whole.path.resolve().name, folder=whole)


def _loaded(folder: Path, model: Any) -> Loaded:
    """The model with the parts that its main input needs."""
    name = model.main_input_name
    tokenizer = (
        None
        if name != "input_ids" and not model.config.is_encoder_decoder
        else _tokenizer(folder, model)
    )
    if name in SOUNDS:
        return Loaded(
            folder.resolve().name,
            model,
            tokenizer,
            sounds=_part(folder, "AutoFeatureExtractor"),
        )
    images = (
        _part(folder, "AutoImageProcessor")
        if (folder / "preprocessor_config.json").exists()
        else None
    )
    return Loaded(folder.resolve().name, model, tokenizer, images)


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration. Raises InputError for a missing or broken one."""
    try:
        config = _object(folder / CONFIG)
    except OSError as error:
        raise InputError(
            f"{folder}: is no run and no transformers model; it has no {CONFIG}"
        ) from error
    if not isinstance(config.get("model_type"), str):
        raise InputError(
            f"{folder / CONFIG}: has no model_type; expected the configuration of a transformers model"
        )
    return config


def _object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises InputError for another file, and OSError."""
    found = content(path)
    try:
        value = json.loads(found)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON ({error}); download it again") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: is no JSON object; download it again")
    return value


def check_config(folder: Path, config: dict[str, Any]) -> None:
    """Raises InputError for a model with code of its own, of an unknown type, or with quantised weights."""
    import transformers

    kind = config["model_type"]
    if kind not in transformers.CONFIG_MAPPING:
        if "auto_map" in config:
            classes = (
                config["auto_map"].values()
                if isinstance(config["auto_map"], dict)
                else ()
            )
            files = (
                ", ".join(
                    sorted({str(each).partition(".")[0] + ".py" for each in classes})
                )
                or "unnamed"
            )
            raise InputError(
                f"{folder}: model type {kind!r} needs code of its own ({files}), which regard never runs"
            )
        raise InputError(
            f"{folder}: model type {kind!r} is unknown to transformers {transformers.__version__}; install a newer one"
        )
    if "quantization_config" in config:
        settings = config["quantization_config"]
        method = (
            settings.get("quant_method", "unknown")
            if isinstance(settings, dict)
            else "unknown"
        )
        raise InputError(
            f"{folder}: its weights are quantised ({method}); use the model's unquantised weights, which regard reads"
        )
    if not [*folder.glob("*.safetensors")]:
        others = (
            ", ".join(sorted(each.name for each in folder.glob("*.bin")))
            or "no weights"
        )
        raise InputError(
            f"{folder}: has {others}, but no .safetensors; pickles are never read, convert them"
        )


def check_memory(folder: Path, available: int) -> None:
    """Raises InputError for weights that do not fit into so many bytes, by their index or the sizes of their files."""
    index = folder / INDEX
    total = sum(each.stat().st_size for each in folder.glob("*.safetensors"))
    if index.exists():
        about = _object(index).get("metadata")
        size = about.get("total_size", 0) if isinstance(about, dict) else 0
        if type(size) not in (int, float) or not 0 <= size < float("inf"):
            raise InputError(
                f"{index}: total_size is {size!r}; expected a number of bytes"
            )
        total = max(total, size)
    if total * ROOM > available:
        raise InputError(
            f"{folder}: its weights have {total / 1e9:.1f} GB, {available / 1e9:.1f} GB of memory are free; "
            "use a smaller model or a larger machine"
        )


def available_memory() -> int:
    """Bytes of memory that a program can allocate."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(
            1024 * int(line.split()[1])
            for line in lines
            if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):  # another system than Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _model(folder: Path, config: dict[str, Any], allow_missing: bool) -> Any:
    import transformers

    name = next(iter(config.get("architectures") or ()), "AutoModel")
    kind = getattr(transformers, name, transformers.AutoModel)
    try:
        model, report = kind.from_pretrained(
            folder,
            dtype="auto",
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: transformers cannot load it ({_line(error)})"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing and not allow_missing:
        raise InputError(
            f"{folder}: its weights lack {len(missing)} parameters of {type(model).__name__}, such as {missing[0]}; "
            "download it again, or give --allow-missing"
        )
    return model.eval()


def _tokenizer(folder: Path, model: Any) -> Any:
    """The tokenizer. Raises InputError for none, or for one of another model."""
    tokenizer = _part(folder, "AutoTokenizer")
    check_tokenizer(str(folder), len(tokenizer), embeddings(model))
    return tokenizer


def embeddings(model: Any) -> int:
    """The number of tokens that a model, or its text tower, has embeddings for."""
    part = dict(model.named_children()).get("text_model", model)
    return part.get_input_embeddings().weight.shape[0]


def check_tokenizer(place: str, tokens: int, rows: int) -> None:
    """Raises InputError for a tokenizer with more tokens than the model has embeddings."""
    if tokens > rows:
        raise InputError(
            f"{place}: its tokenizer has {tokens:,} tokens, but the model has {rows:,} embeddings; "
            "use the tokenizer that belongs to the model"
        )


def _part(folder: Path, kind: str) -> Any:
    import transformers

    try:
        return getattr(transformers, kind).from_pretrained(
            folder, local_files_only=True
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        what = kind.removeprefix("Auto")
        raise InputError(
            f"{folder}: transformers cannot load its {what} ({_line(error)})"
        ) from error


def _line(error: BaseException) -> str:
    """The first line of an error."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
