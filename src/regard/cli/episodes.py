"""Examples of classes, and an image to be told apart by them, as a user writes them."""

from regard.data.tables import parse_json
from regard.errors import InputError


def episode(place: str, text: str) -> tuple[dict[str, list[str]], str]:
    """`{"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "image": "3.png"}` -> the paths of each class, and that of
    the image. Raises InputError for anything else."""
    record, fault = parse_json(text)
    match record:
        case {"examples": dict(examples), "image": str(image)} if all(map(_paths, examples.values())):
            return examples, image
    reason = fault or 'expected an object with "examples", a list of paths for each class, and "image", a path'
    raise InputError(f"{place}: {reason}")


def _paths(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) for each in given)
