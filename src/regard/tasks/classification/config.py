"""The run files of texts with labels."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from regard.config.registry import Registry
from regard.models.catalog import CLASSIFIERS, ClassifierConfig
from regard.models.elmo import ElmoStates
from regard.tasks.class_prediction import ClassWeights
from regard.tasks.classification.data import LabelledTables
from regard.tasks.classification.inputs import Form
from regard.tasks.fine_tuning import FineTuning, PretrainedPart, PretrainedSource
from regard.text import Tokenizer
from regard.text.kinds import WHOLE_WORDS

STATES = "model.embedding.elmo"
C = TypeVar("C", bound="TextConfig")
FORMS = Registry(
    "regard.tasks.classification",
    {
        "text": "inputs:Form",
        "attended-text": "inputs:WholeTexts",
        "document": "inputs:Documents",
        "last-text": "inputs:LastText",
        "marked-texts": "inputs:MarkedTexts",
        "published-texts": "inputs:PublishedTexts",
        "two-texts": "inputs:TwoTexts",
        "compared-texts": "inputs:ComparedTexts",
    },
    group="regard.forms",
)


@dataclass(frozen=True, kw_only=True)
class TextConfig(FineTuning, PretrainedSource):
    """A run file of labelled texts or pairs of texts."""

    takes: ClassVar[tuple[str, ...]] = tuple(CLASSIFIERS)

    data: Any
    model: ClassifierConfig | None = None
    truncate: bool = False
    """Cut texts that are longer than the model takes; otherwise they are refused."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.label_smoothing and self.task != "classification":
            raise ValueError("training.label_smoothing is for classes; leave it out")
        if self.model is None:
            return
        model = f"the model {self.model.name}"
        texts = FORMS[CLASSIFIERS[self.model.name].form].texts
        if self.data.second is None and 1 not in texts:
            raise ValueError(
                f"{model} reads two texts; name the column of the source with data.second"
            )
        if self.data.second is not None and 2 not in texts:
            raise ValueError(f"{model} reads one text; remove data.second")
        kind = self.tokenizer and self.tokenizer.kind
        if self.states is not None and kind and kind not in WHOLE_WORDS:
            raise ValueError(
                f"tokenizer.kind is {kind}; {STATES} reads words, expected "
                f"{' or '.join(WHOLE_WORDS)}"
            )

    @property
    def command(self) -> str:
        """The use of a run: a tab separates the texts of a pair."""
        texts = "TEXT" if self.data.second is None else r"$'TEXT\tTEXT'"
        return f"regard predict {{}} {texts}"

    @property
    def states(self) -> ElmoStates | None:
        """The run whose states replace the model's table of embeddings, if any does."""
        embedding = getattr(self.model, "embedding", None)
        return embedding if isinstance(embedding, ElmoStates) else None

    @property
    def source_part(self) -> PretrainedPart | None:
        """The model of those states."""
        states = self.states
        if states is None:
            return None
        task = "bidirectional-language-model"
        has_sizes = states.sizes is not None
        command = "`regard train elmo`"
        return PretrainedPart(
            STATES,
            states.elmo,
            task,
            command,
            has_sizes,
        )

    def with_sizes(self: C, source: Any) -> C:
        """Return the run file with the sizes of the pretrained model."""
        states = replace(self.sizes.embedding, sizes=source.model)
        return replace(self, model=replace(self.sizes, embedding=states))

    def form(self, tokenizer: Tokenizer) -> Form:
        """Return how the model reads texts."""
        form = FORMS[CLASSIFIERS[self.sizes.name].form]
        return form(tokenizer, self.sizes, truncate=self.truncate)


@dataclass(frozen=True, kw_only=True)
class Classification(TextConfig):
    """A run file whose labels are classes; a text has one."""

    task: Literal["classification"] = "classification"
    data: LabelledTables
    class_weights: ClassWeights = None
    """The weights of classes in the loss, all 1 by default. `balanced` counts each class
    as much as another."""
