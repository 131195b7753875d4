"""Tokens of texts: their labels, the tokenizers of a pair, and limits of length."""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from regard.data.pairs import Pair
from regard.errors import InputError
from regard.maps.alignment import Side, Words
from regard.text import SpecialTokens, Tokenizer
from regard.text.kinds import REPLACEMENT, to_visible
from regard.text.words import word_indices

log = logging.getLogger("regard")

LONG_WORD = 24
"""The most letters of a word that is a part of a shaded text as a whole."""
BYTES = 4
"""The most bytes of a character in UTF-8."""
Spans = Sequence[tuple[int, int]]
"""Characters of a text, half-open."""
Ids = list[int]


class Parts(NamedTuple):
    """The parts of a text.

    Attributes:
        labels: The parts.
        indices: The part of each token.
        glued: Whether a part follows the one before without a blank.
    """

    labels: tuple[str, ...]
    indices: tuple[int, ...]
    glued: tuple[bool, ...]


def words_of(text: str, spans: Spans) -> Words:
    """Return the words of tokens with these character spans, in order."""
    labels: list[str] = []
    indices: list[int] = []
    words = groupby(word_indices(text, spans))
    last = 0
    for number, (_, group) in enumerate(words):
        first = last
        last += len(list(group))
        start, _ = spans[first]
        _, end = spans[last - 1]
        labels.append(text[start:end].strip())
        indices += [number] * (last - first)
    return Words(tuple(labels), tuple(indices))


def parts_of(text: str, spans: Spans) -> Parts:
    """Return the words of tokens; of a long one without blanks, as in Chinese, tokens."""
    words = words_of(text, spans)
    labels: list[str] = []
    indices: list[int] = []
    glued: list[bool] = []
    previous_word = previous_span = None
    for word, span in zip(words.indices, spans, strict=True):
        label = words.labels[word]
        is_long = len(label) > LONG_WORD
        if is_long:
            start, end = span
            label = text[start:end].strip()
        is_first = word != previous_word
        is_cut = is_long and span != previous_span
        previous_word, previous_span = word, span
        if is_cut and labels and labels[-1] == "":  # only blanks so far
            labels[-1] = label
        elif is_first or is_cut:
            labels.append(label)
            glued.append(not is_first)
        indices.append(len(labels) - 1)
    return Parts(tuple(labels), tuple(indices), tuple(glued))


