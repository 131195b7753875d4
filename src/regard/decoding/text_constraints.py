"""What a user wants outputs to have, as tokens."""

from collections.abc import Sequence

from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.constrained_beam import missing
from regard.decoding.constraints import Demand, Tokens
from regard.decoding.hypothesis import Hypothesis
from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.special import UNKNOWN


def demanded(
    tokenizers: Tokenizers, texts: Sequence[str], n_best: int, prefix: str, phrases: Sequence[str] = ()
) -> Demand:
    """The demand of the outputs for some texts; where words are copied, in those that a text has for itself too.

    Raises:
        InputError: the prefix or a phrase cannot be written for a text, or a phrase is empty.
    """
    if blank := [phrase for phrase in phrases if not phrase.strip()]:
        raise InputError(f"a phrase is {blank[0]!r}; give at least one word")
    wanted = prefix, *phrases
    if not tokenizers.copying or not any(wanted):
        known = [_writable(each, tokenizers.target.encode(each), CLOSED) for each in wanted]
        return Demand(n_best, (known[0],), (tuple(known[1:]),))
    rows = [
        [_writable(each, tokenizers.target_ids(each, text), OPEN, f"text {number}: ") for each in wanted]
        for number, text in enumerate(texts, 1)
    ]
    return Demand(n_best, tuple(row[0] for row in rows), tuple(tuple(row[1:]) for row in rows))


def writable(tokenizer: Tokenizer, text: str) -> Tokens:
    """The tokens with which an answer begins or goes on as this text. Raises InputError for a text that the vocabulary
    cannot write."""
    return _writable(text, tokenizer.encode(text), CLOSED)


CLOSED = "not in the target's vocabulary"
OPEN = "neither in the vocabulary nor in the text"


def _writable(wanted: str, ids: Sequence[int], where: str, place: str = "") -> Tokens:
    """Raises InputError for ids of which one is unknown."""
    if UNKNOWN in ids:
        raise InputError(f"{place}{wanted!r} has pieces that are {where}, so no output has it")
    return tuple(ids)


def lacks(
    tokenizers: Tokenizers, text: str, found: Sequence[Hypothesis], phrases: Sequence[str]
) -> list[tuple[str, ...]]:
    """The phrases that each output for a text does not contain."""
    ids = {phrase: tokenizers.target_ids(phrase, text) for phrase in phrases}
    return [tuple(phrase for phrase in ids if missing(each.tokens, ids[phrase])) for each in found]
