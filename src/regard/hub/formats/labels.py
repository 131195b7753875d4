"""The names of classes in a published configuration."""

from collections.abc import Sequence
from typing import Any

from regard.errors import InputError
from regard.hub.formats.settings import Settings


def read(settings: Settings, classes: int) -> tuple[str, ...]:
    """Each once: of two classes that share a name the later gets its number. Raises InputError for names of more or
    fewer classes."""
    given = settings.given.get("id2label", {str(number): f"LABEL_{number}" for number in range(classes)})
    named = isinstance(given, dict) and all(isinstance(given.get(str(number)), str) for number in range(classes))
    if not named or len(given) != classes:
        raise InputError(f"{settings.place}: id2label does not name the {classes} classes of the weights, one each")
    found: list[str] = []
    for number in range(classes):
        label = given[str(number)]
        found.append(label if label not in found else f"{label} ({number})")
    return tuple(found)


def written(labels: Sequence[str]) -> dict[str, Any]:
    """The keys that name them."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
