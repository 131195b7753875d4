"""The run file of extractive question answering."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.models.catalog import SPAN_MODELS, SpanModelConfig
from regard.models.sizes import Size
from regard.tasks.extractive_qa.data import Questions
from regard.tasks.fine_tuning import FineTuning


@dataclass(frozen=True, kw_only=True)
class ExtractiveQA(FineTuning):
    """A run file. Questions are cut to `longest_question` tokens, answers have at most `longest_answer`. With
    `data.unanswerable` the prediction is empty unless the best span is better by `margin`, in logits."""

    takes: ClassVar[tuple[str, ...]] = tuple(SPAN_MODELS)

    task: Literal["extractive-qa"] = "extractive-qa"
    data: Questions
    model: SpanModelConfig | None = None
    longest_question: Size = 64
    longest_answer: Size = 30
    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0

    @property
    def reader(self) -> SpanModelConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model
