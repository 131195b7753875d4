"""Tokens of texts: their labels, the tokenizers of a pair, and limits of length."""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

from regard.data.pairs import Pair
from regard.errors import InputError
from regard.maps.alignment import Words
from regard.maps.heads import Side
from regard.text import SpecialTokens, Tokenizer
from regard.text.kinds import to_visible
from regard.text.special import REPLACEMENT
from regard.text.words import word_indices

LONG_WORD = 24
"""The most letters of a word that is a part of a shaded text as a whole."""
BYTES = 4
"""The most bytes of a character in UTF-8."""


class Parts(NamedTuple):
    """labels: the parts of a text.
    indices: the part of each token, counted from 0.
    glued: whether a part follows the one before without a blank.
    """

    labels: tuple[str, ...]
    indices: tuple[int, ...]
    glued: tuple[bool, ...]


def words_of(text: str, spans: Sequence[tuple[int, int]]) -> Words:
    """The words of tokens with these character spans, in order."""
    labels: list[str] = []
    indices: list[int] = []
    last = -1
    begin = 0
    for (start, end), word in zip(spans, word_indices(text, spans), strict=True):
        if word != last:
            labels.append("")
            last, begin = word, start
        labels[-1] = text[begin:end].strip()
        indices.append(len(labels) - 1)
    return Words(tuple(labels), tuple(indices))


def parts_of(text: str, spans: Sequence[tuple[int, int]]) -> Parts:
    """The words of tokens with these spans; of a word without blanks that is long, as in Chinese, its tokens."""
    words = words_of(text, spans)
    labels: list[str] = []
    indices: list[int] = []
    glued: list[bool] = []
    for place, word in enumerate(words.indices):
        first = not place or words.indices[place - 1] != word
        cut = len(words.labels[word]) > LONG_WORD and spans[place] != spans[place - 1]
        whole = words.labels[word]
        own = text[slice(*spans[place])].strip() if len(whole) > LONG_WORD else whole
        if cut and labels[-1] == "":  # only blanks so far
            labels[-1] = own
        elif first or cut:
            labels.append(own)
            glued.append(not first)
        indices.append(len(labels) - 1)
    return Parts(tuple(labels), tuple(indices), tuple(glued))


