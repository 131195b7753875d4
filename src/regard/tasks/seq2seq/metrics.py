"""The metrics of a model on pairs of texts."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.data.pairs import Pair
from regard.data.tokens import Tokenizers
from regard.decoding.engine import Engine
from regard.decoding.search import Search
from regard.decoding.texts import (
    best_texts,
    encode_pairs,
    log_probabilities,
    search_texts,
)
from regard.metrics import METRICS, TextMetricName, bleu_tokenization, perplexity
from regard.nn.encoder_decoder import EncoderDecoder

PERPLEXITY = "perplexity"
MetricName = TextMetricName | Literal["perplexity"]
"""The perplexity is of the targets' tokens and needs no search; lower is better."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Scoring:
    """The metrics of validation and the search that decodes."""

    metrics: tuple[MetricName, ...]
    """The first chooses the best weights."""
    search: Search = field(default_factory=Search)
    truncate: bool = False
    engine: Engine | None = None


def score_pairs(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    pairs: Sequence[Pair],
    scoring: Scoring,
) -> dict[str, float]:
    """Return the metrics on all pairs, and on each group as `metric/group`."""
    outputs: list[str] = []
    likelihoods: list[list[float]] = []
    truncate = scoring.truncate
    if any(name in METRICS for name in scoring.metrics):
        texts = [pair.source for pair in pairs]
        results = search_texts(
            model,
            tokenizers,
            texts,
            scoring.search,
            places=[pair.place for pair in pairs],
            truncate=truncate,
            engine=scoring.engine,
        )
        outputs = best_texts(tokenizers, texts, results)
    if PERPLEXITY in scoring.metrics:
        examples = encode_pairs(model, tokenizers, pairs, truncate=truncate)
        likelihoods = log_probabilities(model, examples)

    def score(name: MetricName, rows: Sequence[int]) -> float:
        if name == PERPLEXITY:
            total = sum(sum(likelihoods[row]) for row in rows)
            return perplexity(
                -total / max(1, sum(len(likelihoods[row]) for row in rows))
            )
        references = [pairs[row].references for row in rows]
        return METRICS[name]([outputs[row] for row in rows], references)

    everything = range(len(pairs))
    scores: dict[str, float] = {
        name: score(name, everything) for name in scoring.metrics
    }
    groups = sorted({pair.group for pair in pairs})
    for group in groups if len(groups) > 1 else ():
        rows = [row for row in everything if pairs[row].group == group]
        for name in scoring.metrics:
            scores[f"{name}/{group or 'plain'}"] = score(name, rows)
    return scores


def log_tokenization(pairs: Sequence[Pair], metrics: Sequence[str]) -> None:
    """Log BLEU's tokenization where the references are written without spaces."""
    if "bleu" not in metrics:
        return
    name = bleu_tokenization([pair.references for pair in pairs])
    if name != "13a":
        log.info("BLEU is of the tokenization %s (as in sacrebleu --tokenize)", name)
