"""Spans of a text as tools for annotation write them in JSON: lists, objects, and the results of Label Studio."""

from collections.abc import Iterable, Mapping
from typing import Any

from regard.data.records import ABSENT, value_at
from regard.errors import quoted

SpanOf = tuple[int, int, str]
"""The start and the end of a span, half-open in characters, and its label."""
FORM = (
    "'start' and 'end', whole numbers, and 'label', a text, or 'labels', a list of one"
)


def spans_of(items: Iterable[Any]) -> list[SpanOf] | str:
    """The spans of a text, or what is wrong with one of them. Relations, choices and other results of Label Studio that
    are no spans are left out."""
    found = []
    for each in items:
        if _other_result(each):
            continue
        span = _span(each)
        if isinstance(span, str):
            return span
        found.append(span)
    return found


def key_in_list(record: Mapping[str, Any], name: str) -> str | None:
    """The name of what is at `name` in the first item of each list that is on the way: of `annotations.result`
    `annotations.0.result`. None if there is nothing."""
    steps: list[str] = []
    for step in name.split("."):
        if isinstance(value_at(record, ".".join(steps)), list) and not step.isdecimal():
            steps.append("0")
        steps.append(step)
    found = ".".join(steps)
    return None if value_at(record, found) is ABSENT else found


def _other_result(item: Any) -> bool:
    """Whether an item is a result of Label Studio without a place in the text."""
    match item:
        case {"value": Mapping() as value}:
            return not {"start", "end"} <= value.keys()
        case {"from_id": _, "to_id": _}:
            return True
    return False


def _span(value: Any) -> SpanOf | str:
    """The start, end and label of an object or a list, or what is wrong with it."""
    match value:
        case {"start": int(start), "end": int(end), "label": str(label)}:
            return start, end, label
        case {"start": int(start), "end": int(end), "labels": [str(label)]}:
            return start, end, label
        case {"start": int(start), "end": int(end), "labels": [_, _, *_] as labels}:
            return f"the span {start} to {end} has the labels {', '.join(map(repr, labels))}, expected one"
        case {"value": Mapping() as inner} if "start" not in value:
            return _span(inner)
        case [int(start), int(end), str(label)]:
            return start, end, label
        case Mapping():
            return f"a span has the keys {', '.join(map(repr, value))}, expected {FORM}"
    return f"a span is {quoted(str(value))}, expected [start, end, label] or an object with {FORM}"