def side(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    own: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> Side:
    """The labels of ids, and their words. A special token, such as the end or the mask, is its own word. `own` are
    words that extend the vocabulary. `texts` are what was encoded, in order, between special tokens: their ids have the
    characters that they cover as labels, other ids those that they decode to."""
    special = {*tokenizer.special.silent, tokenizer.special.mask}
    encoded = iter(
        [(text, found) for text in texts if (found := tokenizer.encode(text))]
    )
    pieces: list[str] = []
    labels: list[str] = []
    indices: list[int] = []
    for mark, run in groupby(ids, special.__contains__):
        part = list(run)
        shown = tokenizer.pieces(part) if mark else label_ids(tokenizer, part, own)
        words = Side.of(shown).words if mark else None
        covered = None if mark else next(encoded, None)
        if covered is not None:
            text, whole = covered
            spans = _spans_in(tokenizer, text, whole, part)
            shown = [label_of(text[start:end]) for start, end in spans] + shown[
                len(spans) :
            ]
            words = words_of(text, spans) if len(spans) == len(part) else None
        words = _decode_words(tokenizer, part, own) if words is None else words
        pieces += shown
        indices += [len(labels) + index for index in words.indices]
        labels += words.labels
    return Side(tuple(pieces), Words(tuple(labels), tuple(indices)))


def label_of(characters: str) -> str:
    """The label of some characters of a text: without the space around them, `·` for a single space."""
    return to_visible(characters.strip(" ") or characters)


def label_ids(
    tokenizer: Tokenizer, ids: Sequence[int], own: Sequence[str] = ()
) -> list[str]:
    """A label for each id of which no text is known: that of an unknown piece is U+FFFD, and ids that are bytes of one
    character have this character."""
    found = tokenizer.pieces(ids, own)
    first = 0
    while first < len(ids):
        count = 1
        if REPLACEMENT in tokenizer.decode(ids[first : first + 1], own):
            whole = (
                n
                for n in range(2, BYTES + 1)
                if REPLACEMENT not in tokenizer.decode(ids[first : first + n], own)
            )
            unknown = ids[first] == tokenizer.special.unknown
            count = (
                1 if unknown else next((n for n in whole if first + n <= len(ids)), 1)
            )
            label = (
                REPLACEMENT
                if count == 1
                else label_of(tokenizer.decode(ids[first : first + count], own))
            )
            found[first : first + count] = [label] * count
        first += count
    return found


def _spans_in(
    tokenizer: Tokenizer, text: str, encoded: Sequence[int], ids: Sequence[int]
) -> list[tuple[int, int]]:
    """The spans of ids in the text: of all where they are a part of the text's ids, which are `encoded`, of the first
    where these are their beginning, of none otherwise. Ids that follow the vocabulary are unknown to it."""
    spans = tokenizer.offsets(text)
    plain = [
        index if index < tokenizer.size else tokenizer.special.unknown for index in ids
    ]
    if plain[: len(encoded)] == encoded:
        return spans
    starts = (
        first
        for first in range(len(encoded))
        if encoded[first : first + len(plain)] == plain
    )
    first = next(starts, None)
    return [] if first is None else spans[first : first + len(plain)]


def _decode_words(
    tokenizer: Tokenizer, ids: Sequence[int], own: Sequence[str]
) -> Words:
    """Words from what each id adds to the decoded text. An id that adds nothing belongs to the next one."""
    text = tokenizer.decode(ids, own)
    if not text.strip():
        return Words(("".join(tokenizer.pieces(ids, own)),), (0,) * len(ids))
    lengths = (
        len(tokenizer.decode(ids[:count], own)) for count in range(1, len(ids) + 1)
    )
    ends = [min(end, len(text)) for end in accumulate(lengths, max)]
    starts = [min(start, len(text) - 1) for start in (0, *ends[:-1])]
    return words_of(
        text,
        [(start, max(end, start + 1)) for start, end in zip(starts, ends, strict=True)],
    )


log = logging.getLogger("regard")


@dataclass(frozen=True)
class Limit:
    """The most tokens that a model reads of a text.

    tokens: their number, special tokens included.
    special: how many of them are special.
    key: the key of the run file that sets the number.
    unit: what the texts are, in the plural.
    """

    tokens: int
    special: int
    key: str
    unit: str = "texts"

    def refusal(self, place: str, tokens: int) -> InputError:
        """The error for a text of more tokens, special ones not included."""
        around = (
            f" and {self.special} special token{'s' * (self.special > 1)}"
            if self.special
            else ""
        )
        return InputError(
            f"{place}: {tokens} tokens{around}, but the model takes {self.tokens}; shorten it, or train with a "
            f"larger {self.key} (--set truncate=true cuts such texts in training and prediction)"
        )

    def report(self, cut: int, texts: int) -> str:
        """What was done with so many of so many texts, and what keeps all of them."""
        which = (
            f"the {self.unit.removesuffix('s')} was"
            if texts == 1
            else f"{cut:,} of {texts:,} {self.unit} were"
        )
        return (
            f"{which} cut to the model's maximum of {self.tokens} tokens, as in training; shorten "
            f"{'it' if texts == 1 else 'them'}, or train with a larger {self.key}"
        )


_counts: ContextVar[dict[Limit, tuple[int, ...]] | None] = ContextVar(
    "regard_cut", default=None
)


def limit_lengths(
    limit: Limit,
    sequences: Sequence[list[int]],
    places: Sequence[str],
    *,
    truncate: bool = False,
) -> tuple[list[list[int]], int]:
    """The sequences, without special tokens, cut to the limit, and the number of those that were cut.

    Raises InputError naming the place of the first longer sequence, unless `truncate` is set."""
    most = limit.tokens - limit.special
    for ids, place in zip(sequences, places, strict=True):
        if len(ids) > most and not truncate:
            raise limit.refusal(place, len(ids))
    return [ids[:most] for ids in sequences], sum(len(ids) > most for ids in sequences)


def report_cut(limit: Limit, cut: int, texts: int) -> None:
    """Log how many of how many texts were cut, if any were; inside `count_together` once at its end."""
    counts = _counts.get()
    if counts is not None:
        counts[limit] = tuple(
            map(sum, zip(counts.get(limit, (0, 0)), (cut, texts), strict=True))
        )
    elif cut:
        log.warning(limit.report(cut, texts))


@contextmanager
def count_together(*, logged: bool = True) -> Iterator[None]:
    """Log the texts that are cut inside in one line; unless `logged`, log none."""
    token = _counts.set(counts := {})
    try:
        yield
    finally:
        _counts.reset(token)
        for limit, (cut, texts) in counts.items() if logged else ():
            report_cut(limit, cut, texts)


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; the same object if shared.

    With `copying`, which needs a shared one, each out-of-vocabulary word of a source has an id for this source only:
    the vocabulary's size plus its order of first occurrence (See 2017, section 2.2)."""

    source: Tokenizer
    target: Tokenizer
    copying: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of both vocabularies."""
        return self.source.size, self.target.size

    @property
    def special(self) -> tuple[SpecialTokens, SpecialTokens]:
        """The special ids of both vocabularies."""
        return self.source.special, self.target.special

    def ended_source(self, ids: Sequence[int]) -> list[int]:
        """The ids of a source, followed by the end."""
        return [*ids, self.source.special.end]

    def ended_target(self, ids: Sequence[int]) -> list[int]:
        """The ids of a target, followed by the end."""
        return [*ids, self.target.special.end]

    def source_ids(self, text: str) -> list[int]:
        """The ids of a source without the end."""
        return self._with_own(text, self.own_words(text))

    def target_ids(self, text: str, source: str) -> list[int]:
        """The ids of a target without start and end. With copying, out-of-vocabulary words of the source have their own
        ids."""
        if not self.copying:
            return self.target.encode(text)
        return self._with_own(text, self.own_words(source))

    def all_source_ids(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """`source_ids` of the source of each pair."""
        sources = [pair.source for pair in pairs]
        return (
            [self.source_ids(source) for source in sources]
            if self.copying
            else self.source.encode_all(sources)
        )

    def all_target_ids(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """`target_ids` of the target of each pair."""
        if self.copying:
            return [self.target_ids(pair.target, pair.source) for pair in pairs]
        return self.target.encode_all([pair.target for pair in pairs])

    def text(self, ids: Iterable[int], source: str) -> str:
        """The text of ids generated for a source."""
        return self.target.decode(ids, self.own_words(source))

    def source_pieces(self, ids: Sequence[int], source: str) -> list[str]:
        """One readable label for each id of a source, as the model sees it."""
        return self.source.pieces(ids, self.own_words(source))

    def source_labels(self, ids: Sequence[int], source: str) -> list[str]:
        """One label for each id of a source: the characters that it covers."""
        return list(side(self.source, ids, self.own_words(source), [source]).pieces)

    def target_pieces(self, ids: Sequence[int], source: str) -> list[str]:
        """One readable label for each id generated for a source."""
        return self.target.pieces(ids, self.own_words(source))

    def sides(
        self,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        source: str,
        target: str | None = None,
    ) -> tuple[Side, Side]:
        """The labels of a source and of its output, whose text is known if it is forced, with their words."""
        own, written = self.own_words(source), [] if target is None else [target]
        return side(self.source, source_ids, own, [source]), side(
            self.target, target_ids, own, written
        )

    def own_words(self, source: str) -> list[str]:
        """The distinct out-of-vocabulary words of a source; none without copying."""
        if not self.copying:
            return []
        return list(
            dict.fromkeys(
                word
                for index, word in self._words(source)
                if index == self.source.special.unknown
            )
        )

    def _words(self, text: str) -> list[tuple[int, str]]:
        """The id and the text of each piece."""
        pairs = zip(self.source.encode(text), self.source.offsets(text), strict=True)
        return [
            (index, re.sub(r"\s+", " ", text[start:end]))
            for index, (start, end) in pairs
        ]

    def _with_own(self, text: str, own: list[str]) -> list[int]:
        if not own:
            return self.source.encode(text)
        places = {word: self.source.size + number for number, word in enumerate(own)}
        unknown = self.source.special.unknown
        return [
            places.get(word, unknown) if index == unknown else index
            for index, word in self._words(text)
        ]


def replace_absent_copies(
    target: list[int], source: Collection[int], tokenizer: Tokenizer
) -> list[int]:
    """A target's ids, with unknown instead of copied words that the (possibly truncated) source lacks."""
    size, unknown = tokenizer.size, tokenizer.special.unknown
    return [index if index < size or index in source else unknown for index in target]
