"""Labels that are probably no classes: numbers, several labels in one, a header."""

from collections.abc import Iterable, Mapping, Sequence

from regard.errors import InputError, quoted

FEW = 20
"""The fewest rows whose classes are compared with their number."""
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


def check_distinct(classes: Mapping[str, int], path: str | None) -> None:
    """Raises InputError where most rows have a class of their own, as those of a column of texts do."""
    rows, single = (
        sum(classes.values()),
        [label for label, count in classes.items() if count == 1],
    )
    if rows >= FEW and 2 * len(single) > rows:
        regression = (
            "; numbers are learned by the recipe regression"
            if _numbers(classes)
            else ""
        )
        raise InputError(
            f"{path}: {len(single):,} of {rows:,} training rows have a class of their own ({len(classes):,} classes in "
            f"all), such as {quoted(single[0])}; is data.label the column of the classes?{regression}"
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
            f"labels such as {quoted(example)} look like several labels with {separator!r} between; here each is one "
            "class of its own: for several labels of one text, use the task multi-label"
        )
    for alike in _alike(classes):
        named = " and ".join(f"{quoted(label)} ({classes[label]:,})" for label in alike)
        found.append(
            f"the classes {named} differ in blanks at the ends or in capitals only; if they are one class, write them "
            "alike in all files"
        )
    rare = [label for label, count in classes.items() if count == 1]
    if first in rare and len(rare) == 1 and len(classes) > 2:
        found.append(
            f"the class {quoted(first)} is that of the first row only; is this row a header? Name columns then"
        )
    elif rare and not found:
        found.append(
            f"{len(rare)} of {len(classes)} classes have a single training example, such as {quoted(rare[0])}"
        )
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


def _alike(labels: Iterable[str]) -> list[list[str]]:
    """Labels that differ in blanks at the ends or in capitals only."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(label.strip().casefold(), []).append(label)
    return [labels for labels in groups.values() if len(labels) > 1]


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
        shared = (
            sum(part in known or parts.count(part) > 1 for part in parts)
            if len(parts) < 10_000
            else 0
        )
        if parts and all(parts) and 2 * shared > len(parts):
            return separator
    return ""
