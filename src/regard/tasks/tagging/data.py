"""Spans of a text as tools for annotation write them in JSON: lists, objects, and the results of Label Studio."""

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar, Literal

import regex

from regard.config.file_kinds import Kind, suffix
from regard.config.yaml_tree import format_setting
from regard.data.arrow_tables import parquet_records
from regard.data.cache import is_large
from regard.data.data_files import DataFiles
from regard.data.delimited import column_names, read_csv
from regard.data.files import iterate_numbered_lines
from regard.data.generated.sentences import Sentence, generate_names, generate_pronouns
from regard.data.generated.synthetic import Synthetic
from regard.data.records import (
    ABSENT,
    get_value,
    list_of_objects,
    parse_json,
    records_in_memory,
)
from regard.data.rows import MissingColumns, Row, RowCollector
from regard.data.splits import Splits
from regard.data.tables import KEYED
from regard.errors import InputError, quote
from regard.metrics import OUTSIDE, UNSPACED, to_bio
from regard.models.catalog import TAGGERS, TaggerConfig
from regard.tasks.fine_tuning import FineTuning

SpanOf = tuple[int, int, str]
"""The start and the end of a span, half-open in characters, and its label."""
FORM = (
    "'start' and 'end', whole numbers, and 'label', a text, or 'labels', a list of one"
)


def spans_of(items: Iterable[Any]) -> list[SpanOf] | str:
    """Return the spans of a text, or what is wrong with one of them.

    Relations, choices and other results of Label Studio that are no spans are left out.
    """
    results = []
    for item in items:
        if _other_result(item):
            continue
        span = _span(item)
        if isinstance(span, str):
            return span
        results.append(span)
    return results


def key_in_list(record: Mapping[str, Any], name: str) -> str | None:
    """The name of what is at `name` in the first item of each list that is on the way: of `annotations.result`
    `annotations.0.result`. None if there is nothing."""
    steps: list[str] = []
    for step in name.split("."):
        if (
            isinstance(get_value(record, ".".join(steps)), list)
            and not step.isdecimal()
        ):
            steps.append("0")
        steps.append(step)
    result = ".".join(steps)
    return None if get_value(record, result) is ABSENT else result


def _other_result(item: Any) -> bool:
    """Return whether an item is a result of Label Studio without a place in the text."""
    match item:
        case {"value": Mapping() as value}:
            return not {"start", "end"} <= value.keys()
        case {"from_id": _, "to_id": _}:
            return True
    return False


def _span(value: Any) -> SpanOf | str:
    """Return the start, end and label of an object or a list, or what is wrong with it."""
    match value:
        case {"start": int(start), "end": int(end), "label": str(label)}:
            return start, end, label
        case {"start": int(start), "end": int(end), "labels": [str(label)]}:
            return start, end, label
        case {"start": int(start), "end": int(end), "labels": [_, _, *_] as labels}:
            return f"the span {start} to {end} has the labels {', '.join(map(repr, labels))}, expected one"
        case {"value": Mapping() as inner} if "start" not in value:
            return _span(inner)
        case [int(start), int(end), str(label)]:
            return start, end, label
        case Mapping():
            return f"a span has the keys {', '.join(map(repr, value))}, expected {FORM}"
    return f"a span is {quote(str(value))}, expected [start, end, label] or an object with {FORM}"


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
        """Raise InputError for columns that hold no words and tags.

        The words are numbers that count them, words and tags are exchanged, or a long
        text has no blank line between sentences.
        """
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


Columns = list[str]
FIELDS = 10
"""The columns of CoNLL-U."""
CONLL_WORD = re.compile(r"\d+")
OTHER = re.compile(r"\d+-\d+|\d+\.\d+")
"""The first column of CoNLL-U's lines that are no words: a range of words, `4-5`, and an empty node, `2.1`."""


def sentence_blocks(
    lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, list[Columns]]]:
    """Return the columns of each sentence's lines, with the number of the first.

    Comments of CoNLL-U, its ranges of words and its empty nodes are left out.
    """
    block: list[tuple[int, Columns]] = []
    for number, line in lines:
        if line.strip() and not (line.startswith("# ") and " = " in line):
            block.append(
                (
                    number,
                    line.rstrip("\t ").split("\t") if "\t" in line else line.split(),
                )
            )
        elif block and not line.strip():
            yield from _sentence(block)
            block = []
    if block:
        yield from _sentence(block)


