"""Published heads of BERT: of a text or a pair, of each token, and of spans."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.hub.formats.names import Part, linear
from regard.hub.formats.pretrained_model import (
    Classes,
    Head,
    LabelSet,
    Number,
    Spans,
    Tags,
    TextHead,
)
from regard.hub.formats.settings import (
    MULTIPLE,
    REGRESSION,
    SINGLE,
    Settings,
    label_keys,
)
from regard.models.bert import PooledName
from regard.text.special import SpecialTokens

POOLER = linear("pooler.dense", "pooler.0")
PROBLEMS: Mapping[str, type[TextHead]] = {
    SINGLE: Classes,
    MULTIPLE: LabelSet,
    REGRESSION: Number,
}
"""The head of each `problem_type`."""


@dataclass(frozen=True)
class PublishedHead:
    """A published head: the name of its class and its tensors, the last layer's at the end. `pooled` is the activation
    before the last layer."""

    architecture: str
    parts: tuple[Part, ...]
    pooled: PooledName = "tanh"

    @property
    def weight(self) -> str:
        """Return the name of the last layer's weight."""
        return self.parts[-2].published

    @property
    def unused(self) -> set[str]:
        """Return the pooler's tensors, which some files keep although the head does not read them."""
        return {part.published for part in POOLER} - {
            part.published for part in self.parts
        }


@dataclass(frozen=True)
class Heads:
    """The heads of the models of one `model_type`, with so many end tokens `between` two texts."""

    texts: PublishedHead
    tags: PublishedHead
    spans: PublishedHead
    between: int = 1

    def form(self, head: Head) -> PublishedHead:
        """Return the published form of a head."""
        match head:
            case TextHead():
                return self.texts
            case Tags():
                return self.tags
            case Spans():
                return self.spans

    def read(self, settings: Settings, weights: Mapping[str, Tensor]) -> Head | None:
        """Read the head whose tensors are among `weights`. Raises InputError for another class with the same names,
        and for labels that do not fit the outputs."""
        form = self._published(settings, weights)
        if form is None:
            return None
        outputs = len(weights[form.weight])
        if form is self.spans:
            return Spans()
        return (
            Tags(settings.labels(outputs))
            if form is self.tags
            else of_text(settings, outputs)
        )

    def check(self, head: Head, special: SpecialTokens, pooled: str) -> None:
        """Raises InputError for a head that transformers computes differently: with other end tokens between two texts,
        or another activation before the last layer."""
        name = self.form(head).architecture
        pairs = isinstance(head, Spans) or (isinstance(head, TextHead) and head.paired)
        if pairs and special.between != self.between:
            raise InputError(
                f"this run: a {name} has {self.between} end tokens between two texts, and this run {special.between}; "
                "its numbers would not be the same"
            )
        if isinstance(head, TextHead) and pooled != self.texts.pooled:
            raise InputError(
                f"this run: model.pooled is {pooled}, and a {name} has {self.texts.pooled}; its numbers would not be "
                "the same"
            )

    def _published(
        self, settings: Settings, weights: Mapping[str, Tensor]
    ) -> PublishedHead | None:
        """The form that the architectures name, else the first whose tensors are all there. Raises InputError for
        architectures that have other heads."""
        present = [
            form
            for form in (self.texts, self.tags, self.spans)
            if form.weight in weights
        ]
        named = settings.values.get("architectures") or []
        complete = [
            form
            for form in present
            if all(part.published in weights for part in form.parts)
        ]
        chosen = (
            [form for form in present if form.architecture in named]
            if named
            else complete
        )
        if present and not chosen:
            known = " or ".join(form.architecture for form in present)
            tensor = present[0].weight
            raise InputError(
                f"{settings.place}: architectures is {named!r}; regard reads {tensor} as that of a {known}"
            )
        return chosen[0] if chosen else None


BERT = Heads(
    PublishedHead(
        "BertForSequenceClassification", (*POOLER, *linear("classifier", "output"))
    ),
    PublishedHead("BertForTokenClassification", linear("classifier", "output")),
    PublishedHead("BertForQuestionAnswering", linear("qa_outputs", "output")),
)
ROBERTA = Heads(
    PublishedHead(
        "RobertaForSequenceClassification",
        (
            *linear("classifier.dense", "pooler.0"),
            *linear("classifier.out_proj", "output"),
        ),
    ),
    PublishedHead("RobertaForTokenClassification", linear("classifier", "output")),
    PublishedHead("RobertaForQuestionAnswering", linear("qa_outputs", "output")),
    between=2,
)
ELECTRA = Heads(
    PublishedHead(
        "ElectraForSequenceClassification",
        (
            *linear("classifier.dense", "pooler.0"),
            *linear("classifier.out_proj", "output"),
        ),
        pooled="gelu",
    ),
    PublishedHead("ElectraForTokenClassification", linear("classifier", "output")),
    PublishedHead("ElectraForQuestionAnswering", linear("qa_outputs", "output")),
)
DISTILBERT = Heads(
    PublishedHead(
        "DistilBertForSequenceClassification",
        (*linear("pre_classifier", "pooler.0"), *linear("classifier", "output")),
        pooled="relu",
    ),
    PublishedHead("DistilBertForTokenClassification", linear("classifier", "output")),
    PublishedHead("DistilBertForQuestionAnswering", linear("qa_outputs", "output")),
)


def of_class(heads: Heads, old: str, new: str) -> Heads:
    """Return the same heads of classes with another beginning of their names."""
    renamed = (
        replace(form, architecture=form.architecture.replace(old, new))
        for form in (heads.texts, heads.tags, heads.spans)
    )
    return Heads(*renamed, between=heads.between)


def head_keys(head: Head | None) -> dict[str, Any]:
    """Return the keys of a configuration that describe a head."""
    match head:
        case TextHead():
            [problem] = [name for name, kind in PROBLEMS.items() if kind is type(head)]
            return {**label_keys(head.labels or ("LABEL_0",)), "problem_type": problem}
        case Tags(labels):
            return label_keys(labels)
        case _:
            return {}


def of_text(settings: Settings, outputs: int) -> TextHead:
    """The head of a text. Raises InputError for a problem that has not so many outputs."""
    kind = PROBLEMS[settings.problem(outputs)]
    return Number() if kind is Number else kind(settings.labels(outputs))
