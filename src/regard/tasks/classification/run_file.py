"""What a run file of this task says."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.catalog import CLASSIFIERS, ClassifierConfig
from regard.data.labelled import LabelledTables
from regard.models.bert import BertConfig
from regard.models.rocktaschel import RocktaschelConfig
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

    @property
    def classifier(self) -> ClassifierConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model
