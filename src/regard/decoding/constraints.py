"""Constraints on outputs: a prefix and required phrases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.data.tokens import Tokenizers
from regard.decoding.beam import missing
from regard.errors import InputError
from regard.text import Tokenizer

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class DecodingConstraints:
    """What the outputs of each row begin with and contain.

    Attributes:
        n_best: How many outputs of a row meet the constraints.
        prefixes: One for all rows, or one for each.
        phrases: Those of all rows, or those of each.
        before: Tokens of each row, all of one length, that the decoder has read before
            the search. Empty: none.
        prompts: How many tokens of each row's prefix belong to its prompt. Empty: none.
    """

    n_best: int = 1
    prefixes: tuple[Tokens, ...] = ((),)
    phrases: tuple[tuple[Tokens, ...], ...] = ((),)
    before: tuple[Tokens, ...] = ()
    prompts: tuple[int, ...] = ()

    def expand(self, rows: int) -> "DecodingConstraints":
        """Return the same constraints with a prefix and phrases for each row."""
        prefixes = self.prefixes * (rows if len(self.prefixes) == 1 else 1)
        phrases = self.phrases * (rows if len(self.phrases) == 1 else 1)
        return replace(self, prefixes=prefixes, phrases=phrases)

    def of(self, rows: Sequence[int]) -> "DecodingConstraints":
        """Return the constraints of the rows `rows`."""
        full = self.expand(max(rows, default=-1) + 1)
        return DecodingConstraints(
            self.n_best,
            tuple(full.prefixes[row] for row in rows),
            tuple(full.phrases[row] for row in rows),
            tuple(self.before[row] for row in rows if self.before),
            tuple(self.prompts[row] for row in rows if self.prompts),
        )

    def check(self, limits: Sequence[int]) -> None:
        """Check the arguments.

        Raises:
            ValueError: The constraints of a row need more tokens, the end included,
                than its limit.
        """
        full = self.expand(len(limits))
        prompts = self.prompts or (0,) * len(limits)
        parts = zip(
            full.prefixes,
            full.phrases,
            prompts,
            limits,
            strict=True,
        )
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
        first, *following = (writable(target, text) for text in required)
        return DecodingConstraints(n_best, (first,), (tuple(following),))
    prefixes = []
    phrases_of_rows = []
    for number, text in enumerate(texts, 1):
        first, *following = (
            _writable(
                target,
                phrase,
                tokenizers.target_ids(phrase, text),
                f"text {number}: ",
                "neither in the vocabulary nor in the text",
            )
            for phrase in required
        )
        prefixes.append(first)
        phrases_of_rows.append(tuple(following))
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
    return _writable(tokenizer, text, tokenizer.encode(text))


def _writable(
    tokenizer: Tokenizer,
    text: str,
    ids: Sequence[int],
    place: str = "",
    problem: str = "not in the target's vocabulary",
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
