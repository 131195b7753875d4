"""The run file of a bidirectional language model."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from regard.data.texts import RunningText
from regard.models.elmo import ElmoConfig
from regard.models.softmax import check_smoothing
from regard.text import TokenizerSettings
from regard.text.kind import WHOLE_WORDS
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class BidirectionalLanguageModelling:
    """A run file. `tokenizer` defines the words and the vocabulary of the output; the input is their characters.
    Training cuts texts longer than `window` words into parts. `states`: each part is read by itself (`fresh`), or after
    the last state of the part before it, in rows of parts in the order of the text (`carried`, as the released model
    was trained)."""

    task: Literal["bidirectional-language-model"] = "bidirectional-language-model"
    data: RunningText
    tokenizer: TokenizerSettings
    model: ElmoConfig
    window: Annotated[int, Field(ge=1)] = 100
    states: Literal["fresh", "carried"] = "fresh"
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.tokenizer.kind not in WHOLE_WORDS:
            raise ValueError(
                f"tokenizer.kind is {self.tokenizer.kind}; ELMo reads words, expected {' or '.join(WHOLE_WORDS)}"
            )
        if self.training.batch_tokens <= self.window:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, too few for a window of {self.window} words "
                "and a mark; raise it or shorten the window"
            )
        check_smoothing(self.model.softmax, self.training.label_smoothing)
        if (
            self.training.teacher_forcing < 1
            or self.training.teacher_forcing_end not in (None, 1.0)
        ):
            raise ValueError(
                "training.teacher_forcing is for seq2seq; a language model reads the text alone"
            )
