"""What tells classes, and where an answer is, on a published BERT."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.hub.formats.names import Part, linear
from regard.hub.formats.pretrained_model import Classes, Head, Spans
from regard.hub.formats.settings import Settings, label_keys

POOLER = linear("pooler.dense", "pooler.0")
SINGLE = "single_label_classification"
TWO_MARKS = "a RoBERTa has two marks between two texts, and regard sets one"


@dataclass(frozen=True)
class PublishedHead:
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

    classes: PublishedHead
    spans: PublishedHead

    def form(self, head: Head) -> PublishedHead:
        """That of a head."""
        return self.classes if isinstance(head, Classes) else self.spans

    def read(self, settings: Settings, weights: Mapping[str, Tensor]) -> Head | None:
        """That which has its tensors in a file. Raises InputError for one that computes something else, and for one
        of another class that has the same names."""
        for form in (self.classes, self.spans):
            if form.weight in weights:
                form.check(settings.place)
                _check_architecture(settings, form)
                return Spans() if form is self.spans else _classes(settings, len(weights[form.weight]))
        return None


BERT = Heads(
    PublishedHead("BertForSequenceClassification", (*POOLER, *linear("classifier", "output"))),
    PublishedHead("BertForQuestionAnswering", linear("qa_outputs", "output")),
)
ROBERTA = Heads(
    PublishedHead(
        "RobertaForSequenceClassification",
        (*linear("classifier.dense", "pooler.0"), *linear("classifier.out_proj", "output")),
        refused_pairs=TWO_MARKS,
    ),
    PublishedHead("RobertaForQuestionAnswering", linear("qa_outputs", "output"), refused=TWO_MARKS),
)
DISTILBERT = Heads(
    PublishedHead(
        "DistilBertForSequenceClassification",
        linear("classifier", "output"),
        refused="a DistilBERT tells classes behind a layer with ReLU, and regard behind a pooler with tanh",
    ),
    PublishedHead("DistilBertForQuestionAnswering", linear("qa_outputs", "output")),
)


def head_keys(head: Head | None) -> dict[str, Any]:
    """What a configuration says of a head."""
    return {**label_keys(head.labels), "problem_type": SINGLE} if isinstance(head, Classes) else {}


def _check_architecture(settings: Settings, form: PublishedHead) -> None:
    architectures = settings.values.get("architectures") or [form.architecture]
    if form.architecture not in architectures:
        raise InputError(
            f"{settings.place}: architectures is {architectures!r}; regard reads {form.weight} "
            f"as that of a {form.architecture}"
        )


def _classes(settings: Settings, number: int) -> Classes:
    """Raises InputError for what tells something else than one of several classes."""
    problem = settings.values.get("problem_type") or SINGLE
    if problem != SINGLE or number < 2:
        raise InputError(
            f"{settings.place}: problem_type is {problem!r}, with {number} outputs; regard computes it for {SINGLE!r} "
            "alone, with two or more"
        )
    return Classes(settings.labels(number))
