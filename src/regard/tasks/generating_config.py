"""What run files of models that write a text for an image or a sound share."""

from dataclasses import dataclass, field
from typing import Any

from regard.decoding.search import Search
from regard.text import TokenizerSettings
from regard.training.objectives import AttentionLosses
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class GeneratingSettings:
    """Tokenizer, metrics, training and search of such a model."""

    task: str
    data: Any
    tokenizer: TokenizerSettings
    metrics: Any
    """Metrics of validation and test; the first chooses the best weights."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    lower: bool = True
    """Lowercase the texts."""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; these texts are cut in one way"
            )
        if self.attention_losses.guided:
            raise ValueError(
                "attention_losses.guided needs word links, and images and sounds have "
                "none; remove it"
            )
