"""What the tasks that stand on BERT's encoder share."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from regard.errors import InputError
from regard.models.bert import BertConfig
from regard.text import TokenizerSettings
from regard.training.settings import Training

R = TypeVar("R", bound="OnBert")


@dataclass(frozen=True, kw_only=True)
class OnBert:
    """A part of a run file. Without `tokenizer` and `model` they are those of the run in `training.start`."""

    task: str
    data: Any
    tokenizer: TokenizerSettings | None = None
    model: BertConfig | None = None
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.start is None and (self.tokenizer is None or self.model is None):
            raise ValueError("tokenizer and model are not both described; do, or name a run with training.start")
        if self.tokenizer is not None and self.tokenizer.dropout:
            raise ValueError("tokenizer.dropout is for text-to-text; BERT reads texts of one segmentation")

    def started(self: R, other: Any) -> R:
        """With what is taken from the run file of the run that this one starts from. Raises InputError for another
        model's."""
        if not isinstance(other.model, BertConfig):
            raise InputError(f"training.start is a run with the model {other.model.name}; expected one with bert")
        return replace(self, tokenizer=self.tokenizer or other.tokenizer, model=self.model or other.model)

    @property
    def encoder(self) -> BertConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model

    @property
    def cutting(self) -> TokenizerSettings:
        """The tokenizer's settings, known once the run has started."""
        assert self.tokenizer is not None
        return self.tokenizer
