"""Metrics of outputs against references: higher is better, 0 to 100; CIDEr-D up to 1,000."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from string import punctuation
from typing import Literal

from regard.config.registry import Registry
from regard.metrics.cider import cider
from regard.metrics.rouge import f_measure, rouge_l, rouge_n

TextMetricName = Literal[
    "exact-match",
    "bleu",
    "chrf",
    "rouge-1",
    "rouge-2",
    "rouge-l",
    "cider",
    "squad-exact-match",
    "squad-f1",
]

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", punctuation)
SACREBLEU = Registry("sacrebleu.metrics", {"bleu": "bleu:BLEU", "chrf": "chrf:CHRF"})
References = Sequence[Sequence[str]]
"""The references of each text, at least one."""


def best(
    outputs: Sequence[str],
    references: References,
    *,
    compare: Callable[[str, str], float],
) -> float:
    """The mean over the texts of `compare` with the best reference of each, in per cent."""
    total = sum(
        max(compare(output, each) for each in right)
        for output, right in zip(outputs, references, strict=True)
    )
    return 100 * total / max(1, len(references))


def corpus(outputs: Sequence[str], references: References, *, metric: str) -> float:
    """A metric of `SACREBLEU` with its defaults."""
    if len(outputs) != len(references):
        raise ValueError(
            f"{len(outputs)} outputs for {len(references)} texts; expected one each"
        )
    streams = [list(stream) for stream in zip_longest(*references)]
    with _silent(
        logging.getLogger("sacrebleu")
    ):  # it warns of text that looks tokenized, which data may be
        return (
            SACREBLEU[metric]().corpus_score(list(outputs), streams).score
            if outputs
            else 0.0
        )


@contextmanager
def _silent(log: logging.Logger) -> Iterator[None]:
    """Report errors only."""
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def same(output: str, reference: str) -> float:
    """1 where both are the same text, else 0."""
    return float(output == reference)


def squad_exact_match(output: str, reference: str) -> float:
    """SQuAD's exact match (Rajpurkar 2016, 1606.05250, section 6.1): 1 where both have the same words, else 0."""
    return float(squad_words(output) == squad_words(reference))


def squad_f1(output: str, reference: str) -> float:
    """SQuAD's F1 of the words in common, each counted as often as it is in both; two empty answers are equal."""
    found, expected = Counter(squad_words(output)), Counter(squad_words(reference))
    if not found or not expected:
        return float(found == expected)
    return f_measure((found & expected).total(), found.total(), expected.total())


def squad_words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation and English articles."""
    return _ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split()


METRICS: dict[TextMetricName, Callable[[Sequence[str], References], float]] = {
    "exact-match": partial(best, compare=same),
    "bleu": partial(corpus, metric="bleu"),
    "chrf": partial(corpus, metric="chrf"),
    "rouge-1": partial(best, compare=partial(rouge_n, n=1)),
    "rouge-2": partial(best, compare=partial(rouge_n, n=2)),
    "rouge-l": partial(best, compare=rouge_l),
    "cider": cider,
    "squad-exact-match": partial(best, compare=squad_exact_match),
    "squad-f1": partial(best, compare=squad_f1),
}
"""BLEU is cased, with 13a tokenisation (Post 2018, 1804.08771); chrF is chrF2 (Popovic 2015)."""
