"""The labels of tokens, which are the characters of the text that they cover, and its words, separated by blanks."""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from regard.maps.heads import Side
from regard.maps.words import Words
from regard.text import Tokenizer
from regard.text.kind import visible
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
        shown = tokenizer.pieces(part) if mark else readable(tokenizer, part, own)
        words = Side.of(shown).words if mark else None
        covered = None if mark else next(encoded, None)
        if covered is not None:
            text, whole = covered
            spans = _spans_in(tokenizer, text, whole, part)
            shown = [label_of(text[start:end]) for start, end in spans] + shown[
                len(spans) :
            ]
            words = words_of(text, spans) if len(spans) == len(part) else None
        words = _decoded(tokenizer, part, own) if words is None else words
        pieces += shown
        indices += [len(labels) + index for index in words.indices]
        labels += words.labels
    return Side(tuple(pieces), Words(tuple(labels), tuple(indices)))


def label_of(characters: str) -> str:
    """The label of some characters of a text: without the space around them, `·` for a single space."""
    return visible(characters.strip(" ") or characters)


def readable(
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


def _decoded(tokenizer: Tokenizer, ids: Sequence[int], own: Sequence[str]) -> Words:
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
