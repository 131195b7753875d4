"""Convert the tensors of an ELMo from TensorFlow's names and layout to parameters."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError
from regard.models.elmo import ElmoConfig
from regard.text.words import ALPHABET

LSTM = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell"
Tensors = dict[str, Tensor]
Turn = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PublishedTensor:
    """One published tensor: its name, its shape, and the function that converts it to parameters."""

    published: str
    shape: tuple[int, ...]
    convert: Callable[[Tensor], Tensors]


def convert_tensors(config: ElmoConfig, weights: Mapping[str, Tensor]) -> Tensors:
    """Convert published tensors to parameters. Raises InputError for missing, unknown and misshaped tensors, and lists
    the first ten of each."""
    known = list(published_tensors(config))
    wrong = [
        f"{part.published} is {tuple(weights[part.published].shape)}, expected {part.shape}"
        for part in known
        if part.published in weights and tuple(weights[part.published].shape) != part.shape
    ]
    faults = {
        "missing": [part.published for part in known if part.published not in weights],
        "not known": sorted(set(weights) - {part.published for part in known}),
        "misshaped": wrong,
    }
    if any(faults.values()):
        problems = "; ".join(f"{len(names)} {what}: {', '.join(names[:10])}" for what, names in faults.items() if names)
        raise InputError(f"the tensors are not those of such a model: {problems}")
    result: Tensors = {}
    for part in known:
        result |= part.convert(weights[part.published])
    return result


def published_tensors(config: ElmoConfig) -> Iterator[PublishedTensor]:
    """Yield every tensor of a model of these sizes."""
    width, total = config.character_width, sum(count for _, count in config.filters)
    shape = ALPHABET - 1, width
    yield _one(
        "char_embed",
        shape,
        "words.table.weight",
        lambda t: torch.cat([t.new_zeros(1, width), t]),
    )
    for number, (size, count) in enumerate(config.filters):
        name = f"words.convolutions.{number}"
        shape = 1, size, width, count
        yield _one(
            f"CNN/W_cnn_{number}",
            shape,
            f"{name}.weight",
            lambda t: t[0].permute(2, 1, 0),
        )
        yield _one(f"CNN/b_cnn_{number}", (count,), f"{name}.bias")
    for number in range(config.highways):
        for published, name in (("transform", "transform"), ("carry", "gate")):
            yield from _linear(
                f"CNN_high_{number}/{{}}_{published}",
                f"words.highways.{number}.{name}",
                (total, total),
            )
    yield from _linear("CNN_proj/{}_proj", "words.projection", (total, config.projection))
    for number in range(config.layers):
        for direction, name in enumerate(("forwards", "backwards")):
            yield from _lstm(LSTM.format(direction, number), f"reader.{name}.{number}.cell", config)


def _linear(published: str, ours: str, shape: tuple[int, int]) -> Iterator[PublishedTensor]:
    """Transpose the weight, which TensorFlow stores as (in, out)."""
    yield _one(published.format("W"), shape, f"{ours}.weight", torch.t)
    yield _one(published.format("b"), shape[1:], f"{ours}.bias")


def _lstm(published: str, ours: str, config: ElmoConfig) -> Iterator[PublishedTensor]:
    """Split the joint weight of input and state, reorder the gates from in, new, forget, out, and add TensorFlow's
    constant 1 to the forget gate's bias."""
    projection, cell = config.projection, config.cell
    both = f"{ours}.inputs.weight", f"{ours}.recurrent.weight"

    def weights(tensor: Tensor) -> Tensors:
        parts = _exchanged(tensor.t()).split(projection, 1)
        return {name: part.contiguous() for name, part in zip(both, parts, strict=True)}

    def opener(tensor: Tensor) -> Tensor:
        """Return 1 for the forget gate and 0 for the others."""
        return torch.zeros_like(tensor).index_fill(0, torch.arange(cell, 2 * cell), 1.0)

    yield PublishedTensor(f"{published}/W_0", (2 * projection, 4 * cell), weights)
    yield _one(
        f"{published}/B",
        (4 * cell,),
        f"{ours}.recurrent.bias",
        lambda t: _exchanged(t) + opener(t),
    )
    yield _one(f"{published}/W_P_0", (cell, projection), f"{ours}.projection.weight", torch.t)


def _exchanged(gates: Tensor) -> Tensor:
    """Reorder gates: in, new, forget, out -> in, forget, new, out."""
    inward, second, third, out = gates.chunk(4)
    return torch.cat([inward, third, second, out])


def _one(published: str, shape: tuple[int, ...], ours: str, turn: Turn = torch.clone) -> PublishedTensor:
    """A tensor that becomes one parameter, turned."""
    return PublishedTensor(published, shape, lambda tensor: {ours: turn(tensor).contiguous()})
