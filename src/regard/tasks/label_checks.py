"""Labels that are probably no classes: numbers, several labels in one, a header."""

from collections.abc import Iterable, Mapping, Sequence

from regard.errors import InputError

NUMBERS = 20
"""The most different decimal numbers that are classes."""
IMBALANCED = 10
"""How many times as frequent as the rarest a class is that deserves a mention."""
SEPARATORS = "|;,"
UNDECIDED = "-"


def check_numbers(labels: Sequence[str], path: str | None) -> None:
    """Raises InputError for labels that are many different decimal numbers, which no classifier tells apart."""
    classes = set(labels)
    numbers = _numbers(classes)
    if len(numbers) > NUMBERS and any(each % 1 for each in numbers):
        raise InputError(
            f"{path}: the labels are {len(classes)} different numbers from {min(numbers):g} to {max(numbers):g}, and "
            "classification predicts one of a few classes; predict a number by the task regression, or group them into "
            "classes"
        )


def label_warnings(classes: Mapping[str, int], first: str = "") -> list[str]:
    """What labels are probably instead of classes. `first` is the label of the first row."""
    found = []
    if UNDECIDED in classes and "+" not in classes:
        found.append(
            f"{classes[UNDECIDED]:,} training examples have the label {UNDECIDED!r}, with which SNLI and MultiNLI mark "
            "texts whose annotators do not agree, and a class is expected; --set data.ignore=- leaves such rows out of "
            "all sets"
        )
    numbers = _numbers(classes)
    if len(numbers) > NUMBERS:
        found.append(
            f"the labels are {len(classes)} different numbers from {min(numbers):g} to {max(numbers):g}, each a class "
            "of its own here; to predict a number, use the task regression"
        )
    elif separator := _separator(classes):
        example = next(label for label in classes if separator in label)
        found.append(
            f"labels such as {example!r} look like several labels with {separator!r} between; here each is one class "
            "of its own: for several labels of one text, use the task multi-label"
        )
    rare = [label for label, count in classes.items() if count == 1]
    if first in rare and len(rare) == 1 and len(classes) > 2:
        found.append(f"the class {first!r} is that of the first row only; is this row a header? Name columns then")
    elif rare and not found:
        found.append(f"{len(rare)} of {len(classes)} classes have a single training example, such as {rare[0]!r}")
    return found


def imbalance(classes: Mapping[str, int]) -> list[str]:
    """A hint where some class is far more frequent than another."""
    most, least = max(classes.values()), min(classes.values())
    if most <= IMBALANCED * least:
        return []
    return [
        f"the most frequent class has {most:,} training examples and the rarest {least:,}; class_weights=balanced "
        "counts each class as much as another"
    ]


def _numbers(labels: Iterable[str]) -> list[float]:
    """The labels as numbers; none if one of them is not a number."""
    found = []
    for label in labels:
        try:
            found.append(float(label))
        except ValueError:
            return []
    return found


def _separator(classes: Mapping[str, int]) -> str:
    """What separates several labels in one: most of the parts occur in more than one label."""
    for separator in SEPARATORS:
        joined = [label.split(separator) for label in classes if separator in label]
        parts = [part.strip() for label in joined for part in label]
        known = {label for label in classes if separator not in label}
        shared = sum(part in known or parts.count(part) > 1 for part in parts) if len(parts) < 10_000 else 0
        if parts and all(parts) and 2 * shared > len(parts):
            return separator
    return ""
