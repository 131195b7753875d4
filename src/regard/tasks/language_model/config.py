"""The run file of a language model."""

from dataclasses import dataclass, field
from typing import Literal

from regard.data.texts import RunningText
from regard.decoding.search import Search
from regard.models.catalog import LanguageModelConfig
from regard.models.language_model import check_smoothing
from regard.models.sizes import Size
from regard.nn.decoders import Before
from regard.tasks.run import check_one_text
from regard.text import TokenizerSettings
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class LanguageModelling:
    """The run file of a language model.

    The model's state is carried from one window to the next, without a gradient.
    """

    task: Literal["language-model"] = "language-model"
    data: RunningText
    model: LanguageModelConfig
    tokenizer: TokenizerSettings | None = None
    window: Size = 70
    """Tokens of a window; a batch has as many as fit in `training.batch_tokens`."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=lambda: Search(temperature=1.0))
    before: Before = "end"
    """The token before a text to continue: an end, the start, or nothing."""
    tokens: Size = 100
    """The most tokens of a continuation."""

    def __post_init__(self) -> None:
        if self.training.batch_tokens < self.window:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, less than the "
                f"window of {self.window} tokens; raise it or shorten the window"
            )
        check_smoothing(self.model.softmax, self.training.label_smoothing)
        check_one_text(self)
