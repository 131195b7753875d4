"""A page of two answers side by side."""

from dataclasses import replace
from typing import Any

from regard.cli.figure import Asking, Shown, of_page
from regard.cli.options import Comparing
from regard.maps.lookups import Lookups
from regard.pictures.view import View
from regard.pictures.write import write_view


def compare(runs: tuple[Any, Any], asking: Asking, comparing: Comparing) -> str:
    """Writes a page of what two runs say, or one of two texts, side by side; returns both answers. Raises InputError
    for a run that has nothing to show."""
    text = asking.text if comparing.text is None else comparing.text
    askings = asking, replace(asking, run=comparing.run or asking.run, text=text)
    shown = [of_page(run, each) for run, each in zip(runs, askings, strict=True)]
    first, second = (_named(each, label) for each, label in zip(shown, _labels(*askings), strict=True))
    title = " | ".join(dict.fromkeys(each.title for each in shown))
    sizes = {"largest": asking.looking.largest, "worked": asking.looking.worked}
    write_view(View(*first, *second, title=title, compare=len(first), **sizes), asking.out)
    return "\n".join(each.answer for each in shown)


def _named(shown: Shown, label: str) -> list[Lookups]:
    """Its lookups by what tells it from the other, and their own names where there are several."""
    several = len(shown.lookups) > 1
    return [replace(each, name=f"{label}: {each.name}" if several else label) for each in shown.lookups]


def _labels(one: Asking, other: Asking) -> tuple[str, str]:
    """What tells two apart: their runs, their texts, or both."""
    runs = [each.run.resolve().name for each in (one, other)]
    if len(set(runs)) == 1 and one.run.resolve() != other.run.resolve():
        runs = [str(each.run) for each in (one, other)]
    texts = [one.text, other.text]
    told = [each for each in (runs, texts) if len(set(each)) == 2] or [runs]
    first, second = (": ".join(parts) for parts in zip(*told, strict=True))
    return first, second