def side(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    extra: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> Side:
    """Return the labels of ids, and their words.

    A special token, such as the end or the mask, is its own word.

    Args:
        extra: Words that extend the vocabulary.
        texts: What was encoded, in order, between special tokens: their ids have the
            characters that they cover as labels, other ids those that they decode to.
    """
    pieces: list[str] = []
    labels: list[str] = []
    indices: list[int] = []
    for part in _label_parts(tokenizer, ids, extra, texts):
        if part.is_special:
            words = Side.of(part.labels).words
        elif len(part.spans) == len(part.ids):
            words = words_of(part.text, part.spans)
        else:
            words = _decode_words(tokenizer, part.ids, extra)
        pieces += part.labels
        count = len(labels)
        indices += [count + index for index in words.indices]
        labels += words.labels
    return Side(tuple(pieces), Words(tuple(labels), tuple(indices)))


def label_pieces(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    extra: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the labels of `side` without their words."""
    parts = _label_parts(tokenizer, ids, extra, texts)
    return tuple(label for part in parts for label in part.labels)


class _LabelledPart(NamedTuple):
    """Successive special ids, or the ids of one text, of which no span may be known."""

    is_special: bool
    ids: list[int]
    labels: list[str]
    text: str
    spans: Spans


def _label_parts(
    tokenizer: Tokenizer, ids: Sequence[int], extra: Sequence[str], texts: Sequence[str]
) -> Iterator[_LabelledPart]:
    special = {*tokenizer.special.silent, tokenizer.special.mask}
    encoded = [(text, tokenizer.encode(text)) for text in texts]
    remaining = (pair for pair in encoded if pair[1])
    for is_special, group in groupby(ids, special.__contains__):
        part = list(group)
        if is_special:
            yield _LabelledPart(True, part, tokenizer.pieces(part), "", ())
            continue
        labels = label_ids(tokenizer, part, extra)
        text, text_ids = next(remaining, ("", []))
        spans = _find_spans(tokenizer, text, text_ids, part) if text_ids else ()
        for index, (start, end) in enumerate(spans):
            labels[index] = label_of(text[start:end])
        yield _LabelledPart(False, part, labels, text, spans)


def label_of(characters: str) -> str:
    """Return the label of characters of a text: without spaces around, `·` for one."""
    label = characters.strip(" ") or characters
    return to_visible(label)


def label_ids(
    tokenizer: Tokenizer, ids: Sequence[int], extra: Sequence[str] = ()
) -> list[str]:
    """Return a label for each id of which no text is known.

    The label of an unknown piece is U+FFFD. Ids that are bytes of one character have
    this character.
    """
    labels = tokenizer.pieces(ids, extra)
    unknown = tokenizer.special.unknown
    first = 0
    while first < len(ids):
        end = first + 1
        label = labels[first]
        is_unknown = ids[first] == unknown
        is_partial = "\\x" in label or REPLACEMENT in label
        text = ""
        if is_unknown or is_partial:
            text = tokenizer.decode(ids[first:end], extra)
        if REPLACEMENT in text:
            label = REPLACEMENT
            longest = end
            if not is_unknown:
                longest = min(first + BYTES, len(ids))
            for last in range(end + 1, longest + 1):
                text = tokenizer.decode(ids[first:last], extra)
                if REPLACEMENT not in text:
                    label = label_of(text)
                    end = last
                    break
            labels[first:end] = [label] * (end - first)
        first = end
    return labels


def _find_spans(
    tokenizer: Tokenizer, text: str, encoded: Sequence[int], ids: Sequence[int]
) -> Spans:
    """Return the spans of ids in a text with the ids `encoded`.

    They are those of all ids where they are a part of the text's, of the first where
    these are their beginning, and none otherwise. Ids that follow the vocabulary are
    unknown to it.
    """
    spans = tokenizer.offsets(text)
    unknown = tokenizer.special.unknown
    plain = [index if index < tokenizer.size else unknown for index in ids]
    if plain[: len(encoded)] == encoded:
        return spans
    count = len(plain)
    for first in range(len(encoded) - count + 1):
        last = first + count
        if encoded[first:last] == plain:
            return spans[first:last]
    return ()


def _decode_words(
    tokenizer: Tokenizer, ids: Sequence[int], extra: Sequence[str]
) -> Words:
    """Return words from what each id adds to the decoded text.

    An id that adds nothing belongs to the next one.
    """
    text = tokenizer.decode(ids, extra)
    if not text.strip():
        label = "".join(tokenizer.pieces(ids, extra))
        return Words((label,), (0,) * len(ids))
    size = len(text)
    spans = []
    reached = 0
    for count in range(1, len(ids) + 1):
        start = min(reached, size - 1)
        beginning = tokenizer.decode(ids[:count], extra)
        reached = max(reached, len(beginning))
        end = min(reached, size)
        spans.append((start, max(end, start + 1)))
    return words_of(text, spans)


@dataclass(frozen=True)
class Limit:
    """The most tokens that a model reads of a text.

    Attributes:
        tokens: Their number, special tokens included.
        special: How many of them are special.
        key: The key of the run file that sets the number.
        unit: What the texts are, in the plural.
    """

    tokens: int
    special: int
    key: str
    unit: str = "texts"

    def refusal(self, place: str, tokens: int) -> InputError:
        """Return the error for a text of more tokens, special ones not included."""
        special = ""
        if self.special == 1:
            special = " and 1 special token"
        elif self.special:
            special = f" and {self.special} special tokens"
        return InputError(
            f"{place}: {tokens} tokens{special}, but the model takes {self.tokens}; "
            f"shorten it, or train with a larger {self.key} (--set truncate=true cuts "
            "such texts in training and prediction)"
        )

    def report(self, cut: int, texts: int) -> str:
        """Return what was done with so many texts, and what keeps all of them."""
        unit = self.unit
        subject, pronoun = f"{cut:,} of {texts:,} {unit} were", "them"
        if texts == 1:
            unit = unit.removesuffix("s")
            subject, pronoun = f"the {unit} was", "it"
        return (
            f"{subject} cut to the model's maximum of {self.tokens} tokens, as in "
            f"training; shorten {pronoun}, or train with a larger {self.key}"
        )


_counts: ContextVar[dict[Limit, tuple[int, int]] | None] = ContextVar(
    "regard_cut", default=None
)


def limit_lengths(
    limit: Limit,
    sequences: Sequence[Ids],
    places: Sequence[str],
    *,
    truncate: bool = False,
) -> tuple[list[Ids], int]:
    """Cut sequences, without special tokens, to the limit.

    Args:
        places: Where each comes from, for the error.
        truncate: Whether longer ones are cut.

    Returns:
        The sequences, and the number of those that were cut.

    Raises:
        InputError: A sequence is longer, and `truncate` isn't set.
    """
    room = limit.tokens - limit.special
    longer = [row for row, ids in enumerate(sequences) if len(ids) > room]
    if longer and not truncate:
        row = longer[0]
        raise limit.refusal(places[row], len(sequences[row]))
    return [ids[:room] for ids in sequences], len(longer)


def report_cut(limit: Limit, cut: int, texts: int) -> None:
    """Log how many texts were cut, if any; inside `count_together` once at its end."""
    counts = _counts.get()
    if counts is not None:
        cut_before, texts_before = counts.get(limit, (0, 0))
        counts[limit] = cut_before + cut, texts_before + texts
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
        if not logged:
            counts = {}
        for limit, (cut, texts) in counts.items():
            report_cut(limit, cut, texts)


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; the same object if shared.

    With `copying`, which needs a shared one, each out-of-vocabulary word of a source has
    an id for this source only: the vocabulary's size plus its order of first occurrence
    (See 2017, section 2.2).
    """

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

    def source_ids(self, text: str) -> Ids:
        """Return the ids of a source without the end."""
        words = self.own_words(text)
        return self._encode(text, words)

    def target_ids(self, text: str, source: str) -> Ids:
        """Return the ids of a target without start and end.

        With copying, out-of-vocabulary words of the source have their own ids.
        """
        if not self.copying:
            return self.target.encode(text)
        words = self.own_words(source)
        return self._encode(text, words)

    def all_ids(self, pairs: Sequence[Pair]) -> tuple[list[Ids], list[Ids]]:
        """Return `source_ids` and `target_ids` of each pair."""
        sources = [pair.source for pair in pairs]
        targets = [pair.target for pair in pairs]
        if self.copying:
            source_ids = list(map(self.source_ids, sources))
            target_ids = list(map(self.target_ids, targets, sources))
        else:
            source_ids = self.source.encode_all(sources)
            target_ids = self.target.encode_all(targets)
        return source_ids, target_ids

    def text(self, ids: Iterable[int], source: str) -> str:
        """Return the text of ids generated for a source."""
        return self.target.decode(ids, self.own_words(source))

    def source_pieces(self, ids: Sequence[int], source: str) -> list[str]:
        """Return a readable label for each id of a source, as the model sees it."""
        return self.source.pieces(ids, self.own_words(source))

    def target_pieces(self, ids: Sequence[int], source: str) -> list[str]:
        """Return a readable label for each id generated for a source."""
        return self.target.pieces(ids, self.own_words(source))

    def sides(
        self,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        source: str,
        target: str | None = None,
    ) -> tuple[Side, Side]:
        """Return the labels of a source and of its output, with their words.

        Args:
            source_ids: The ids of the source, without the end.
            target_ids: The ids of the output.
            target: The text of the output, if it is forced.
        """
        extra = self.own_words(source)
        texts = [] if target is None else [target]
        end = self.source.special.end
        source_side = side(self.source, [*source_ids, end], extra, [source])
        target_side = side(self.target, target_ids, extra, texts)
        return source_side, target_side

    def label_pieces(
        self, source_ids: Sequence[int], target_ids: Sequence[int], source: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the labels of `sides` for an output that is not forced."""
        extra = self.own_words(source)
        source_ids = [*source_ids, self.source.special.end]
        source_labels = label_pieces(self.source, source_ids, extra, [source])
        return source_labels, label_pieces(self.target, target_ids, extra)

    def words(self, pair: Pair) -> tuple[Ids, Ids]:
        """Return the index of the word of each piece of a source and of a target."""
        source, target = pair.source, pair.target
        source_words = word_indices(source, self.source.offsets(source))
        target_words = word_indices(target, self.target.offsets(target))
        return source_words, target_words

    def own_words(self, source: str) -> list[str]:
        """Return the distinct out-of-vocabulary words of a source, if it is copied."""
        if not self.copying:
            return []
        words = self._words(source)
        unknown = self.source.special.unknown
        copied = [word for index, word in words if index == unknown]
        return list(dict.fromkeys(copied))

    def _words(self, text: str) -> list[tuple[int, str]]:
        """Return the id and the text of each piece."""
        spans = self.source.offsets(text)
        words = [re.sub(r"\s+", " ", text[start:end]) for start, end in spans]
        ids = self.source.encode(text)
        return list(zip(ids, words, strict=True))

    def _encode(self, text: str, extra: list[str]) -> Ids:
        """Return ids, with those of `extra` words for unknown ones."""
        if not extra:
            return self.source.encode(text)
        unknown = self.source.special.unknown
        own_ids = {word: number for number, word in enumerate(extra, self.source.size)}
        ids = []
        for index, word in self._words(text):
            if index == unknown:
                index = own_ids.get(word, unknown)
            ids.append(index)
        return ids


def replace_absent_copies(
    target: list[int], source: Collection[int], tokenizer: Tokenizer
) -> list[int]:
    """Return a target's ids, with unknown for copied words that its source lacks.

    The source may be truncated.
    """
    size = tokenizer.size
    unknown = tokenizer.special.unknown
    return [index if index < size or index in source else unknown for index in target]
