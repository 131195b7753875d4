"""The run file of sequence-to-sequence."""

from dataclasses import dataclass, field
from typing import Literal

from regard.data.dialogue import Dialogue
from regard.data.generated.pairs import Bitext, Dates, Letters, Questions
from regard.data.sources import Parallel, Squad, Table
from regard.decoding.search import Search
from regard.models.catalog import ModelConfig
from regard.tasks.seq2seq.metrics import MetricName
from regard.tasks.word_vectors import WordVectors
from regard.text import TokenizerSettings
from regard.training.attention_losses import AttentionLosses
from regard.training.settings import Training


@dataclass(frozen=True)
class TokenizerPair:
    """One tokenizer a side, or, with `shared`, one for both, trained on both sides with the source's settings."""

    source: TokenizerSettings
    target: TokenizerSettings | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        if self.shared and self.target is not None:
            raise ValueError(
                "shared tokenizers have one description, `source`; remove `target` or `shared`"
            )
        if not self.shared and self.target is None:
            raise ValueError("`target` is missing; describe it or set `shared: true`")

    @property
    def one_vocabulary(self) -> bool:
        """Whether both sides have the same entries. A published model has two unigram segmentations of one
        vocabulary."""
        return self.shared or (
            self.target is not None
            and self.source.kind == self.target.kind == "unigram"
        )


@dataclass(frozen=True, kw_only=True)
class Seq2Seq:
    """A run file. `metrics` are computed in validation and on the test set; the first chooses the best weights.
    `truncate` cuts texts that are longer than the model can take, in training and prediction; otherwise they are
    refused. `vectors` are word vectors that the table of the source's words starts from. `attention_losses` are added
    to the loss. `output_bias` initialises the output layer: zeros, or the logarithm of each token's frequency in the
    training targets."""

    task: Literal["seq2seq"] = "seq2seq"
    data: Dates | Questions | Bitext | Letters | Parallel | Table | Dialogue | Squad
    tokenizers: TokenizerPair
    model: ModelConfig
    metrics: tuple[MetricName, ...]
    vectors: WordVectors | None = None
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    truncate: bool = False
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    output_bias: Literal["zeros", "frequencies"] = "zeros"

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.vectors is not None:
            self.vectors.check_start(self.training.start)
        if self.model.one_tokenizer and not self.tokenizers.shared:
            raise ValueError(
                f"model {self.model.name} needs one vocabulary; set tokenizers.shared: true"
            )
        if self.model.shared and not self.tokenizers.one_vocabulary:
            raise ValueError(
                "model.shared needs one vocabulary; set tokenizers.shared: true, or model.shared: false"
            )

    @property
    def copying(self) -> bool:
        """Whether the model copies words of the source."""
        return self.model.copying
