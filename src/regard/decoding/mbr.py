"""Minimum Bayes risk decoding: the sample most similar to the others."""

from collections.abc import Sequence


def least_risk(texts: Sequence[str]) -> int:
    """The index of the text with the highest mean chrF against all samples as references, repeats included (Eikema and
    Aziz 2020, 2005.10283); the first of equals.

    Raises:
        ValueError: there is no text.
    """
    if not texts:
        raise ValueError("there is no text to choose from")
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    counts = {text: texts.count(text) for text in dict.fromkeys(texts)}

    def expected(text: str) -> float:
        return sum(
            chrf.sentence_score(text, [other]).score * count
            for other, count in counts.items()
        )

    return texts.index(max(counts, key=expected))
