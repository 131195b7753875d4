"""Constraints on outputs: their number, a prefix and required phrases, encoded from texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.banned_texts import BannedTexts
from regard.decoding.constrained_beam import missing
from regard.decoding.hypothesis import Hypothesis
from regard.errors import InputError
from regard.text import Tokenizer

Tokens = tuple[int, ...]
CLOSED = "not in the target's vocabulary"
OPEN = "neither in the vocabulary nor in the text"


@dataclass(frozen=True)
class DecodingConstraints:
    """Require `n_best` outputs of each row that begin with the row's prefix and contain all its phrases.

    `prefixes` and `phrases` have one entry for all rows, or one for each.

    before: tokens of each row that the decoder has read before the search, all of one length; none if it is empty.
    prompts: the number of tokens of each row's prefix that belong to its prompt; none if it is empty.
    banned: the texts that no output contains, behind its prefix.
    """

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    phrases: tuple[tuple[Tokens, ...], ...] = ((),)
    before: tuple[Tokens, ...] = ()
    prompts: tuple[int, ...] = ()
    banned: BannedTexts | None = None

    def prefixes_of(self, rows: int) -> Sequence[Tokens]:
        """The prefix of each row."""
        return self.prefixes * rows if len(self.prefixes) == 1 else self.prefixes

    def phrases_of(self, rows: int) -> Sequence[tuple[Tokens, ...]]:
        """The phrases of each row."""
        return self.phrases * rows if len(self.phrases) == 1 else self.phrases

    def behind(self, prefixes: tuple[Tokens, ...]) -> "DecodingConstraints":
        """The same constraints with a prefix for each row."""
        return replace(self, prefixes=prefixes)

    def of(self, rows: Sequence[int]) -> "DecodingConstraints":
        """The constraints of the rows `rows`."""
        most = max(rows, default=-1) + 1
        prefixes, phrases = self.prefixes_of(most), self.phrases_of(most)
        return DecodingConstraints(
            self.n_best,
            tuple(prefixes[row] for row in rows),
            tuple(phrases[row] for row in rows),
            tuple(self.before[row] for row in rows if self.before),
            tuple(self.prompts[row] for row in rows if self.prompts),
            None if self.banned is None else self.banned.rows(rows),
        )

    def check(self, limits: Sequence[int]) -> None:
        """Raise ValueError if the constraints of a row need more tokens, the end included, than its limit."""
        rows = len(limits)
        prompts = self.prompts or (0,) * rows
        parts = zip(
            self.prefixes_of(rows), self.phrases_of(rows), prompts, limits, strict=True
        )
        for prefix, phrases, prompt, limit in parts:
            outside = {phrase for phrase in phrases if missing(prefix[prompt:], phrase)}
            needed = len(prefix) + sum(map(len, outside)) + 1
            if needed <= limit:
                continue
            raise ValueError(
                f"prefix and phrases need {needed} tokens with the end of the text, more than the limit of {limit}; "
                "require less, or raise length_ratio or length_extra"
            )


def encode_constraints(
    tokenizers: Tokenizers,
    texts: Sequence[str],
    n_best: int,
    prefix: str,
    phrases: Sequence[str] = (),
    banned: Sequence[str] = (),
) -> DecodingConstraints:
    """Encode a prefix and phrases for the outputs of some texts, and the texts `banned` from them. If the model copies,
    they may also contain words of each text.

    Raises:
        InputError: the prefix or a phrase has tokens that no output can have, or a phrase or banned text is empty.
    """
    owns = [tokenizers.own_words(text) for text in texts] if tokenizers.copying else []
    without = BannedTexts.of(tokenizers.target, banned, owns) if banned else None
    return replace(
        _required(tokenizers, texts, n_best, prefix, phrases), banned=without
    )


def _required(
    tokenizers: Tokenizers,
    texts: Sequence[str],
    n_best: int,
    prefix: str,
    phrases: Sequence[str],
) -> DecodingConstraints:
    """The prefix and the phrases of `encode_constraints`."""
    check_phrases(phrases)
    required, target = (prefix, *phrases), tokenizers.target
    if not tokenizers.copying or not any(required):
        known = [
            _writable(target, each, target.encode(each), CLOSED) for each in required
        ]
        return DecodingConstraints(n_best, (known[0],), (tuple(known[1:]),))
    rows = [
        [
            _writable(
                target,
                each,
                tokenizers.target_ids(each, text),
                OPEN,
                f"text {number}: ",
            )
            for each in required
        ]
        for number, text in enumerate(texts, 1)
    ]
    return DecodingConstraints(
        n_best, tuple(row[0] for row in rows), tuple(tuple(row[1:]) for row in rows)
    )


def check_phrases(phrases: Sequence[str]) -> None:
    """Raises InputError for an empty phrase."""
    if blank := [phrase for phrase in phrases if not phrase.strip()]:
        raise InputError(f"a phrase is {blank[0]!r}; give at least one word")


def encode_prefix(tokenizers: Tokenizers, text: str, prefix: str) -> Tokens:
    """Encode the prefix of the output for one text. Raises InputError as `encode_constraints` does."""
    return encode_constraints(tokenizers, [text], 1, prefix).prefixes[0]


def writable(tokenizer: Tokenizer, text: str) -> Tokens:
    """Encode the beginning or continuation of an output. Raises InputError for a text outside the vocabulary."""
    return _writable(tokenizer, text, tokenizer.encode(text), CLOSED)


def _writable(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], where: str, place: str = ""
) -> Tokens:
    """The ids as a tuple. Raises InputError if one of them is the unknown token."""
    if tokenizer.special.unknown in ids:
        raise InputError(
            f"{place}{text!r} has pieces that are {where}, so no output has it"
        )
    return tuple(ids)


def lacks(
    tokenizers: Tokenizers,
    text: str,
    found: Sequence[Hypothesis],
    phrases: Sequence[str],
) -> list[tuple[str, ...]]:
    """The phrases missing from each output for a text."""
    ids = {phrase: tokenizers.target_ids(phrase, text) for phrase in phrases}
    return [
        tuple(phrase for phrase in ids if missing(each.tokens, ids[phrase]))
        for each in found
    ]
