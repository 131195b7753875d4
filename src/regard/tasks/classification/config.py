"""The run file of text classification, and the part of it that all tasks with labelled texts share."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from regard.config.registry import Registry
from regard.errors import InputError
from regard.models.catalog import CLASSIFIERS, ClassifierConfig
from regard.models.elmo import ElmoStates
from regard.tasks.class_prediction import ClassWeights
from regard.tasks.classification.data import LabelledData, LabelledTables
from regard.tasks.classification.inputs import Form
from regard.tasks.fine_tuning import FineTuning, PretrainedPart, PretrainedSource
from regard.text import Tokenizer
from regard.text.kinds import WHOLE_WORDS

STATES = "model.embedding.elmo"
C = TypeVar("C", bound="TextConfig")


FORMS = Registry(
    "regard.tasks.classification",
    {
        "text": "inputs:OneText",
        "attended-text": "documents:WholeTexts",
        "document": "documents:Documents",
        "last-text": "inputs:LastText",
        "marked-texts": "inputs:MarkedTexts",
        "published-texts": "inputs:PublishedTexts",
        "two-texts": "inputs:TwoTexts",
        "compared-texts": "inputs:ComparedTexts",
    },
    group="regard.forms",
)


def form_class(model: str) -> type[Form[Any]]:
    """Return the class of the form that the classifier of this name has.

    Raises:
        InputError: An unknown form.
    """
    name = CLASSIFIERS[model].form
    if name not in FORMS:
        raise InputError(
            f"the classifier {model} has the form {name!r}; expected one of {', '.join(FORMS)}"
        )
    return FORMS[name]


def form_of(
    config: ClassifierConfig, tokenizer: Tokenizer, *, truncate: bool
) -> Form[Any]:
    """Return the form of a model.

    `truncate` cuts texts that are longer than the model can take, which is refused
    otherwise.
    """
    return form_class(config.name)(tokenizer, config, truncate=truncate)


@dataclass(frozen=True, kw_only=True)
class TextConfig(FineTuning, PretrainedSource):
    """A run file of labelled texts or pairs of texts.

    `truncate` cuts texts that are longer than the model can take, in training and
    prediction; otherwise they are refused.
    """

    takes: ClassVar[tuple[str, ...]] = tuple(CLASSIFIERS)

    data: LabelledData
    model: ClassifierConfig | None = None
    truncate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is None:
            return
        paired = self.data.second is not None
        if (2 if paired else 1) not in form_class(self.model.name).texts:
            raise ValueError(
                f"the model {self.model.name} reads one text, and data.second names another; leave it out"
                if paired
                else f"the model {self.model.name} reads two texts; name the column of the source with data.second"
            )
        if (
            self.states is not None
            and self.tokenizer is not None
            and self.tokenizer.kind not in WHOLE_WORDS
        ):
            raise ValueError(
                f"tokenizer.kind is {self.tokenizer.kind}; {STATES} reads words, expected {' or '.join(WHOLE_WORDS)}"
            )

    @property
    def states(self) -> ElmoStates | None:
        """The run whose states replace the model's embedding table.

        None for a model with a table.
        """
        embedding = getattr(self.model, "embedding", None)
        return embedding if isinstance(embedding, ElmoStates) else None

    @property
    def pretrained_part(self) -> PretrainedPart | None:
        """The model of those states."""
        if self.states is None:
            return None
        has_sizes = self.states.sizes is not None
        return PretrainedPart(
            STATES,
            self.states.elmo,
            "bidirectional-language-model",
            "`regard train elmo`",
            has_sizes,
        )

    def with_sizes(self: C, source: Any) -> C:
        """Return the run file with the sizes of the pretrained model."""
        assert self.model is not None
        assert self.states is not None
        states = replace(self.states, sizes=source.model)
        return replace(self, model=replace(self.model, embedding=states))  # pyright: ignore[reportCallIssue]

    @property
    def classifier(self) -> ClassifierConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model


@dataclass(frozen=True, kw_only=True)
class Classification(TextConfig):
    """A run file, whose labels are classes; a text has one. `class_weights` weigh the classes in the loss, by default
    all by 1: `balanced`, so that a rare class counts as much as a frequent one, or numbers of some classes."""

    task: Literal["classification"] = "classification"
    data: LabelledTables
    class_weights: ClassWeights = None
