"""The run file of speech recognition."""

from dataclasses import dataclass, field
from typing import Literal

from regard.audio import LogMel, Masking
from regard.decoding.search import Search
from regard.metrics import ErrorRateName
from regard.models.recogniser import ChorowskiConfig
from regard.tasks.speech.data import SpeechTables
from regard.tasks.speech.digits import SpokenDigits
from regard.text import TokenizerSettings
from regard.training.attention_losses import AttentionLosses
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class Speech:
    """The run file of speech recognition.

    A batch has room for `training.batch_tokens` frames. An output has at most
    `search.length_ratio` tokens for each key, a frame after time was halved.
    """

    task: Literal["speech"] = "speech"
    data: SpokenDigits | SpeechTables
    audio: LogMel = field(default_factory=LogMel)
    """The features of a sound."""
    masking: Masking = field(default_factory=Masking)
    """What training hides of the features."""
    tokenizer: TokenizerSettings
    model: ChorowskiConfig
    metrics: tuple[ErrorRateName, ...] = ("word-error-rate", "character-error-rate")
    """Metrics of validation and test; the first chooses the best weights."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    lower: bool = True
    """Lowercase transcripts."""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; transcripts are cut in one way"
            )
        if self.attention_losses.guided:
            raise ValueError(
                "attention_losses.guided needs word links, and sounds have none; remove it"
            )

    @property
    def halvings(self) -> int:
        """How often the encoder halves time."""
        return len(self.model.stages)

    @property
    def key_seconds(self) -> float:
        """The time of a key of the decoder's memory."""
        return self.audio.seconds * 2**self.halvings
