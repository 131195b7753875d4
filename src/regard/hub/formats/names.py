"""Published tensors and the parameters they become: one table per family, used in both directions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError

LISTED = 10
Sizes = Mapping[str, tuple[int, str, int]]
"""For each key of a configuration: its size, the name of a tensor, and the axis of that size."""


@dataclass(frozen=True)
class Part:
    """One published tensor and the parameters that it stacks along the first axis; `{}` stands for a layer's number.

    A `transposed` weight is published as (in, out).
    """

    published: str
    ours: tuple[str, ...]
    transposed: bool = False

    def of_layer(self, number: int) -> "Part":
        """Return the part of one layer."""
        ours = tuple(name.format(number) for name in self.ours)
        return Part(self.published.format(number), ours, self.transposed)


def linear(published: str, *ours: str, transposed: bool = False) -> tuple[Part, Part]:
    """Return the weight and the bias of a linear map, or of several maps published as one."""
    return (
        Part(
            f"{published}.weight", tuple(f"{name}.weight" for name in ours), transposed
        ),
        Part(f"{published}.bias", tuple(f"{name}.bias" for name in ours)),
    )


def check_sizes(
    place: str, weights: Mapping[str, Tensor], layers: Mapping[str, int], sizes: Sizes
) -> None:
    """Compare numbers of `layers` and sizes in a configuration with the tensors, before anything so large is
    made.

    Raises:
        InputError: there are fewer tensors than layers, or a tensor has another size.
    """
    many = {key: count for key, count in layers.items() if count > len(weights)}
    wrong = [
        f"{key} is {count}, and there are {len(weights)} tensors"
        for key, count in many.items()
    ]
    for key, (size, name, axis) in sizes.items():
        shape = weights[name].shape if name in weights else None
        found = (
            size
            if shape is None
            else shape[axis]
            if -len(shape) <= axis < len(shape)
            else tuple(shape)
        )
        if found != size:
            wrong.append(f"{key} is {size}, and {name} has {found}")
    if wrong:
        raise InputError(
            f"{place}: {'; '.join(wrong)}; do the weights belong to another model?"
        )


def check_vocabulary(
    place: str, weights: Mapping[str, Tensor], size: int, table: str
) -> None:
    """Compare the size of a vocabulary with the rows of the tensor `table`, before a vocabulary is made.

    Raises:
        InputError: the tensor is missing, or has another number of rows.
    """
    if table not in weights:
        raise InputError(
            f"{place}: there is no tensor {table} of {size} rows; are the weights complete?"
        )
    check_sizes(place, weights, {}, {"vocab_size": (size, table, 0)})


def imported(
    parts: Sequence[Part], weights: Mapping[str, Tensor], layers: int
) -> dict[str, Tensor]:
    """Convert published tensors to parameters.

    Raises:
        InputError: tensors are missing, unknown or indivisible; the first ten of each are listed.
    """
    known = list(_every(parts, layers))
    missing = [part.published for part in known if part.published not in weights]
    unknown = sorted(set(weights) - {part.published for part in known})
    present = [part for part in known if part.published in weights]
    uneven = [part.published for part in present if not weights[part.published].ndim]
    present = [part for part in present if weights[part.published].ndim]
    uneven += [
        part.published
        for part in present
        if len(_turned(part, weights)) % len(part.ours)
    ]
    found = {"missing": missing, "not known": unknown, "of an unexpected shape": uneven}
    if any(found.values()):
        problems = "; ".join(
            f"{len(names)} {what}: {first(names)}"
            for what, names in found.items()
            if names
        )
        raise InputError(f"the tensors are not those of such a model: {problems}")
    result = {}
    for part in known:
        result |= dict(
            zip(part.ours, _turned(part, weights).chunk(len(part.ours)), strict=True)
        )
    return result


def exported(
    parts: Sequence[Part], own: Mapping[str, Tensor], layers: int
) -> dict[str, Tensor]:
    """Convert parameters to published tensors."""
    result = {}
    for part in _every(parts, layers):
        tensor = torch.cat([own[name] for name in part.ours])
        result[part.published] = tensor.mT.contiguous() if part.transposed else tensor
    return result


def _every(parts: Sequence[Part], layers: int) -> Iterator[Part]:
    for part in parts:
        yield from (
            (part.of_layer(number) for number in range(layers))
            if "{}" in part.published
            else (part,)
        )


def _turned(part: Part, weights: Mapping[str, Tensor]) -> Tensor:
    tensor = weights[part.published]
    return tensor.mT if part.transposed and tensor.ndim > 1 else tensor


def first(names: Sequence[str]) -> str:
    """Return the first ten names and the number of the others as text."""
    return ", ".join(names[:LISTED]) + (
        f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    )