def _sentence(
    block: Sequence[tuple[int, Columns]],
) -> Iterator[tuple[int, list[Columns]]]:
    """Return the lines of a block that are words.

    Of a block of CoNLL-U without any there is no sentence.
    """
    rows = [row for _, row in block if not row[0].startswith("#")]
    if rows and all(
        len(row) == FIELDS and (CONLL_WORD.fullmatch(row[0]) or OTHER.fullmatch(row[0]))
        for row in rows
    ):
        block = [(number, row) for number, row in block if CONLL_WORD.fullmatch(row[0])]
    if block:
        yield block[0][0], [row for _, row in block]


SEVERAL = 20
"""So many sentences of one word each are probably no sentences."""
SentenceRows = tuple[int, list[str], list[str]]
"""The number of a sentence's first line, its words, and their tags."""


def sentences(
    path: str, word: int, tag: int, *, skip_bad: bool
) -> Iterator[SentenceRows]:
    """Return the sentences of a table with a header.

    One begins where the first column has another value than in the row before; an empty
    cell goes on with the sentence. `word` and `tag` are the numbers of the other
    columns, from 1, or from the end with -1.

    Raises InputError for a table without these columns, one with a sentence for each word, and a bad row.
    """
    columns = _columns(path, word, tag)
    count = longest = 0
    for number, words, tags in _group_rows(
        read_csv(path, columns, skip_bad=skip_bad, lists=(columns[0],))
    ):
        count, longest = count + 1, max(longest, len(words))
        if count > SEVERAL and longest == 1:
            raise InputError(
                f"{path}: column {columns[0]!r} is another in each row, so that each word is a sentence; put a column "
                "first that numbers the sentences"
            )
        yield number, words, tags


def _columns(path: str, word: int, tag: int) -> tuple[str, str, str]:
    """Return the names of the columns of sentences, words and tags."""
    names = column_names(path)
    remaining = names[1:]
    if len(remaining) < 2 or max(abs(word), abs(tag)) > len(remaining):
        result = ", ".join(map(repr, names))
        raise InputError(
            f"{path}: has the columns {result}; expected a header, first a column that numbers the sentences, and "
            f"behind it the word in column {word} and its tag in column {tag} of these (data.word, data.tag)"
        )
    return names[0], remaining[word - (word > 0)], remaining[tag - (tag > 0)]


def _group_rows(rows: Iterator[Row]) -> Iterator[SentenceRows]:
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


Place = tuple[int, int]
"""The characters `start` to `end` of a text, half-open."""
LETTER = rf"(?!{UNSPACED})[\p{{L}}\p{{M}}\p{{N}}\u200c\u200d]"
"""A letter, combining mark, digit or joiner of a script with spaces between words."""
WORD = regex.compile(
    r"(?:\p{L}\.){2,}"  # U.N. and e.g.
    rf"|{UNSPACED}\p{{M}}*"  # scripts without spaces: each character
    rf"|(?:{LETTER})+(?:[.,](?:{LETTER})+)*"  # words and numbers such as 1,000.5
    rf"|['’](?:{LETTER})+"  # the 's of Anna's
    r"|\S"
)
"""The words of a text, the same for reading, evaluating and predicting."""
NUMBER = re.compile(r"-?\d+")
NO_SENTENCE = "-DOCSTART-"


@dataclass(frozen=True)
class Tagged:
    """A text with the positions of its words, their tags in BIO and its `file:line`."""

    text: str
    words: tuple[Place, ...]
    tags: tuple[str, ...]
    origin: str


