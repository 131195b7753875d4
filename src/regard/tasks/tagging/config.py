"""The run file of tagging."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.models.catalog import TAGGERS, TaggerConfig
from regard.tasks.fine_tuning import FineTuning
from regard.tasks.tagging.data import TaggedFiles
from regard.tasks.tagging.generated import Names, Pronouns


@dataclass(frozen=True, kw_only=True)
class Tagging(FineTuning):
    """A run file. A text of more tokens than `model.context` is read in several parts."""

    takes: ClassVar[tuple[str, ...]] = tuple(TAGGERS)

    task: Literal["tagging"] = "tagging"
    data: TaggedFiles | Names | Pronouns
    model: TaggerConfig | None = None

    @property
    def tagger(self) -> TaggerConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model
