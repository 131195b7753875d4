"""Runs that tell classes of texts, of pairs of them and of documents."""

from collections.abc import Sequence
from typing import Any

from regard.attribution.available import LAYERED, PLAIN
from regard.errors import InputError
from regard.pictures.payload import payload
from regard.serve.operation import Operation, Served, at_once
from regard.serve.request import Ask, Kinds
from regard.tasks.classification.run import ClassificationRun, Text


class Classify(Ask):
    """A text, or two."""

    text: str
    second: str | None = None

    def given(self, paired: bool) -> Text:
        """As the run takes it. Raises InputError for one text where two are read, or the other way round."""
        if paired != (self.second is not None):
            raise InputError("second is missing: two texts are read" if paired else "second is given: one text is read")
        return self.text if self.second is None else (self.text, self.second)


class Look(Classify):
    """The same, and what is to be seen of it."""

    kinds: Kinds = ("weights",)


def classes(name: str, run: ClassificationRun) -> Served:
    """A run of this kind, to be served."""

    def predict(asks: Sequence[Classify]) -> list[dict[str, Any]]:
        return [found.to_json() for found in run.predict([ask.given(run.paired) for ask in asks])]

    def look(ask: Look) -> dict[str, Any]:
        found = run.attribute(ask.given(run.paired), kinds=ask.kinds)
        return found.prediction.to_json() | {"view": payload(found.lookups)}

    operations = {"predict": Operation(Classify, at_once(predict), lambda ask: None)}
    if run.form.listens is not None:
        operations["attention"] = Operation(Look, at_once(lambda asks: [look(ask) for ask in asks]))
    kind = "pair" if run.paired else "document"
    about = {"kind": kind, "task": "classification", "model": run.config.classifier.name, "classes": list(run.labels)}
    return Served(name, about | {"kinds": LAYERED if run.form.several else PLAIN}, operations)
