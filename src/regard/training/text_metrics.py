"""How good outputs are, against references: one figure, higher is better, between 0 and 100."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.training.rouge import rouge_l, rouge_n

MetricName = Literal["exact-match", "bleu", "chrf", "rouge-1", "rouge-2", "rouge-l"]


def exact_match(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Per cent of outputs that equal their reference."""
    equal = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    return 100.0 * equal / max(1, len(references))


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """sacreBLEU's corpus BLEU with its defaults: cased, 13a tokenisation (Post 2018, 1804.08771)."""
    return BLEU().corpus_score(list(outputs), [list(references)]).score


def chrf(outputs: Sequence[str], references: Sequence[str]) -> float:
    """sacreBLEU's chrF2 (Popovic 2015)."""
    return CHRF().corpus_score(list(outputs), [list(references)]).score


METRICS: dict[MetricName, Callable[[Sequence[str], Sequence[str]], float]] = {
    "exact-match": exact_match,
    "bleu": bleu,
    "chrf": chrf,
    "rouge-1": partial(rouge_n, n=1),
    "rouge-2": partial(rouge_n, n=2),
    "rouge-l": rouge_l,
}
