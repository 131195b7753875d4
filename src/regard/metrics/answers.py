"""How right an answer to a question is: SQuAD's two measures (Rajpurkar 2016, 1606.05250, section 6.1)."""

import re
from collections import Counter
from string import punctuation

from regard.metrics.rouge import f_measure

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", punctuation)


def equal(output: str, reference: str) -> float:
    """1 where both have the same words, else 0."""
    return float(words(output) == words(reference))


def overlap(output: str, reference: str) -> float:
    """F1 of the words in common, each counted as often as it is in both; two answers without words are equal."""
    found, wanted = Counter(words(output)), Counter(words(reference))
    if not found or not wanted:
        return float(found == wanted)
    return f_measure((found & wanted).total(), found.total(), wanted.total())


def words(text: str) -> list[str]:
    """In lower case, without punctuation and English articles."""
    return _ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split()
