"""What a tokenizer is trained to be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regard.errors import InputError
from regard.text.special import NAMES

KindName = Literal["character", "word", "space", "bpe", "gpt2", "wordpiece", "wordpiece-uncased", "unigram"]

_PIECE, _BYTES = len(NAMES) + 1, len(NAMES) + 256
SMALLEST = {"character": _PIECE, "word": _PIECE, "space": _PIECE, "bpe": _BYTES, "gpt2": _BYTES}
SMALLEST |= {"wordpiece": _PIECE + 1, "wordpiece-uncased": _PIECE + 1, "unigram": _PIECE}
"""The least size of a vocabulary of each kind."""


@dataclass(frozen=True)
class TokenizerSettings:
    """Settings of one vocabulary.

    kind: what a token is. size: upper limit of the vocabulary, special ids included; at least 5, and 260 for bpe
    and gpt2, whose vocabularies always hold the 256 bytes. dropout: probability in [0, 1) that a BPE merge is skipped
    (bpe only). minimum_count: a token, or a BPE merge, that occurs less often is left out.

    Raises InputError for any value outside these ranges.
    """

    kind: KindName
    size: int = 8000
    dropout: float = 0.0
    minimum_count: int = 1

    def __post_init__(self) -> None:
        problem = problem_with(vars(self))
        if problem:
            raise InputError(problem)


def problem_with(values: Mapping[str, object]) -> str | None:
    """What is wrong with the value of a field, as one line; None for good settings. Values may be of any type."""
    kind, dropout = values["kind"], values["dropout"]
    if not isinstance(kind, str) or kind not in SMALLEST:
        return f"tokenizer kind is {kind!r}: expected one of {', '.join(SMALLEST)}"
    for name, smallest in (("size", SMALLEST[kind]), ("minimum_count", 1)):
        value = values[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            return f"tokenizer {name} is {value!r}: expected a whole number of at least {smallest} for {kind}"
    if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout < 1:
        return f"tokenizer dropout is {dropout!r}: expected a number from 0 up to but below 1"
    if dropout and kind != "bpe":
        return f"tokenizer dropout is {dropout!r}: only kind bpe has merges to drop, set it to 0"
    return None