@dataclass(frozen=True, kw_only=True)
class TaggedFiles(DataFiles[Tagged]):
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
    example_type = Tagged
    noun = "texts"
    expected = "a file of tagged words, as --set data.train=FILE"

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

    def examples(self, path: str) -> Iterator[Tagged]:
        """Yield the texts of a file; of a large one with one in memory at a time."""
        large = is_large([path])
        collector, check = RowCollector(path, self.skip_bad), None
        if suffix(path) in KEYED:
            result = self._records(path, large=large)
        elif suffix(path) == "csv":
            rows = sentences(path, self.word, self.tag, skip_bad=self.skip_bad)
            result = ((number, of_words(words, tags)) for number, words, tags in rows)
        else:
            check = ColumnCheck(path, self.word, self.tag)
            result = self._sentences(path, check)
        for number, tagged in result:
            if not isinstance(tagged, Tagged):
                collector.refuse(number, tagged)
                continue
            collector.row(number, (tagged.text,))
            yield replace(tagged, origin=f"{path}:{number}")
        collector.check(collector.kept)
        if check:
            check.finish()

    def with_columns(
        self, names: str | None, path: str, *, skip_bad: bool = False
    ) -> "TaggedFiles":
        """The section with other columns for the file at `path`, a comma between: the keys of text and spans in JSON,
        else the numbers of word and tag. Raises InputError for others."""
        current = replace(self, skip_bad=skip_bad or self.skip_bad)
        if names is None:
            return current
        parts, keyed = (
            [part.strip() for part in names.split(",")],
            suffix(path) in KEYED,
        )
        if len(parts) != 2 or not all(
            item if keyed else NUMBER.fullmatch(item) for item in parts
        ):
            expected = (
                "the keys TEXT,SPANS"
                if keyed
                else "the numbers of the columns WORD,TAG, such as 1,-1"
            )
            raise InputError(f"columns is {names!r}; expected {expected}")
        first, last = parts
        return (
            replace(current, text=first, spans=last)
            if keyed
            else replace(current, word=int(first), tag=int(last))
        )

    def _records(self, path: str, *, large: bool) -> Iterator[tuple[int, Tagged | str]]:
        """Return the text of each object with its number, or what is wrong with it.

        An object without spans has none where another one has some.

        Raises:
            MissingColumns: A key that no object has.
        """
        retained = [] if large else list(_objects(path))

        def objects() -> Iterator[tuple[int, Any, str | None]]:
            return _objects(path) if large else iter(retained)

        for key, name in (("text", self.text), ("spans", self.spans)):
            first = next(
                (
                    item
                    for _, item, fault in objects()
                    if not fault and isinstance(item, Mapping)
                ),
                None,
            )
            sound = (
                example
                for _, example, fault in objects()
                if not fault and isinstance(example, Mapping)
            )
            if first is not None and all(
                get_value(entry, name) is ABSENT for entry in sound
            ):
                error = MissingColumns([name], list(first), "object", f"{path}: ")
                lists = (
                    [each for each, value in first.items() if isinstance(value, list)]
                    if key == "spans"
                    else []
                )
                current = (
                    key_in_list(first, name)
                    or next(iter(lists), None)
                    or error.closest(name)
                    or "KEY"
                )
                raise error.advised(
                    f"name yours with {format_setting(f'data.{key}', current)}",
                    {"text": self.text, "spans": self.spans},
                )
        for number, record, fault in objects():
            yield number, fault or self._of_record(record)

    def _of_record(self, record: Any) -> Tagged | str:
        """Return the tagged text of an object, or what is wrong with it."""
        match self._values(record) if isinstance(record, Mapping) else None:
            case (str(text), spans):
                result = spans_of(spans or ())
                return result if isinstance(result, str) else of_spans(text, result)
            case (list(words), list(tags)) if words and all(
                isinstance(item, str) for item in (*words, *tags)
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
        """Return the text and the spans of an object; an absent one is empty."""
        text, spans = (get_value(record, name) for name in (self.text, self.spans))
        return text, () if spans is ABSENT else spans

    def _sentences(
        self, path: str, check: "ColumnCheck"
    ) -> Iterator[tuple[int, Tagged | str]]:
        """Yield the first line of each sentence with its text, or what is wrong."""
        for number, rows in sentence_blocks(iterate_numbered_lines(path)):
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
            check.add(words, to_bio(tags))
            yield number, of_words(words, tags)


def _objects(path: str) -> Iterator[tuple[int, Any, str | None]]:
    """Yield number, content and fault of each object of a file.

    Raises:
        InputError: The file is of another kind.
    """
    match suffix(path):
        case "memory":
            return (
                (number, record, None)
                for number, record in enumerate(records_in_memory(path), 1)
            )
        case "jsonl":
            return (
                (number, *parse_json(line))
                for number, line in iterate_numbered_lines(path)
            )
        case "json":
            return (
                (number, item, None)
                for number, item in enumerate(list_of_objects(path), 1)
            )
        case "parquet":
            return (
                (number, example, None)
                for number, example in enumerate(parquet_records(path), 1)
            )
    expected = ".jsonl, .json, .parquet, or a word and its tag a line"
    raise InputError(f"{path}: tags are read from {expected}; save it as one of these")


def word_places(text: str) -> tuple[Place, ...]:
    """Return the positions of the words of a text; spaces and punctuation divide them."""
    return tuple(match.span() for match in WORD.finditer(text))


def of_words(words: Sequence[str], tags: Sequence[str]) -> Tagged:
    """Return the text of tagged words, divided into words as a prediction divides it.

    A word of a file that is several words of the text, such as `e-mail`, continues its tag,
    so that a tagger meets the same words in training and in use.
    """
    text = " ".join(words)
    places = word_places(text)
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    bio, word_tags, previous = to_bio(tags), [], -1
    for start, _ in places:
        index = bisect_right(starts, start) - 1
        tag = bio[index]
        if index == previous and tag.startswith("B-"):
            tag = f"I-{tag[2:]}"
        word_tags.append(tag)
        previous = index
    return Tagged(text, places, tuple(word_tags), "")


def of_spans(text: str, spans: Sequence[Any]) -> Tagged | str:
    """Return a text tagged by spans `(start, end, label)`, or what is wrong."""
    words = word_places(text)
    if not words:
        return "the text is empty"
    starts, ends = (
        {start: n for n, (start, _) in enumerate(words)},
        {end: n for n, (_, end) in enumerate(words)},
    )
    tags = [OUTSIDE] * len(words)
    for start, end, label in spans:
        visible = f"the span {start} to {end}, {text[max(0, start) : end][:40]!r},"
        if start not in starts or end not in ends or start >= end:
            return f"{visible} does not begin and end with a word of the text"
        first, last = starts[start], ends[end]
        if any(tag != OUTSIDE for tag in tags[first : last + 1]):
            return f"{visible} overlaps another one; a word has one tag"
        tags[first : last + 1] = [f"B-{label}", *[f"I-{label}"] * (last - first)]
    return Tagged(text, words, tuple(tags), "")


@dataclass(frozen=True, kw_only=True)
class GeneratedSentences(Synthetic):
    """Generated sentences with the spans of some words.

    Files beside them have the columns of `TaggedFiles`.
    """

    train: int = 3_000
    valid: int = 200
    test: int = 500

    @abstractmethod
    def sentences(self) -> tuple[Sequence[Sentence], ...]:
        """Return the sentences of the three sets."""

    def load(self) -> Splits[Tagged]:
        """Generate all three sets."""
        return Splits(*map(_tag_sentences, self.sentences()))

    def tests(self) -> Sequence[Tagged]:
        """Return the sentences of the test set."""
        return self.load().test

    def read(self, path: str) -> Sequence[Tagged]:
        """Return the texts of a file with the default columns.

        Raises:
            InputError: As `TaggedFiles.read`.
        """
        return TaggedFiles().read(path)

    def with_columns(
        self, names: str | None, path: str, *, skip_bad: bool = False
    ) -> TaggedFiles:
        """Return the section for a file, as that of `TaggedFiles`."""
        return TaggedFiles().with_columns(names, path, skip_bad=skip_bad)


@dataclass(frozen=True, kw_only=True)
class Names(GeneratedSentences):
    """Generated sentences about people, places and organisations.

    Names of the test set are mostly new.
    """

    kind: Literal["names"] = "names"

    def sentences(self) -> tuple[Sequence[Sentence], ...]:
        return generate_names(self.sizes, self.seed)


@dataclass(frozen=True, kw_only=True)
class Pronouns(GeneratedSentences):
    """Generated sentences in which "it" stands for one of two nouns.

    Its tag is that noun.
    """

    kind: Literal["pronouns"] = "pronouns"
    train: int = 6_000

    def sentences(self) -> tuple[Sequence[Sentence], ...]:
        return generate_pronouns(self.sizes, self.seed)


def _tag_sentences(sentences: Sequence[Sentence]) -> list[Tagged]:
    result = (of_spans(sentence.text, list(sentence.spans)) for sentence in sentences)
    return [
        replace(item, origin=f"sentence {n}")
        for n, item in enumerate(result, 1)
        if isinstance(item, Tagged)
    ]


@dataclass(frozen=True, kw_only=True)
class Tagging(FineTuning):
    """A run file.

    A text of more tokens than `model.context` is read in several parts.
    """

    takes: ClassVar[tuple[str, ...]] = tuple(TAGGERS)

    task: Literal["tagging"] = "tagging"
    data: TaggedFiles | Names | Pronouns
    model: TaggerConfig | None = None

    @property
    def tagger(self) -> TaggerConfig:
        """The model's sizes, known once the run has started."""
        assert self.model is not None
        return self.model
