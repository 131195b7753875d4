"""Run files that may take tokenizer and model from the run in `training.start`."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from regard.errors import InputError
from regard.tasks.word_vectors import WordVectors
from regard.text import TokenizerSettings
from regard.training.settings import Training

R = TypeVar("R", bound="FineTuning")


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """The part of a run file with tokenizer and model, by default those of the run in `training.start`. `vectors` are
    word vectors to start from, for a model with a table of them."""

    takes: ClassVar[tuple[str, ...]]
    """The names of the models that the task supports."""

    task: str
    data: Any
    tokenizer: TokenizerSettings | None = None
    model: Any = None
    vectors: WordVectors | None = None
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.start is None and (
            self.tokenizer is None or self.model is None
        ):
            raise ValueError(
                "tokenizer and model are not both described; do, or name a run with training.start"
            )
        if self.tokenizer is not None and self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; here texts have one segmentation"
            )
        if self.vectors is not None:
            self.vectors.check_start(self.training.start)

    def started(self: R, other: Any) -> R:
        """The run file with tokenizer and model of the starting run, `other`. Raises InputError for a model that the
        task does not support."""
        if other.model.name not in self.takes:
            raise InputError(
                f"training.start is a run with the model {other.model.name}; expected one with {', '.join(self.takes)}"
            )
        return replace(
            self,
            tokenizer=self.tokenizer or other.tokenizer,
            model=self.model or other.model,
        )

    @property
    def tokenizer_settings(self) -> TokenizerSettings:
        """The tokenizer's settings, set when training starts."""
        assert self.tokenizer is not None
        return self.tokenizer
