"""What tells classes, and where an answer is, on a published BERT."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import labels
from regard.hub.formats.names import Part, linear
from regard.hub.formats.pretrained_model import Classes, Head, Spans
from regard.hub.formats.settings import Settings

POOLER = linear("pooler.dense", "pooler.0")
SINGLE = "single_label_classification"
TWO_MARKS = "a RoBERTa has two marks between two texts, and regard sets one"


@dataclass(frozen=True)
class Form:
    """How a head is published: the name of its class, and its tensors, those of its last layer at the end. Where it
    computes something else than here, or does so when it reads two texts, that is why it is `refused`."""

    architecture: str
    parts: tuple[Part, ...]
    refused: str = ""
    refused_pairs: str = ""

    @property
    def weight(self) -> str:
        """The name of its last layer's weight."""
        return self.parts[-2].published

    @property
    def unused(self) -> set[str]:
        """The pooler's tensors, which some files keep although the head does not read it."""
        return {part.published for part in POOLER} - {part.published for part in self.parts}

    def check(self, place: str, *, paired: bool = False) -> None:
        """Raises InputError for what is not the same here and there."""
        why = self.refused or (self.refused_pairs if paired else "")
        if why:
            raise InputError(f"{place}: {self.architecture}: {why}; its numbers would not be the same")


@dataclass(frozen=True)
class Heads:
    """Those that stand on the models of one `model_type`."""

    classes: Form
    spans: Form

    def form(self, head: Head) -> Form:
        """That of a head."""
        return self.classes if isinstance(head, Classes) else self.spans

    def read(self, settings: Settings, given: Mapping[str, Tensor]) -> Head | None:
        """That which has its tensors in a file. Raises InputError for one that computes something else, and for one
        of another class that has the same names."""
        for form in (self.classes, self.spans):
            if form.weight in given:
                form.check(settings.place)
                _check_architecture(settings, form)
                return Spans() if form is self.spans else _classes(settings, len(given[form.weight]))
        return None


BERT = Heads(
    Form("BertForSequenceClassification", (*POOLER, *linear("classifier", "output"))),
    Form("BertForQuestionAnswering", linear("qa_outputs", "output")),
)
ROBERTA = Heads(
    Form(
        "RobertaForSequenceClassification",
        (*linear("classifier.dense", "pooler.0"), *linear("classifier.out_proj", "output")),
        refused_pairs=TWO_MARKS,
    ),
    Form("RobertaForQuestionAnswering", linear("qa_outputs", "output"), refused=TWO_MARKS),
)
DISTILBERT = Heads(
    Form(
        "DistilBertForSequenceClassification",
        linear("classifier", "output"),
        refused="a DistilBERT tells classes behind a layer with ReLU, and regard behind a pooler with tanh",
    ),
    Form("DistilBertForQuestionAnswering", linear("qa_outputs", "output")),
)


def written(head: Head | None) -> dict[str, Any]:
    """What a configuration says of a head."""
    return {**labels.written(head.labels), "problem_type": SINGLE} if isinstance(head, Classes) else {}


def _check_architecture(settings: Settings, form: Form) -> None:
    told = settings.given.get("architectures") or [form.architecture]
    if form.architecture not in told:
        raise InputError(
            f"{settings.place}: architectures is {told!r}; regard reads {form.weight} as that of a {form.architecture}"
        )


def _classes(settings: Settings, number: int) -> Classes:
    """Raises InputError for what tells something else than one of several classes."""
    problem = settings.given.get("problem_type") or SINGLE
    if problem != SINGLE or number < 2:
        raise InputError(
            f"{settings.place}: problem_type is {problem!r}, with {number} outputs; regard computes it for {SINGLE!r} "
            "alone, with two or more"
        )
    return Classes(labels.read(settings, number))
