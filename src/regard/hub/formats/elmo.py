"""ELMo (Peters et al. 2018) as AllenNLP published it: `*options.json` with sizes, `*weights.hdf5` with tensors."""

import math

from regard.errors import InputError
from regard.hub.formats.elmo_tensors import convert_tensors
from regard.hub.formats.folder import Folder
from regard.hub.formats.names import check_sizes
from regard.hub.formats.pretrained_model import PretrainedModel
from regard.hub.formats.settings import Settings
from regard.models.elmo import ElmoConfig
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import NAMES
from regard.text.spelling import ALPHABET

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
TRAINING = (
    *(
        "all_clip_norm_val",
        "batch_size",
        "dropout",
        "n_epochs",
        "n_gpus",
        "n_train_tokens",
        "unroll_steps",
    ),
    *("n_negative_samples_batch", "n_tokens_vocab", "sample_softmax", "learning_rate"),
)
"""Options of training, which do not change the computation."""


def read(folder: Folder) -> PretrainedModel:
    """Read the model in a folder. Its word tokenizer is empty, since the output layer was not published.

    Raises:
        InputError: a file is missing, truncated or unsupported.
        ModuleNotFoundError: h5py is not installed.
    """
    options = only(folder, OPTIONS)
    config = sizes(folder, options)
    weights = folder.file(only(folder, WEIGHTS))
    from regard.hub.formats import hdf5

    tokenizer = Tokenizer.of(
        TokenizerSettings("word"), {name: index for index, name in enumerate(NAMES)}
    )
    tensors = hdf5.read(weights)
    check_sizes(
        str(folder.path / options),
        tensors,
        {"n_layers": config.layers, "n_highway": config.highways},
        {},
    )
    return PretrainedModel(config, convert_tensors(config, tensors), tokenizer)


def present(folder: Folder) -> bool:
    """Return whether a folder has the files of an ELMo."""
    return any(folder.path.glob(f"*{OPTIONS}")) and any(folder.path.glob(f"*{WEIGHTS}"))


def only(place: Folder, ending: str) -> str:
    """Return the only file name with this ending. Raises InputError for none or several."""
    names = sorted(path.name for path in place.path.glob(f"*{ending}"))
    if len(names) != 1:
        problem = (
            f"has {', '.join(names)}; leave one of them"
            if names
            else f"has no {ending}"
        )
        raise InputError(
            f"{place.path}: {problem}; expected the folder of a published ELMo, *{OPTIONS} and *{WEIGHTS}"
        )
    return names[0]


def sizes(place: Folder, name: str) -> ElmoConfig:
    """Read the config from the options. Raises InputError for an option that regard does not compute."""
    whole, path = place.json(name), str(place.path / name)
    parts = {part: whole.get(part) for part in ("lstm", "char_cnn")}
    for part, options in parts.items():
        if not isinstance(options, dict):
            raise InputError(
                f"{path}: {part} is {options!r}; expected an object of ELMo's options"
            )
    Settings(whole, path).check(tuple(parts), {"bidirectional": (True,)}, TRAINING)
    lstm, words = (
        Settings(options or {}, f"{path}: {part}") for part, options in parts.items()
    )
    lstm.check(
        ("projection_dim", "dim", "n_layers", "cell_clip", "proj_clip"),
        {"use_skip_connections": (True,)},
        TRAINING,
    )
    used = ("embedding", "filters", "n_highway", "max_characters_per_token")
    fixed = {"activation": ("relu", "tanh"), "n_characters": (ALPHABET - 1, ALPHABET)}
    words.check(used, fixed)
    embedding = words.values.get("embedding")
    try:
        return ElmoConfig(
            characters=words.size("max_characters_per_token", 50),
            character_width=Settings(
                embedding if isinstance(embedding, dict) else {}, words.place
            ).size("dim"),
            filters=filters(words),
            activation=words.values.get("activation", "relu"),
            highways=words.index("n_highway", 0),
            projection=lstm.size("projection_dim"),
            cell=lstm.size("dim"),
            layers=lstm.size("n_layers"),
            cell_clip=clip(lstm, "cell_clip"),
            projection_clip=clip(lstm, "proj_clip"),
            predictions=False,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def filters(words: Settings) -> tuple[tuple[int, int], ...]:
    """Return the pairs of width and count of the filters. Raises InputError for anything else."""
    value = words.values.get("filters")
    match value:
        case [[int(), int()], *_] if all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(type(n) is int and n > 0 for n in pair)
            for pair in value
        ):
            return tuple((size, count) for size, count in value)
    raise InputError(
        f"{words.place}: filters is {value!r}; expected pairs such as [3, 64]"
    )


def clip(lstm: Settings, key: str) -> float | None:
    """Return a clipping bound, or None without one. Raises InputError for another value."""
    value = lstm.values.get(key)
    if value is None or value == 0:
        return None
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not 0 < value < math.inf
    ):
        raise InputError(
            f"{lstm.place}: {key} is {value!r}; expected a number above 0, or null"
        )
    return float(value)
