"""ELMo as AllenNLP published it: `*options.json` with the sizes and `*weights.hdf5` with what TensorFlow named."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError
from regard.models.elmo import ElmoConfig
from regard.pretrained.folder import Folder
from regard.pretrained.names import first
from regard.pretrained.opened import Opened
from regard.pretrained.settings import Settings
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import NAMES
from regard.text.spelling import ALPHABET

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
LSTM = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell"
TRAINING = (
    *("all_clip_norm_val", "batch_size", "dropout", "n_epochs", "n_gpus", "n_train_tokens", "unroll_steps"),
    *("n_negative_samples_batch", "n_tokens_vocab", "sample_softmax", "learning_rate"),
)
"""Options that are of training alone."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Piece:
    """One published tensor: its shape, and the parameters that are made of it."""

    published: str
    shape: tuple[int, ...]
    made: Callable[[Tensor], Tensors]


def read(folder: Folder) -> Opened:
    """The model in a folder; its tokenizer cuts words and knows none, as what tells words was not published.

    Raises:
        InputError: the files are not there, not whole, or not what they should be.
        ModuleNotFoundError: h5py is not installed.
    """
    options = only(folder, OPTIONS)
    config = sizes(folder, options)
    weights = folder.file(only(folder, WEIGHTS))
    from regard.pretrained import hdf5

    tokenizer = Tokenizer.of(TokenizerSettings("word"), {name: index for index, name in enumerate(NAMES)})
    return Opened(config, renamed(config, hdf5.read(weights)), tokenizer)


def published(folder: Folder) -> bool:
    """Whether the files of such a model are in a folder."""
    return any(folder.path.glob(f"*{OPTIONS}")) and any(folder.path.glob(f"*{WEIGHTS}"))


def only(place: Folder, ending: str) -> str:
    """The one file whose name ends so. Raises InputError for none or several."""
    names = sorted(path.name for path in place.path.glob(f"*{ending}"))
    if len(names) != 1:
        told = f"has {', '.join(names)}; leave one of them" if names else f"has no {ending}"
        raise InputError(f"{place.path}: {told}; expected the folder of a published ELMo, *{OPTIONS} and *{WEIGHTS}")
    return names[0]


def sizes(place: Folder, name: str) -> ElmoConfig:
    """What the options say. Raises InputError for what the model here does not compute."""
    whole, path = place.json(name), str(place.path / name)
    parts = {part: whole.get(part) for part in ("lstm", "char_cnn")}
    for part, given in parts.items():
        if not isinstance(given, dict):
            raise InputError(f"{path}: {part} is {given!r}; expected an object of ELMo's options")
    Settings(whole, path).check(tuple(parts), {"bidirectional": (True,)}, TRAINING)
    lstm, words = (Settings(given or {}, f"{path}: {part}") for part, given in parts.items())
    lstm.check(
        ("projection_dim", "dim", "n_layers", "cell_clip", "proj_clip"), {"use_skip_connections": (True,)}, TRAINING
    )
    used = ("embedding", "filters", "n_highway", "max_characters_per_token")
    fixed = {"activation": ("relu", "tanh"), "n_characters": (ALPHABET - 1, ALPHABET)}
    words.check(used, fixed)
    embedding = words.given.get("embedding")
    try:
        return ElmoConfig(
            characters=words.size("max_characters_per_token", 50),
            character_width=Settings(embedding if isinstance(embedding, dict) else {}, words.place).size("dim"),
            filters=filters(words),
            activation=words.given.get("activation", "relu"),
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
    """Pairs of whole numbers. Raises InputError for anything else."""
    given = words.given.get("filters")
    match given:
        case [[int(), int()], *_] if all(
            isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and n > 0 for n in pair) for pair in given
        ):
            return tuple((size, count) for size, count in given)
    raise InputError(f"{words.place}: filters is {given!r}; expected pairs such as [3, 64]")


