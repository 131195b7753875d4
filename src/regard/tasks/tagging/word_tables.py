"""Tagged words as the rows of a .csv: the first column is of sentences, others have the word and its tag."""

from collections.abc import Iterator

from regard.data.bad_records import Row
from regard.data.delimited import stream_csv
from regard.data.headers import column_names
from regard.errors import InputError

SEVERAL = 20
"""So many sentences of one word each are probably no sentences."""
Sentence = tuple[int, list[str], list[str]]
"""The number of a sentence's first line, its words, and their tags."""


def sentences(path: str, word: int, tag: int, *, skip_bad: bool) -> Iterator[Sentence]:
    """The sentences of a table with a header. One begins where the first column has another value than in the row
    before; an empty cell goes on with the sentence. `word` and `tag` are the numbers of the other columns, from 1, or
    from the end with -1.

    Raises InputError for a table without these columns, one with a sentence for each word, and a bad row."""
    columns = _columns(path, word, tag)
    count = longest = 0
    for number, words, tags in _grouped(
        stream_csv(path, columns, skip_bad=skip_bad, lists=(columns[0],))
    ):
        count, longest = count + 1, max(longest, len(words))
        if count > SEVERAL and longest == 1:
            raise InputError(
                f"{path}: column {columns[0]!r} is another in each row, so that each word is a sentence; put a column "
                "first that numbers the sentences"
            )
        yield number, words, tags


def _columns(path: str, word: int, tag: int) -> tuple[str, str, str]:
    """The names of the columns of sentences, words and tags."""
    names = column_names(path)
    others = names[1:]
    if len(others) < 2 or max(abs(word), abs(tag)) > len(others):
        found = ", ".join(map(repr, names))
        raise InputError(
            f"{path}: has the columns {found}; expected a header, first a column that numbers the sentences, and "
            f"behind it the word in column {word} and its tag in column {tag} of these (data.word, data.tag)"
        )
    return names[0], others[word - (word > 0)], others[tag - (tag > 0)]


def _grouped(rows: Iterator[Row]) -> Iterator[Sentence]:
    words, tags, first, current = list[str](), list[str](), 0, ""
    for row in rows:
        sentence, word, tag = row.fields
        if words and sentence.strip() and sentence != current:
            yield first, words, tags
            words, tags = [], []
        if not words:
            first = int(row.place.rpartition(":")[2])
        current = sentence if sentence.strip() else current
        words.append(word.strip())
        tags.append(tag.strip())
    if words:
        yield first, words, tags
