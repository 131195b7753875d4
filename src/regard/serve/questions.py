"""Runs that answer questions with spans of a context."""

from collections.abc import Sequence
from typing import Any

from regard.pictures.payload import payload
from regard.serve.ask import Ask
from regard.serve.operation import Operation, Served, at_once
from regard.tasks.span_answers.run import SpanAnswersRun


class Question(Ask):
    """A question about a context."""

    question: str
    context: str


def questions(name: str, run: SpanAnswersRun) -> Served:
    """A run of this kind, to be served."""

    def predict(asks: Sequence[Question]) -> list[dict[str, Any]]:
        return [found.to_json() for found in run.answer([(ask.question, ask.context) for ask in asks])]

    def look(ask: Question) -> dict[str, Any]:
        (found,) = run.answer([(ask.question, ask.context)])
        reading = run.look((ask.question, ask.context))
        return found.to_json() | {"view": payload([reading.lookups])}

    operations = {
        "predict": Operation(Question, at_once(predict), lambda ask: None),
        "attention": Operation(Question, at_once(lambda asks: [look(ask) for ask in asks])),
    }
    return Served(name, {"kind": "question", "task": "span-answers", "model": "bert"}, operations)
