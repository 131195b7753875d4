"""Whether the columns of a tagged file are those of words and tags, by what all its sentences have in them."""

from collections.abc import Sequence

from regard.errors import InputError

MANY = 50
"""So many different tags are plausible however few different words there are."""
LONGEST = 100
"""The words that a sentence has at most, if it is the only one of a file."""


class ColumnCheck:
    """What the sentences of the file at `path` have in the columns `word` and `tag`."""

    def __init__(self, path: str, word: int, tag: int):
        self.path, self.word, self.tag = path, word, tag
        self.words, self.tags = set[str](), set[str]()
        self.sentences, self.longest, self.counted = 0, 0, True

    def add(self, words: Sequence[str], tags: Sequence[str]) -> None:
        """Count the words and the tags of a sentence."""
        self.words.update(words)
        self.tags.update(tags)
        self.sentences += 1
        self.longest = max(self.longest, len(words))
        self.counted = self.counted and list(words) == [
            str(number) for number in range(1, len(words) + 1)
        ]

    def finish(self) -> None:
        """Raises InputError for a column of words that counts them, for words and tags that are exchanged, by the
        numbers of different ones, and for a long text without a blank line between sentences."""
        if self.counted and self.longest > 1:
            raise InputError(
                f"{self.path}:1: column {self.word} counts the words (1, 2, 3); name the word's column: --set "
                f"data.word={self.word + 1}"
            )
        if len(self.tags) > max(MANY, len(self.words) / 2):
            raise InputError(
                f"{self.path}: {len(self.tags)} different tags in column {self.tag}, {len(self.words)} different words "
                f"in column {self.word}; name the columns, counted from 1, with --set data.word=COLUMN --set "
                "data.tag=COLUMN (in evaluate with --columns WORD,TAG)"
            )
        if self.sentences == 1 and self.longest > LONGEST:
            raise InputError(
                f"{self.path}: all {self.longest:,} words are one sentence, since no blank line separates sentences; "
                "put an empty line behind each sentence"
            )
