"""Constraints on outputs: a prefix and required phrases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.data.tokens import Tokenizers
from regard.decoding.beam import missing
from regard.errors import InputError
from regard.text import Tokenizer

Tokens = tuple[int, ...]
CLOSED = "not in the target's vocabulary"
OPEN = "neither in the vocabulary nor in the text"


@dataclass(frozen=True)
class DecodingConstraints:
    """Require `n_best` outputs of each row that begin with the row's prefix and contain all its phrases.

    `prefixes` and `phrases` have one entry for all rows, or one for each.

    before: tokens of each row that the decoder has read before the search, all of one
    length; none if it is empty. prompts: the number of tokens of each row's prefix that
    belong to its prompt; none if it is empty.
    """

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    phrases: tuple[tuple[Tokens, ...], ...] = ((),)
    before: tuple[Tokens, ...] = ()
    prompts: tuple[int, ...] = ()

    def prefixes_of(self, rows: int) -> Sequence[Tokens]:
        """Return the prefix of each row."""
        return self.prefixes * rows if len(self.prefixes) == 1 else self.prefixes

    def phrases_of(self, rows: int) -> Sequence[tuple[Tokens, ...]]:
        """Return the phrases of each row."""
        return self.phrases * rows if len(self.phrases) == 1 else self.phrases

    def with_prefixes(self, prefixes: tuple[Tokens, ...]) -> "DecodingConstraints":
        """Return the same constraints with a prefix for each row."""
        return replace(self, prefixes=prefixes)

    def of(self, rows: Sequence[int]) -> "DecodingConstraints":
        """Return the constraints of the rows `rows`."""
        count = max(rows, default=-1) + 1
        prefixes = self.prefixes_of(count)
        phrases = self.phrases_of(count)
        return DecodingConstraints(
            self.n_best,
            tuple(prefixes[row] for row in rows),
            tuple(phrases[row] for row in rows),
            tuple(self.before[row] for row in rows if self.before),
            tuple(self.prompts[row] for row in rows if self.prompts),
        )

    def check(self, limits: Sequence[int]) -> None:
        """Check the arguments.

        Raises:
            ValueError: The constraints of a row need more tokens, the end included,
                than its limit.
        """
        rows = len(limits)
        prompts = self.prompts or (0,) * rows
        prefixes = self.prefixes_of(rows)
        phrases_of_rows = self.phrases_of(rows)
        parts = zip(prefixes, phrases_of_rows, prompts, limits, strict=True)
        for prefix, phrases, prompt, limit in parts:
            written = prefix[prompt:]
            outside = {phrase for phrase in phrases if missing(written, phrase)}
            needed = len(prefix) + sum(map(len, outside)) + 1
            if needed > limit:
                raise ValueError(
                    f"prefix and phrases need {needed} tokens with the end of the text, "
                    f"more than the limit of {limit}; "
                    "require less, or raise length_ratio or length_extra"
                )


def encode_constraints(
    tokenizers: Tokenizers,
    texts: Sequence[str],
    n_best: int,
    prefix: str,
    phrases: Sequence[str] = (),
) -> DecodingConstraints:
    """Encode a prefix and phrases for the outputs of some texts.

    If the model copies, they may also contain words of each text.

    Raises:
        InputError: The prefix or a phrase has tokens that no output can have, or a
            phrase is empty.
    """
    check_phrases(phrases)
    required = (prefix, *phrases)
    target = tokenizers.target
    if not tokenizers.copying or not any(required):
        first, *others = (writable(target, text) for text in required)
        return DecodingConstraints(n_best, (first,), (tuple(others),))
    prefixes = []
    phrases_of_rows = []
    for number, text in enumerate(texts, 1):
        row = []
        for phrase in required:
            ids = tokenizers.target_ids(phrase, text)
            row.append(_writable(target, phrase, ids, OPEN, f"text {number}: "))
        prefixes.append(row[0])
        phrases_of_rows.append(tuple(row[1:]))
    return DecodingConstraints(n_best, tuple(prefixes), tuple(phrases_of_rows))


def check_phrases(phrases: Sequence[str]) -> None:
    """Check the arguments.

    Raises:
        InputError: An empty phrase.
    """
    if blank := [phrase for phrase in phrases if not phrase.strip()]:
        raise InputError(f"a phrase is {blank[0]!r}; give at least one word")


def encode_prefix(tokenizers: Tokenizers, text: str, prefix: str) -> Tokens:
    """Encode the prefix of the output for one text.

    Raises:
        InputError: As `encode_constraints`.
    """
    return encode_constraints(tokenizers, [text], 1, prefix).prefixes[0]


def writable(tokenizer: Tokenizer, text: str) -> Tokens:
    """Encode the beginning or continuation of an output.

    Raises:
        InputError: A text outside the vocabulary.
    """
    return _writable(tokenizer, text, tokenizer.encode(text), CLOSED)


def _writable(
    tokenizer: Tokenizer,
    text: str,
    ids: Sequence[int],
    problem: str,
    place: str = "",
) -> Tokens:
    """Return the ids as a tuple.

    Raises:
        InputError: One of them is the unknown token.
    """
    if tokenizer.special.unknown in ids:
        raise InputError(
            f"{place}{text!r} has pieces that are {problem}, so no output has it"
        )
    return tuple(ids)
