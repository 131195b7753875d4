"""The metrics of a model on pairs of texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.scoring import encoded, log_probabilities
from regard.decoding.search import Search
from regard.decoding.texts import best_texts, search_texts
from regard.metrics.perplexity import perplexity
from regard.metrics.text import METRICS, TextMetricName
from regard.nn.encoder_decoder import EncoderDecoder

PERPLEXITY = "perplexity"
MetricName = TextMetricName | Literal["perplexity"]
"""The perplexity is of the targets' tokens and needs no search; lower is better."""


@dataclass(frozen=True)
class Scoring:
    """The metrics of validation, of which the first chooses the best weights, and the search that decodes."""

    metrics: tuple[MetricName, ...]
    search: Search = field(default_factory=Search)
    truncate: bool = False


def figures(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    pairs: Sequence[Pair],
    scoring: Scoring,
) -> dict[str, float]:
    """The metrics on all pairs, and where pairs have groups, on each group too, as `metric/group`."""
    measures = measured(model, tokenizers, pairs, scoring)
    everything = range(len(pairs))
    scores = {name: measure(everything) for name, measure in measures.items()}
    groups = {pair.group for pair in pairs}
    for group in sorted(groups) if len(groups) > 1 else ():
        rows = [row for row, pair in enumerate(pairs) if pair.group == group]
        scores |= {
            f"{name}/{group or 'plain'}": measure(rows)
            for name, measure in measures.items()
        }
    return scores


Measure = Callable[[Sequence[int]], float]
"""A metric of some of the pairs, by their numbers."""


def measured(
    model: EncoderDecoder,
    tokenizers: Tokenizers,
    pairs: Sequence[Pair],
    scoring: Scoring,
) -> dict[MetricName, Measure]:
    """Each metric as a function of pairs; outputs and log-probabilities of the targets are computed once."""
    measures: dict[MetricName, Measure] = {}
    if any(name in METRICS for name in scoring.metrics):
        texts, places = [pair.source for pair in pairs], [pair.place for pair in pairs]
        found = search_texts(
            model,
            tokenizers,
            texts,
            scoring.search,
            places=places,
            truncate=scoring.truncate,
        )
        outputs = best_texts(tokenizers, texts, found)
        measures |= {
            name: of_outputs(metric, outputs, pairs) for name, metric in METRICS.items()
        }
    if PERPLEXITY in scoring.metrics:
        measures[PERPLEXITY] = of_likelihoods(
            log_probabilities(
                model, encoded(model, tokenizers, pairs, truncate=scoring.truncate)
            )
        )
    return {name: measures[name] for name in scoring.metrics}


def of_outputs(
    metric: Callable[..., float], outputs: Sequence[str], pairs: Sequence[Pair]
) -> Measure:
    """A metric of texts."""
    return lambda rows: metric(
        [outputs[row] for row in rows], [pairs[row].references for row in rows]
    )


def of_likelihoods(scores: Sequence[Sequence[float]]) -> Measure:
    """The perplexity of the targets' tokens, their ends among them."""
    return lambda rows: perplexity(
        -sum(sum(scores[row]) for row in rows)
        / max(1, sum(len(scores[row]) for row in rows))
    )
