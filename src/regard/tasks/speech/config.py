"""The run file of speech recognition."""

from dataclasses import dataclass, field
from typing import Literal

from regard.audio import LogMel, Masking
from regard.metrics import ErrorRateName
from regard.models.recogniser import ChorowskiConfig
from regard.tasks.generating_config import GeneratingSettings
from regard.tasks.speech.data import SpeechTables
from regard.tasks.speech.digits import SpokenDigits


@dataclass(frozen=True, kw_only=True)
class Speech(GeneratingSettings):
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
    model: ChorowskiConfig
    metrics: tuple[ErrorRateName, ...] = ("word-error-rate", "character-error-rate")
    """Metrics of validation and test; the first chooses the best weights."""

    @property
    def halvings(self) -> int:
        """How often the encoder halves time."""
        return len(self.model.stages)

    @property
    def key_seconds(self) -> float:
        """The time of a key of the decoder's memory."""
        return self.audio.seconds * 2**self.halvings