def clip(lstm: Settings, key: str) -> float | None:
    """A size, or None where there is none. Raises InputError for what is neither."""
    value = lstm.given.get(key)
    if value is None or value == 0:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise InputError(f"{lstm.place}: {key} is {value!r}; expected a number above 0, or null")
    return float(value)


def renamed(config: ElmoConfig, given: Mapping[str, Tensor]) -> Tensors:
    """Published tensors -> parameters here. Raises InputError that lists the first ten each of those that are missing,
    not known or misshaped."""
    known = list(pieces(config))
    wrong = [
        f"{piece.published} is {tuple(given[piece.published].shape)}, expected {piece.shape}"
        for piece in known
        if piece.published in given and tuple(given[piece.published].shape) != piece.shape
    ]
    problems = {
        "missing": [piece.published for piece in known if piece.published not in given],
        "not known": sorted(set(given) - {piece.published for piece in known}),
        "misshaped": wrong,
    }
    if any(problems.values()):
        told = "; ".join(f"{len(names)} {what}: {first(names)}" for what, names in problems.items() if names)
        raise InputError(f"the tensors are not those of such a model: {told}")
    result: Tensors = {}
    for piece in known:
        result |= piece.made(given[piece.published])
    return result


def pieces(config: ElmoConfig) -> Iterator[Piece]:
    """All tensors of a model of these sizes."""
    width, total = config.character_width, sum(count for _, count in config.filters)
    table = "words.table.weight"
    yield Piece("char_embed", (ALPHABET - 1, width), lambda t: {table: torch.cat([t.new_zeros(1, width), t])})
    for number, (size, count) in enumerate(config.filters):
        name = f"words.convolutions.{number}"
        yield Piece(
            f"CNN/W_cnn_{number}", (1, size, width, count), _as(f"{name}.weight", lambda t: t[0].permute(2, 1, 0))
        )
        yield Piece(f"CNN/b_cnn_{number}", (count,), _as(f"{name}.bias"))
    for number in range(config.highways):
        for published, name in (("transform", "transform"), ("carry", "gate")):
            yield from _linear(f"CNN_high_{number}/{{}}_{published}", f"words.highways.{number}.{name}", (total, total))
    yield from _linear("CNN_proj/{}_proj", "words.projection", (total, config.projection))
    for number in range(config.layers):
        for direction, name in enumerate(("forwards", "backwards")):
            yield from _lstm(LSTM.format(direction, number), f"reader.{name}.{number}.cell", config)


def _linear(published: str, ours: str, shape: tuple[int, int]) -> Iterator[Piece]:
    """TensorFlow multiplies from the other side."""
    yield Piece(published.format("W"), shape, _as(f"{ours}.weight", lambda t: t.t()))
    yield Piece(published.format("b"), shape[1:], _as(f"{ours}.bias"))


def _lstm(published: str, ours: str, config: ElmoConfig) -> Iterator[Piece]:
    """One weight for input and state, gates in the order in, new, forget, out; the forget gate is open by one more than
    its bias says."""
    projection, cell = config.projection, config.cell

    def weights(tensor: Tensor) -> Tensors:
        inputs, recurrent = _ordered(tensor.t()).split(projection, 1)
        return {f"{ours}.inputs.weight": inputs, f"{ours}.recurrent.weight": recurrent}

    def bias(tensor: Tensor) -> Tensors:
        ordered = _ordered(tensor).clone()
        ordered[cell : 2 * cell] += 1
        return {f"{ours}.recurrent.bias": ordered}

    yield Piece(f"{published}/W_0", (2 * projection, 4 * cell), weights)
    yield Piece(f"{published}/B", (4 * cell,), bias)
    yield Piece(f"{published}/W_P_0", (cell, projection), _as(f"{ours}.projection.weight", lambda t: t.t()))


def _ordered(gates: Tensor) -> Tensor:
    """In, new, forget, out -> in, forget, new, out."""
    inward, new, forget, out = gates.chunk(4)
    return torch.cat([inward, forget, new, out])


def _as(name: str, turn: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Callable[[Tensor], Tensors]:
    return lambda tensor: {name: turn(tensor).contiguous()}
