"""Published classification and question answering heads of BERT."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.hub.formats.names import Part, linear
from regard.hub.formats.pretrained_model import Classes, Head, Spans
from regard.hub.formats.settings import SINGLE, Settings, label_keys

POOLER = linear("pooler.dense", "pooler.0")
TWO_MARKS = "a RoBERTa has two marks between two texts, and regard sets one"


@dataclass(frozen=True)
class PublishedHead:
    """A published head: the name of its class and its tensors, the last layer's at the end.

    `refused` says why regard computes the head differently, `refused_pairs` why it does so for two texts.
    """

    architecture: str
    parts: tuple[Part, ...]
    refused: str = ""
    refused_pairs: str = ""

    @property
    def weight(self) -> str:
        """Return the name of the last layer's weight."""
        return self.parts[-2].published

    @property
    def unused(self) -> set[str]:
        """Return the pooler's tensors, which some files keep although the head does not read them."""
        return {part.published for part in POOLER} - {part.published for part in self.parts}

    def check(self, place: str, *, paired: bool = False) -> None:
        """Raises InputError for a head that regard and transformers compute differently."""
        why = self.refused or (self.refused_pairs if paired else "")
        if why:
            raise InputError(f"{place}: {self.architecture}: {why}; its numbers would not be the same")


@dataclass(frozen=True)
class Heads:
    """The heads of the models of one `model_type`."""

    classes: PublishedHead
    spans: PublishedHead

    def form(self, head: Head) -> PublishedHead:
        """Return the published form of a head."""
        return self.classes if isinstance(head, Classes) else self.spans

    def read(self, settings: Settings, weights: Mapping[str, Tensor]) -> Head | None:
        """Read the head whose tensors are among `weights`. Raises InputError for a head that regard computes
        differently, and for another class with the same names."""
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
        refused="a DistilBERT classifies after a layer with ReLU, regard after a pooler with tanh",
    ),
    PublishedHead("DistilBertForQuestionAnswering", linear("qa_outputs", "output")),
)


def head_keys(head: Head | None) -> dict[str, Any]:
    """Return the keys of a configuration that describe a head."""
    return {**label_keys(head.labels), "problem_type": SINGLE} if isinstance(head, Classes) else {}


def check_problem(problem: str, place: str) -> None:
    """Raises InputError for a `problem_type` of a run that is not exported."""
    if problem != SINGLE:
        raise InputError(f"{place}: its problem_type is {problem!r}; regard exports {SINGLE!r} alone")


def _check_architecture(settings: Settings, form: PublishedHead) -> None:
    architectures = settings.values.get("architectures") or [form.architecture]
    if form.architecture not in architectures:
        raise InputError(
            f"{settings.place}: architectures is {architectures!r}; regard reads {form.weight} "
            f"as that of a {form.architecture}"
        )


def _classes(settings: Settings, number: int) -> Classes:
    """Read a classification head. Raises InputError for another problem type and for fewer than two classes."""
    settings.require_classes(number)
    return Classes(settings.labels(number))
