"""Texts with a tag for each word: in the columns of CoNLL, and as spans of characters in JSON lines."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from regard.config.recognition import Kind, suffix
from regard.config.yaml_nodes import setting
from regard.data.bad_records import MissingColumns, RowCollector
from regard.data.columns import Ragged, Shard
from regard.data.lines import numbered_lines
from regard.data.memory import kept_records
from regard.data.parquet import parquet_records
from regard.data.records import ABSENT, list_of_objects, parse_json, value_at
from regard.data.splits import HeldOut, Splits
from regard.data.stored import Stored, is_large, stored
from regard.data.stored_pairs import held_out_rows
from regard.data.tables import KEYED
from regard.errors import InputError
from regard.metrics.entities import OUTSIDE, bio
from regard.tasks.tagging.annotations import key_in_list, spans_of
from regard.tasks.tagging.columns import ColumnCheck
from regard.tasks.tagging.conll import sentence_blocks
from regard.tasks.tagging.word_tables import sentences

Place = tuple[int, int]
"""The characters `start` to `end` of a text, half-open."""
WORD = re.compile(
    r"(?:\w\.){2,}"  # U.N. and e.g.
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without blanks: each character
    r"|[^\W_]+(?:[.,][^\W_]+)*"  # words and numbers such as 1,000.5
    r"|['’][^\W_]+"  # the 's of Anna's
    r"|\S"
)
NUMBER = re.compile(r"-?\d+")
NO_SENTENCE = "-DOCSTART-"


@dataclass(frozen=True)
class Tagged:
    """A text, the places of its words and their tags in BIO, and where it came from (`file:line`)."""

    text: str
    words: tuple[Place, ...]
    tags: tuple[str, ...]
    origin: str


@dataclass(frozen=True, kw_only=True)
class TaggedFiles(HeldOut):
    """A file a set, optionally .gz; without `valid` the share `held_out` of the training texts is for validation.

    In .jsonl, .json and .parquet, the key `text` is a text, and `spans` a list of its spans: objects with `start`,
    `end` (half-open, in characters) and `label`, or lists of these three, or Label Studio's results. A span begins and
    ends with words; blanks and punctuation separate them. Or the text is a list of words, and `spans` the list of their
    tags, in Parquet also as numbers with names.

    A .csv has a header and a word a row: the first column is another for each sentence, or empty in its further rows;
    `word` and `tag` count the columns behind it.

    In other files a line is a word with its columns, blanks or a tab between, and a blank line ends a sentence: the
    column `word` and the column `tag`, counted from 1, or from the end with -1. Tags are in BIO, IOB1, BIOES or BILOU,
    or plain, each a word of its own. Ranges of words and empty nodes of CoNLL-U are left out.

    text: The key of the text in JSON or Parquet, or of a list of words.
    spans: The key of the text's spans in JSON or Parquet, or of the list of the words' tags.
    word: The column of the word in other files, from 1, or from the end with -1.
    tag: The column of its tag in other files, from 1, or from the end with -1.
    """

    recognised: ClassVar[tuple[Kind, ...]] = ("file",)

    kind: Literal["tagged"] = "tagged"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    text: str = "text"
    spans: str = "spans"
    word: int = 1
    tag: int = -1
    skip_bad: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word == 0 or self.tag == 0:
            raise InputError(
                "data.word and data.tag count from 1, or from the end with -1; one of them is 0"
            )

    def load(self) -> Splits[Tagged]:
        """Read all files. Raises InputError with file and line for an invalid record."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected a file of tagged words, as --set data.train=FILE"
            )
        if is_large([self.train]):
            return self._on_disk(self.train)
        train = self.read(self.train)
        if self.valid is not None:
            return Splits(train, self.read(self.valid), self.tests())
        return Splits(
            *self.hold_out(train, f"{self.train}: {len(train)} texts"), self.tests()
        )

    def tests(self) -> list[Tagged]:
        """The texts of the test set; none without one. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[Tagged]:
        """The texts of another file. Raises InputError as `load` does."""
        return list(self._streamed(path, large=False))

    def _on_disk(self, path: str) -> Splits[Tagged]:
        """The sets, with the training texts on disk."""
        settings = f"{self.text} {self.spans} {self.word} {self.tag} {self.skip_bad}"
        every = stored(
            StoredTagged,
            [path],
            settings,
            lambda: self._streamed(path, large=True),
            lambda: 0,
        )
        if self.valid is not None:
            return Splits(every, self.read(self.valid), self.tests())
        rest, held, name = held_out_rows(self, every, "texts")
        return Splits(
            every.part(rest, name), [every[row] for row in held], self.tests()
        )

    def _streamed(self, path: str, *, large: bool) -> Iterator[Tagged]:
        """The texts of a file; of a large one with one in memory at a time."""
        collector, check = RowCollector(path, self.skip_bad), None
        if suffix(path) in KEYED:
            found = self._records(path, large=large)
        elif suffix(path) == "csv":
            rows = sentences(path, self.word, self.tag, skip_bad=self.skip_bad)
            found = ((number, of_words(words, tags)) for number, words, tags in rows)
        else:
            check, found = ColumnCheck(path, self.word, self.tag), self._sentences(path)
        for number, tagged in found:
            if not isinstance(tagged, Tagged):
                collector.refuse(number, tagged)
                continue
            collector.row(number, (tagged.text,))
            if check:
                check.add(
                    [tagged.text[start:end] for start, end in tagged.words], tagged.tags
                )
            yield replace(tagged, origin=f"{path}:{number}")
        collector.check(collector.kept)
        if check:
            check.finish()

    def with_columns(
        self, names: str | None, path: str, *, skip_bad: bool = False
    ) -> "TaggedFiles":
        """The section with other columns for the file at `path`, a comma between: the keys of text and spans in JSON,
        else the numbers of word and tag. Raises InputError for others."""
        own = replace(self, skip_bad=skip_bad or self.skip_bad)
        if names is None:
            return own
        parts, keyed = (
            [part.strip() for part in names.split(",")],
            suffix(path) in KEYED,
        )
        if len(parts) != 2 or not all(
            each if keyed else NUMBER.fullmatch(each) for each in parts
        ):
            expected = (
                "the keys TEXT,SPANS"
                if keyed
                else "the numbers of the columns WORD,TAG, such as 1,-1"
            )
            raise InputError(f"columns is {names!r}; expected {expected}")
        first, last = parts
        return (
            replace(own, text=first, spans=last)
            if keyed
            else replace(own, word=int(first), tag=int(last))
        )

    def _records(self, path: str, *, large: bool) -> Iterator[tuple[int, Tagged | str]]:
        """The text of each object with its number, or what is wrong with it. An object without spans has none where
        another one has some. Raises MissingColumns for a key that no object has."""
        kept = [] if large else list(_objects(path))

        def objects() -> Iterator[tuple[int, Any, str | None]]:
            return _objects(path) if large else iter(kept)

        for key, name in (("text", self.text), ("spans", self.spans)):
            first = next(
                (
                    each
                    for _, each, fault in objects()
                    if not fault and isinstance(each, Mapping)
                ),
                None,
            )
            sound = (
                each
                for _, each, fault in objects()
                if not fault and isinstance(each, Mapping)
            )
            if first is not None and all(
                value_at(each, name) is ABSENT for each in sound
            ):
                error = MissingColumns([name], list(first), "object", f"{path}: ")
                lists = (
                    [each for each, value in first.items() if isinstance(value, list)]
                    if key == "spans"
                    else []
                )
                own = (
                    key_in_list(first, name)
                    or next(iter(lists), None)
                    or error.closest(name)
                    or "KEY"
                )
                raise error.advised(
                    f"name yours with {setting(f'data.{key}', own)}",
                    {"text": self.text, "spans": self.spans},
                )
        for number, record, fault in objects():
            yield number, fault or self._of_record(record)

    def _of_record(self, record: Any) -> Tagged | str:
        """The text of an object with its spans, or of its words with their tags, or what is wrong with it."""
        match self._values(record) if isinstance(record, Mapping) else None:
            case (str(text), spans):
                found = spans_of(spans or ())
                return found if isinstance(found, str) else of_spans(text, found)
            case (list(words), list(tags)) if words and all(
                isinstance(each, str) for each in (*words, *tags)
            ):
                return (
                    of_words(words, tags)
                    if len(words) == len(tags)
                    else f"{len(words)} words, {len(tags)} tags"
                )
            case (list(), [int(), *_]):
                return (
                    f"{self.spans!r} has numbers, expected tags such as 'B-PER'; "
                    "replace each number by its tag's name"
                )
        return f"expected an object with the text {self.text!r} and the list {self.spans!r}"

    def _values(self, record: Mapping[str, Any]) -> tuple[Any, Any]:
        """The text and the spans of an object; an absent one is empty."""
        text, spans = (value_at(record, name) for name in (self.text, self.spans))
        return text, () if spans is ABSENT else spans

    def _sentences(self, path: str) -> Iterator[tuple[int, Tagged | str]]:
        """Each sentence with the number of its first line, or what is wrong with it."""
        for number, rows in sentence_blocks(numbered_lines(path)):
            if rows[0][0] == NO_SENTENCE:
                continue
            width, needed = len(rows[0]), max(abs(self.word), abs(self.tag), 2)
            odd = next(
                (
                    place
                    for place, row in enumerate(rows)
                    if len(row) != width or width < needed
                ),
                None,
            )
            if odd is not None:
                expected = (
                    f"{width} as in line {number}"
                    if width >= needed
                    else f"at least {needed}"
                )
                yield (
                    number + odd,
                    f"{len(rows[odd])} columns, expected {expected}: a word, and its tag",
                )
                continue
            words, tags = (
                [row[column - (column > 0)] for row in rows]
                for column in (self.word, self.tag)
            )
            yield number, of_words(words, tags)


def _objects(path: str) -> Iterator[tuple[int, Any, str | None]]:
    """The number of each object of a file, the object, and the fault of its line. Raises InputError for another kind
    of file."""
    match suffix(path):
        case "memory":
            return (
                (number, each, None)
                for number, each in enumerate(kept_records(path), 1)
            )
        case "jsonl":
            return (
                (number, *parse_json(line)) for number, line in numbered_lines(path)
            )
        case "json":
            return (
                (number, each, None)
                for number, each in enumerate(list_of_objects(path), 1)
            )
        case "parquet":
            return (
                (number, each, None)
                for number, each in enumerate(parquet_records(path), 1)
            )
    expected = ".jsonl, .json, .parquet, or a word and its tag a line"
    raise InputError(f"{path}: tags are read from {expected}; save it as one of these")


def word_places(text: str) -> tuple[Place, ...]:
    """The places of a text's words: blanks and punctuation separate them."""
    return tuple(found.span() for found in WORD.finditer(text))


