"""The words of a text, separated by blanks, for each token."""

from collections.abc import Sequence
from itertools import accumulate, groupby

from regard.maps.heads import Side
from regard.maps.words import Words
from regard.text import Tokenizer
from regard.text.words import word_indices


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


def side(tokenizer: Tokenizer, ids: Sequence[int], own: Sequence[str] = ()) -> Side:
    """The pieces of ids, and their words in the decoded text. A special token, such as the end, is its own word. `own`
    are words that extend the vocabulary."""
    labels: list[str] = []
    indices: list[int] = []
    for mark, run in groupby(ids, tokenizer.special.silent.__contains__):
        part = list(run)
        words = Side.of(tokenizer.pieces(part)).words if mark else _decoded(tokenizer, part, own)
        indices += [len(labels) + index for index in words.indices]
        labels += words.labels
    return Side(tuple(tokenizer.pieces(ids, own)), Words(tuple(labels), tuple(indices)))


def _decoded(tokenizer: Tokenizer, ids: Sequence[int], own: Sequence[str]) -> Words:
    """Words from what each id adds to the decoded text. An id that adds nothing belongs to the next one."""
    text = tokenizer.decode(ids, own)
    if not text.strip():
        return Words(("".join(tokenizer.pieces(ids, own)),), (0,) * len(ids))
    lengths = (len(tokenizer.decode(ids[:count], own)) for count in range(1, len(ids) + 1))
    ends = [min(end, len(text)) for end in accumulate(lengths, max)]
    starts = [min(start, len(text) - 1) for start in (0, *ends[:-1])]
    return words_of(text, [(start, max(end, start + 1)) for start, end in zip(starts, ends, strict=True)])
