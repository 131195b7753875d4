"""Tagged texts: files with a word and its tag a line, or with the spans of texts in JSON."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Literal

import regex

from regard.config.file_kinds import Kind, suffix
from regard.data.arrow_tables import parquet_records
from regard.data.data_files import DataFiles
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
from regard.data.rows import iterate_converted
from regard.data.splits import Splits
from regard.errors import InputError, quote
from regard.metrics import OUTSIDE, UNSPACED, to_bio
from regard.models.catalog import TAGGERS, TaggerConfig
from regard.tasks.fine_tuning import FineTuning

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
COMMENT = re.compile(r"-DOCSTART-|# (newdoc|newpar|\S+ = )")
NO_WORD = re.compile(r"\d+[-.]\d+")
"""A range of words, `4-5`, or an empty node, `2.1`, in the first column of CoNLL-U."""
OBJECTS = frozenset({"jsonl", "json", "parquet", "memory"})


@dataclass(frozen=True)
class Tagged:
    """A text with the positions of its words, their tags in BIO and its `file:line`."""

    text: str
    words: tuple[Place, ...]
    tags: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True)
class Record:
    """A JSON object, its line, or the columns of a sentence's lines; with its `file:line`."""

    content: Any
    place: str


@dataclass(frozen=True, kw_only=True)
class TaggedFiles(DataFiles[Tagged]):
    """A file for each set, optionally .gz; without `valid` training texts are held out.

    In .jsonl, .json and .parquet, the key `text` is a text, and `spans` a list of its
    spans: objects with `start`, `end` (half-open, in characters) and `label`, or lists of
    these three. A span begins and ends with words; spaces and punctuation separate them.
    Or the text is a list of words, and `spans` the list of their tags.

    In other files a line is a word with its columns, spaces or a tab between, and a blank
    line ends a sentence. Tags are in BIO, IOB1, BIOES or BILOU, or plain, each a word of
    its own. Ranges of words and empty nodes of CoNLL-U are left out.

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
        if 0 in (self.word, self.tag):
            raise InputError(
                "data.word and data.tag count from 1, or from the end with -1; one of "
                "them is 0"
            )

    def examples(self, path: str) -> Iterator[Tagged]:
        """Yield the texts of a file, with one in memory at a time."""
        records = read_sentences(path)
        parse = self.parse_sentence
        if suffix(path) in OBJECTS:
            records = read_objects(path)
            parse = self.parse_object
        return iterate_converted(
            records,
            lambda record: replace(parse(record.content), origin=record.place),
            path,
            skip_bad=self.skip_bad,
        )

    def with_columns(self, names: str | None, path: str) -> "TaggedFiles":
        """Return the section with other columns for a file.

        Args:
            names: The keys of text and spans in JSON, or the numbers of word and tag,
                with a comma between.
            path: The file.

        Raises:
            InputError: The names are of another form.
        """
        if names is None:
            return self
        match [name.strip() for name in names.split(",")]:
            case [str(text), str(spans)] if suffix(path) in OBJECTS:
                return replace(self, text=text, spans=spans)
            case [str(word), str(tag)] if re.fullmatch(r"-?\d+,-?\d+", f"{word},{tag}"):
                return replace(self, word=int(word), tag=int(tag))
        raise InputError(
            f"columns is {names!r}; expected the keys TEXT,SPANS of JSON, or the numbers "
            "of the columns WORD,TAG, such as 1,-1"
        )

    def parse_object(self, content: Any) -> Tagged:
        """Return the tagged text of a JSON object. Raises InputError for a bad one."""
        if isinstance(content, str):
            content, fault = parse_json(content)
            if fault:
                raise InputError(fault)
        if not isinstance(content, Mapping):
            raise InputError(f"expected an object, found {type(content).__name__}")
        for key, name in (("text", self.text), ("spans", self.spans)):
            if get_value(content, name) is ABSENT:
                raise InputError(
                    f"no key {name!r} among {', '.join(map(repr, content))}; name yours "
                    f"with --set data.{key}=KEY"
                )
        text = get_value(content, self.text)
        spans = get_value(content, self.spans)
        if isinstance(text, str):
            return of_spans(text, list(map(parse_span, spans or ())))
        for values in (text, spans):
            if not (
                isinstance(values, list) and all(isinstance(v, str) for v in values)
            ):
                raise InputError(
                    f"expected a text and its spans, or a list of words {self.text!r} and "
                    f"the list of their tags {self.spans!r}, such as 'B-PER'"
                )
        if not text or len(text) != len(spans):
            raise InputError(f"{len(text)} words, {len(spans)} tags")
        return of_words(text, spans)

    def parse_sentence(self, rows: Sequence[Sequence[str]]) -> Tagged:
        """Return the tagged text of a sentence's lines. Raises InputError for bad ones."""
        needed = max(abs(self.word), abs(self.tag), 2)
        for number, row in enumerate(rows, 1):
            if len(row) < needed or len(row) != len(rows[0]):
                raise InputError(
                    f"word {number} has {len(row)} columns; expected at least {needed}, a "
                    "word and its tag, and equally many in a sentence"
                )
        words, tags = (
            [row[column - (column > 0)] for row in rows]
            for column in (self.word, self.tag)
        )
        if len(words) > 1 and words == list(map(str, range(1, len(words) + 1))):
            raise InputError(
                f"column {self.word} counts the words (1, 2, 3); name the word's column: "
                f"--set data.word={self.word + 1}"
            )
        return of_words(words, tags)


