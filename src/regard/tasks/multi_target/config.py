"""The run file of translation into several languages."""

from dataclasses import dataclass, field
from typing import Literal

from regard.decoding.search import Search
from regard.models.bahdanau import BahdanauConfig
from regard.models.bottleneck import BottleneckConfig
from regard.models.luong import LuongConfig
from regard.models.one_pass import OnePassConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.multi_target.data import Multiparallel
from regard.tasks.seq2seq.metrics import MetricName
from regard.text import TokenizerSettings
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class MultiTarget:
    """A run file. `model` describes the encoder and the decoder of each language. `target` describes the tokenizer
    of each language. `metrics` are computed for each language; the mean of the first one chooses the best weights.
    `truncate` and `output_bias` are those of seq2seq."""

    task: Literal["multi-target"] = "multi-target"
    data: Multiparallel
    source: TokenizerSettings
    target: TokenizerSettings
    model: (
        BahdanauConfig
        | LuongConfig
        | BottleneckConfig
        | OnePassConfig
        | TransformerConfig
    )
    metrics: tuple[MetricName, ...]
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    truncate: bool = False
    output_bias: Literal["zeros", "frequencies"] = "zeros"

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.model.shared:
            raise ValueError(
                "model.shared needs one vocabulary, but each language has its own; set it to false"
            )