def of_words(words: Sequence[str], tags: Sequence[str]) -> Tagged:
    """Words with blanks between, and their tags."""
    places, start = [], 0
    for word in words:
        places.append((start, start + len(word)))
        start += len(word) + 1
    return Tagged(" ".join(words), tuple(places), tuple(bio(tags)), "")


def of_spans(text: str, spans: Sequence[Any]) -> Tagged | str:
    """A text with the tags of spans `(start, end, label)`, or what is wrong with them."""
    words = word_places(text)
    if not words:
        return "the text is empty"
    starts, ends = (
        {start: n for n, (start, _) in enumerate(words)},
        {end: n for n, (_, end) in enumerate(words)},
    )
    tags = [OUTSIDE] * len(words)
    for start, end, label in spans:
        shown = f"the span {start} to {end}, {text[max(0, start) : end][:40]!r},"
        if start not in starts or end not in ends or start >= end:
            return f"{shown} does not begin and end with a word of the text"
        first, last = starts[start], ends[end]
        if any(tag != OUTSIDE for tag in tags[first : last + 1]):
            return f"{shown} overlaps another one; a word has one tag"
        tags[first : last + 1] = [f"B-{label}", *[f"I-{label}"] * (last - first)]
    return Tagged(text, words, tuple(tags), "")


class StoredTagged(Stored[Tagged]):
    """Tagged texts, each in JSON."""

    def example(self, shard: Shard, place: int) -> Tagged:
        text, words, tags, origin = json.loads(shard.columns["example"].text(place))
        return Tagged(
            text, tuple((start, end) for start, end in words), tuple(tags), origin
        )

    @staticmethod
    def shard(examples: Sequence[Tagged]) -> Shard:
        """Texts as a shard."""
        parts = ([each.text, each.words, each.tags, each.origin] for each in examples)
        return Shard(
            {
                "example": Ragged.of_texts(
                    json.dumps(each, ensure_ascii=False) for each in parts
                )
            },
            {},
        )
