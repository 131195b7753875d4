"""How good outputs are, against references: one figure, higher is better, between 0 and 100; CIDEr-D up to 1,000."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Literal

from regard.config.registry import Registry
from regard.metrics import answers
from regard.metrics.cider import cider
from regard.metrics.rouge import rouge_l, rouge_n

TextMetricName = Literal[
    "exact-match", "bleu", "chrf", "rouge-1", "rouge-2", "rouge-l", "cider", "squad-exact-match", "squad-f1"
]

SACREBLEU = Registry("sacrebleu.metrics", {"bleu": "bleu:BLEU", "chrf": "chrf:CHRF"})
References = Sequence[Sequence[str]]
"""For each text the outputs that are right: at least one."""


def best(outputs: Sequence[str], references: References, *, compare: Callable[[str, str], float]) -> float:
    """In per cent, the mean over the texts of what an output has in common with the reference nearest to it."""
    total = sum(max(compare(output, each) for each in right) for output, right in zip(outputs, references, strict=True))
    return 100 * total / max(1, len(references))


def corpus(outputs: Sequence[str], references: References, *, metric: str) -> float:
    """A figure of `SACREBLEU`, with its defaults."""
    if len(outputs) != len(references):
        raise ValueError(f"{len(outputs)} outputs for {len(references)} texts; expected one each")
    streams = [list(stream) for stream in zip_longest(*references)]
    return SACREBLEU[metric]().corpus_score(list(outputs), streams).score if outputs else 0.0


def same(output: str, reference: str) -> float:
    """1 where both are the same text, else 0."""
    return float(output == reference)


METRICS: dict[TextMetricName, Callable[[Sequence[str], References], float]] = {
    "exact-match": partial(best, compare=same),
    "bleu": partial(corpus, metric="bleu"),
    "chrf": partial(corpus, metric="chrf"),
    "rouge-1": partial(best, compare=partial(rouge_n, n=1)),
    "rouge-2": partial(best, compare=partial(rouge_n, n=2)),
    "rouge-l": partial(best, compare=rouge_l),
    "cider": cider,
    "squad-exact-match": partial(best, compare=answers.equal),
    "squad-f1": partial(best, compare=answers.overlap),
}
"""BLEU is cased, with 13a tokenisation (Post 2018, 1804.08771); chrF is chrF2 (Popovic 2015)."""
