"""Runs that answer questions with spans of a context."""

from collections.abc import Sequence
from typing import Any

from regard.attribution.available import LAYERED
from regard.pictures.payload import payload
from regard.serve.operation import Operation, ServedRun, at_once
from regard.serve.request import AttributionKinds, RequestBody
from regard.tasks.extractive_qa.run import ExtractiveQARun


class Question(RequestBody):
    """A question about a context."""

    question: str
    context: str


class Look(Question):
    """The same, and what is to be seen of it."""

    kinds: AttributionKinds = ("weights",)


def questions(name: str, run: ExtractiveQARun) -> ServedRun:
    """A run of this kind, to be served."""

    def predict(asks: Sequence[Question]) -> list[dict[str, Any]]:
        return [found.to_json() for found in run.predict([(ask.question, ask.context) for ask in asks])]

    def look(ask: Look) -> dict[str, Any]:
        found = run.attribute((ask.question, ask.context), kinds=ask.kinds)
        return found.prediction.to_json() | {"view": payload(found.lookups)}

    operations = {
        "predict": Operation(Question, at_once(predict), lambda ask: None),
        "attention": Operation(Look, at_once(lambda asks: [look(ask) for ask in asks])),
    }
    about = {"kind": "question", "task": "extractive-qa", "model": "bert", "kinds": LAYERED}
    return ServedRun(name, about, operations)
