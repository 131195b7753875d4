"""What a run file of this task says."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from regard.catalog import CLASSIFIERS, ClassifierConfig
from regard.data.labelled import LabelledTables
from regard.errors import InputError
from regard.models.bert import BertConfig
from regard.models.embedding import ElmoStates
from regard.models.rocktaschel import RocktaschelConfig
from regard.tasks.bidirectional_language_model.run_file import WORDS, BidirectionalLanguageModelling
from regard.tasks.startable import Startable


@dataclass(frozen=True, kw_only=True)
class Classification(Startable):
    """A run, whole. `truncate` cuts texts that are longer than the model can take, which is refused otherwise."""

    takes: ClassVar[tuple[str, ...]] = tuple(CLASSIFIERS)

    task: Literal["classification"] = "classification"
    data: LabelledTables
    model: ClassifierConfig | None = None
    truncate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        paired = self.data.second is not None
        if self.model is None or isinstance(self.model, BertConfig):
            return
        if isinstance(self.model, RocktaschelConfig) != paired:
            raise ValueError(
                f"the model {self.model.name} reads one text, and data.second names another; leave it out"
                if paired
                else f"the model {self.model.name} reads two texts; name the column of the other with data.second"
            )
        if self.states is not None and self.tokenizer is not None and self.tokenizer.kind not in WORDS:
            raise ValueError(
                f"tokenizer.kind is {self.tokenizer.kind}; model.embedding.elmo reads words, expected "
                f"{' or '.join(WORDS)}"
            )

    @property
    def states(self) -> ElmoStates | None:
        """The run whose states the model reads in place of a table of vectors, if it does."""
        if self.model is None or isinstance(self.model, BertConfig) or isinstance(self.model.embedding, int):
            return None
        return self.model.embedding

    def sized(self, other: Any) -> "Classification":
        """With the sizes of the model whose states it reads, from the run file of that run. Raises InputError for one
        of another task."""
        assert self.model is not None
        assert self.states is not None
        if not isinstance(other, BidirectionalLanguageModelling):
            raise InputError(
                f"model.embedding.elmo: {self.states.elmo} is a run of the task {other.task}; expected one of "
                "bidirectional-language-model, as `regard train elmo` makes"
            )
        states = replace(self.states, sizes=other.model)
        return replace(self, model=replace(self.model, embedding=states))

    @property
    def classifier(self) -> ClassifierConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model
