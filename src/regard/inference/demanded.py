"""What a user demands of the answers to a text, as tokens."""

from collections.abc import Sequence

from regard.decoding.demand import Demand
from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.special import UNKNOWN


def demanded(target: Tokenizer, n_best: int, prefix: str, phrases: Sequence[str]) -> Demand:
    """The demand of texts. Raises InputError for one that the vocabulary cannot write, and for an empty phrase."""
    if blank := [phrase for phrase in phrases if not phrase.strip()]:
        raise InputError(f"a phrase is {blank[0]!r}; give at least one word")
    tokens = [tuple(target.encode(text)) if text else () for text in (prefix, *phrases)]
    for text, pieces in zip((prefix, *phrases), tokens, strict=True):
        if UNKNOWN in pieces:
            raise InputError(f"{text!r} has pieces that are not in the target's vocabulary, so no output has it")
    return Demand(n_best, (tokens[0],), tuple(tokens[1:]))
