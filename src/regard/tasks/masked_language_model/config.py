"""The run file of a masked language model."""

from dataclasses import dataclass, field
from typing import Literal

from regard.models.bert import BertConfig
from regard.tasks.masked_language_model.data import Documents
from regard.tasks.masked_language_model.masking import Masking
from regard.text import TokenizerSettings
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelling:
    """A run file. Texts are as long as `model.context` allows; with `model.next_sentence` they come in pairs."""

    task: Literal["masked-language-model"] = "masked-language-model"
    data: Documents
    tokenizer: TokenizerSettings
    model: BertConfig
    masking: Masking = field(default_factory=Masking)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.batch_tokens < self.model.context:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, less than one text of model.context "
                f"{self.model.context}; raise it or shorten the context"
            )
        if self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; blanks are in texts of one segmentation"
            )
        if (
            self.training.teacher_forcing < 1
            or self.training.teacher_forcing_end not in (None, 1.0)
        ):
            raise ValueError(
                "training.teacher_forcing is for seq2seq; a text with blanks is read at once"
            )
