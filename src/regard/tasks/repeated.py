"""Examples for validation and test whose inputs are also in the training set."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from regard.data.splits import Splits
from regard.data.stored import Stored
from regard.tasks.summary import GENERATED, origin_of

E = TypeVar("E")
MOST = 200_000
"""The most training examples that are searched."""
MANY = 0.01
"""The share of a set from which on a warning is worth reading: short texts may be equal by chance."""


def repeated_warnings(
    data: Any, splits: Splits[E], key: Callable[[E], Hashable]
) -> list[str]:
    """A warning for each set that is held out and has many inputs, by their `key`, of the training set. Sets on disk,
    large ones and generated ones are not searched."""
    if (
        isinstance(splits.train, Stored)
        or len(splits.train) > MOST
        or origin_of(data, "train") == GENERATED
    ):
        return []
    known, found = {hash(key(each)) for each in splits.train}, []
    for name, examples in (("valid", splits.valid), ("test", splits.test)):
        count = sum(hash(key(each)) in known for each in examples)
        if count > MANY * len(examples):
            share = (
                f"{count:,} of {len(examples):,} ({100 * count / len(examples):.3g} %)"
            )
            found.append(
                f"{share} examples of {name} have an input that is also in train, so its figures are too good"
            )
    return found
