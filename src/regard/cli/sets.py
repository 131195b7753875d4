"""Sets of numbers as a user writes them."""

import json
import math
from typing import TYPE_CHECKING

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.pointer.data import Element
    from regard.tasks.pointer.run import Pointed


def parse(text: str) -> "list[Element]":
    """`0.5 0.1 0.7`, or of points `0.5,0.2 0.1,0.9`. Raises InputError for what is no number."""
    return [tuple(_number(part, element) for part in element.split(",")) for element in text.split()]


def _number(part: str, element: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{element!r} is no element; expected numbers between blanks, those of a point with commas")
    return number


def line(text: str, pointed: "Pointed", *, as_json: bool) -> str:
    """The places, counted from 0, as a line."""
    if not as_json:
        return " ".join(map(str, pointed.places))
    return json.dumps({"set": text, "places": pointed.places, "score": pointed.score}, ensure_ascii=False)
