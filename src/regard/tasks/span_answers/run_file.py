"""What a run file of this task says."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from regard.data.spans import Questions
from regard.models.sizes import Size
from regard.tasks.on_bert import OnBert


@dataclass(frozen=True, kw_only=True)
class SpanAnswers(OnBert):
    """A run, whole. Questions are cut to `longest_question` tokens, answers have at most `longest_answer`. Where
    `data.unanswerable`, there is said to be no answer unless the best is better by `margin`, in logits."""

    task: Literal["span-answers"] = "span-answers"
    data: Questions
    longest_question: Size = 64
    longest_answer: Size = 30
    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0
