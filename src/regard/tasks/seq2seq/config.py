"""The run file of sequence-to-sequence."""

from dataclasses import dataclass, field
from typing import Literal

from regard.data.generated.pairs import Bitext, Dates, Letters, Questions
from regard.data.pairs import Parallel, Squad, Table
from regard.data.texts import Dialogue
from regard.decoding.search import Search
from regard.metrics import TextMetricName
from regard.models.catalog import ModelConfig
from regard.tasks.fine_tuning import WordVectors
from regard.text import TokenizerSettings
from regard.training.objectives import AttentionLosses
from regard.training.settings import Training

PERPLEXITY = "perplexity"
MetricName = TextMetricName | Literal["perplexity"]
"""The perplexity is of the targets' tokens and needs no search; lower is better."""


@dataclass(frozen=True)
class TokenizerPair:
    """One tokenizer a side, or with `shared` one for both."""

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
        """Whether both sides have the same entries.

        A published model has two segmentations of one vocabulary.
        """
        return self.shared or (
            self.target is not None
            and self.source.kind == self.target.kind == "pipeline"
        )


UNDECIDED = TokenizerPair(TokenizerSettings("pipeline"), shared=True)
"""The tokenizers of a pretrained model before training has read them."""


@dataclass(frozen=True, kw_only=True)
class Seq2Seq:
    """The run file of sequence-to-sequence."""

    task: Literal["seq2seq"] = "seq2seq"
    data: Dates | Questions | Bitext | Letters | Parallel | Table | Dialogue | Squad
    model: ModelConfig
    metrics: tuple[MetricName, ...]
    """Metrics of validation and test; the first chooses the best weights."""
    tokenizers: TokenizerPair = UNDECIDED
    vectors: WordVectors | None = None
    """Word vectors that the table of the source's words starts from."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    truncate: bool = False
    """Cut texts that are longer than the model takes, instead of refusing them."""
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    """Losses of the attention weights, each with its weight; 0 leaves one out."""
    output_bias: Literal["zeros", "frequencies"] = "zeros"
    """The initial output bias: zeros, or the logarithm of each token's frequency."""

    @property
    def command(self) -> str:
        """The use of a run: one of dialogue replies to what was said before."""
        is_dialogue = self.data.kind == "dialogue"
        return "regard chat {}" if is_dialogue else "regard predict {} TEXT"

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.tokenizers == UNDECIDED and self.model.name != "pretrained":
            raise ValueError("tokenizers is missing; describe source and target")
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