def read_objects(path: str) -> Iterator[Record]:
    """Yield the objects of a file; those of JSON lines are not parsed yet."""
    match suffix(path):
        case "jsonl":
            objects: Any = iterate_numbered_lines(path)
        case "json":
            objects = enumerate(list_of_objects(path), 1)
        case "parquet":
            objects = enumerate(parquet_records(path), 1)
        case _:
            objects = enumerate(records_in_memory(path), 1)
    for number, content in objects:
        yield Record(content, f"{path}:{number}")


def read_sentences(path: str) -> Iterator[Record]:
    """Yield the columns of each sentence's lines, without comments."""
    rows: list[list[str]] = []
    place = ""
    for number, line in chain(iterate_numbered_lines(path), [(0, "")]):
        columns = line.rstrip("\t ").split("\t") if "\t" in line else line.split()
        if not line.strip():
            if rows:
                yield Record(rows, place)
            rows = []
        elif not (
            COMMENT.match(line)
            or (len(columns) == 10 and NO_WORD.fullmatch(columns[0]))
        ):
            place = place if rows else f"{path}:{number}"
            rows.append(columns)


def parse_span(value: Any) -> tuple[int, int, str]:
    """Return the start, end and label of a span. Raises InputError for another value."""
    match value:
        case (
            {"start": int(start), "end": int(end), "label": str(label)}
            | {"start": int(start), "end": int(end), "labels": [str(label)]}
            | [int(start), int(end), str(label)]
        ):
            return start, end, label
    raise InputError(
        f"a span is {quote(str(value))}; expected [start, end, label], or an object with "
        "'start' and 'end', whole numbers, and 'label', a text"
    )


def word_places(text: str) -> tuple[Place, ...]:
    """Return the positions of the words of a text; spaces and punctuation divide them."""
    return tuple(match.span() for match in WORD.finditer(text))


def of_words(words: Sequence[str], tags: Sequence[str]) -> Tagged:
    """Return the text of tagged words, divided into words as a prediction divides it.

    A word of a file that is several words of the text, such as `e-mail`, continues its tag,
    so that a tagger meets the same words in training and in use.
    """
    places = []
    word_tags = []
    offset = 0
    for word, tag in zip(words, to_bio(tags), strict=True):
        for number, (start, end) in enumerate(word_places(word)):
            places.append((offset + start, offset + end))
            continues = number and tag.startswith("B-")
            word_tags.append(f"I-{tag[2:]}" if continues else tag)
        offset += len(word) + 1
    return Tagged(" ".join(words), tuple(places), tuple(word_tags))


def of_spans(text: str, spans: Sequence[tuple[int, int, str]]) -> Tagged:
    """Return a text tagged by spans `(start, end, label)`.

    Raises:
        InputError: The text is empty, or a span is not of words or overlaps another.
    """
    words = word_places(text)
    if not words:
        raise InputError("the text is empty")
    first_words = {}
    last_words = {}
    for index, (start, end) in enumerate(words):
        first_words[start] = index
        last_words[end] = index
    tags = [OUTSIDE] * len(words)
    for start, end, label in spans:
        name = f"the span {start} to {end}, {text[max(0, start) : end][:40]!r},"
        first = first_words.get(start)
        last = last_words.get(end)
        if first is None or last is None or last < first:
            raise InputError(f"{name} does not begin and end with a word of the text")
        for index in range(first, last + 1):
            if tags[index] != OUTSIDE:
                raise InputError(f"{name} overlaps another one; a word has one tag")
            tags[index] = f"I-{label}"
        tags[first] = f"B-{label}"
    return Tagged(text, words, tuple(tags))


@dataclass(frozen=True, kw_only=True)
class GeneratedSentences(Synthetic):
    """Generated sentences with the spans of some words."""

    train: int = 3_000
    valid: int = 200
    test: int = 500

    @abstractmethod
    def sentences(self) -> tuple[Sequence[Sentence], ...]:
        """Return the sentences of the three sets."""

    def load(self) -> Splits[Tagged]:
        """Generate all three sets."""
        return Splits(
            *(
                [
                    replace(of_spans(s.text, s.spans), origin=f"sentence {number}")
                    for number, s in enumerate(sentences, 1)
                ]
                for sentences in self.sentences()
            )
        )

    def tests(self) -> Sequence[Tagged]:
        """Return the sentences of the test set."""
        return self.load().test


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
    """Generated sentences in which "it" stands for one of two nouns, which is its tag."""

    kind: Literal["pronouns"] = "pronouns"
    train: int = 6_000

    def sentences(self) -> tuple[Sequence[Sentence], ...]:
        return generate_pronouns(self.sizes, self.seed)


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
