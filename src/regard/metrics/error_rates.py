"""Word and character error rates: lower is better, in per cent."""

from collections.abc import Sequence
from typing import Literal

ErrorRateName = Literal["word-error-rate", "character-error-rate"]


def edits(found: Sequence[str], expected: Sequence[str]) -> int:
    """The least number of substitutions, insertions and deletions that turn one sequence into the other (Levenshtein
    1966)."""
    row = list(range(len(expected) + 1))
    for place, one in enumerate(found, 1):
        before, row = row, [place]
        for at, other in enumerate(expected):
            row.append(
                min(before[at] + (one != other), before[at + 1] + 1, row[at] + 1)
            )
    return row[-1]


def rate(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> float:
    """All edits of pairs of (found, expected) by all that is expected, in per cent; above 100 where more is inserted.
    Where nothing is expected, 0 without edits and else 100."""
    wrong, count = (
        sum(edits(*pair) for pair in pairs),
        sum(len(expected) for _, expected in pairs),
    )
    return 100.0 * wrong / count if count else 100.0 * bool(wrong)


def word_error_rate(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Edits of words, separated by white space, for each word of the references, in per cent."""
    return rate(
        [
            (one.split(), other.split())
            for one, other in zip(outputs, references, strict=True)
        ]
    )


def character_error_rate(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Edits of characters, blanks among them, for each character of the references, in per cent."""
    return rate(list(zip(outputs, references, strict=True)))


ERROR_RATES = {
    "word-error-rate": word_error_rate,
    "character-error-rate": character_error_rate,
}
