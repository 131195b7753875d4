"""Tagged texts: files with a word and its tag a line, or with the spans of texts in JSON."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple

import regex

from regard.config.file_kinds import suffix
from regard.data.data_files import DataFiles
from regard.data.files import Line, iterate_lines
from regard.data.generated.pairs import (
    Size,
    SizeOrNone,
    Synthetic,
    disjoint_sets,
)
from regard.data.generated.sentences import (
    Sentence,
    make_named_sentence,
    make_pronoun_sentence,
)
from regard.data.records import find_values
from regard.data.rows import RowCollector, iterate_converted
from regard.data.splits import Splits
from regard.data.tables import advise, stream_records
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
SCHEME_LETTER = re.compile(r"[-_][BIEMSLUW]$|^[BIEMSLUW]([-_]|$)")
"""The letter of a scheme of tags that regard does not read: behind the kind, with an underscore, or alone."""
NO_WORD = re.compile(r"\d+[-.]\d+")
"""A range of words, `4-5`, or an empty node, `2.1`, in the first column of CoNLL-U."""
OBJECTS = frozenset({"jsonl", "json", "parquet", "memory"})


@dataclass(frozen=True)
class Tagged:
    """A text with the positions of its words, their tags in BIO and its `file:line`."""

    text: str
    words: tuple[Place, ...]
    tags: tuple[str, ...]
    place: str = ""


class Located(NamedTuple):
    """Values of a file with their `file:line`."""

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
    line ends a sentence. Tags are in BIO, IOB1, BIOES, BILOU or BMES, or plain, each a
    word of its own. Ranges of words and empty nodes of CoNLL-U are left out.

    Attributes:
        text: The key of the text in JSON or Parquet, or of a list of words.
        spans: The key of the text's spans in JSON or Parquet, or of the list of the
            words' tags.
        word: The column of the word in other files, from 1, or from the end with -1.
        tag: The column of its tag in other files, from 1, or from the end with -1.
    """

    recognised = ("file",)
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
        if 0 in (self.word, self.tag):
            raise InputError(
                "data.word and data.tag count from 1, or from the end with -1; one of "
                "them is 0"
            )

    def examples(self, path: str) -> Iterator[Tagged]:
        """Yield the texts of a file, with one in memory at a time."""
        has_objects = suffix(path) in OBJECTS
        parse: Callable[[Any], Tagged] = self.parse_sentence
        if has_objects:
            parse = parse_object
        return iterate_converted(
            self.read_objects(path) if has_objects else read_sentences(path),
            lambda record: replace(parse(record.content), place=record.place),
            path,
            skip_bad=self.skip_bad,
        )

    def read_objects(self, path: str) -> Iterator[Located]:
        """Yield the text and the spans of each object of a file."""
        columns = {"text": self.text, "spans": self.spans}
        keys = [*columns.values()]
        collector = RowCollector(path, self.skip_bad)
        with advise(columns):
            for record in stream_records(path, keys):
                values = find_values(record, keys, collector)
                if values is not None:
                    collector.kept += 1
                    yield Located(values, f"{path}:{record.number}")
            collector.check()

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
        columns: list[Any] = [name.strip() for name in names.split(",")]
        keys = ("text", "spans")
        try:
            if suffix(path) not in OBJECTS:
                keys = ("word", "tag")
                columns = list(map(int, columns))
            chosen = dict(zip(keys, columns, strict=True))
        except ValueError as error:
            raise InputError(
                f"columns is {names!r}; expected the keys TEXT,SPANS of JSON, or the "
                "numbers of the columns WORD,TAG, such as 1,-1"
            ) from error
        return replace(self, **chosen)

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
        if len(words) > 1 and words == [str(n) for n in range(1, len(words) + 1)]:
            raise InputError(
                f"column {self.word} counts the words (1, 2, 3); name the word's column: "
                f"--set data.word={self.word + 1}"
            )
        return of_words(words, tags)


def parse_object(values: Sequence[Any]) -> Tagged:
    """Return the tagged text of a text and its spans, or of words and their tags.

    Raises:
        InputError: They are something else.
    """
    match values:
        case [str(text), list() | None as spans]:
            return of_spans(text, list(map(parse_span, spans or ())))
        case [list(words), list(tags)] if all(
            isinstance(item, str) for item in (*words, *tags)
        ):
            if not words or len(words) != len(tags):
                raise InputError(f"{len(words)} words, {len(tags)} tags")
            return of_words(words, tags)
    raise InputError(
        "expected a text and the list of its spans, or a list of words and the list of "
        "their tags, such as 'B-PER'"
    )


def read_sentences(path: str) -> Iterator[Located]:
    """Yield the columns of each sentence's lines, with the place of the first."""
    lines: list[str] = []
    place = ""
    for number, _, line in chain(iterate_lines(path), [Line(0, 0, "")]):
        cells = {cell.strip(' "').lower() for cell in re.split("[\t,;]", line)}
        if number == 1 and len(cells) > 1 and cells & {"text", "sentence"}:
            raise InputError(
                f"{path}: a table with a text a row; expected a word and its tag a line, "
                "or JSON lines with `text` and its `spans`, lists of [start, end, label]"
            )
        if line.strip() and not COMMENT.match(line):
            place = place if lines else f"{path}:{number}"
            lines.append(line)
        elif not line.strip():
            rows = split_columns(lines)
            if rows:
                yield Located(rows, place)
            lines = []


def split_columns(lines: Sequence[str]) -> list[list[str]]:
    """Divide the lines of a sentence into columns, by tabs if all have one, else by blanks.

    Blanks divide them too where tabs give two columns and blanks equally many more, as in
    a table whose last column alone stands behind a tab. Lines that are no words are left
    out: a heading behind `#` with other columns, and ranges and empty nodes of CoNLL-U.
    """
    rows = [line.split() for line in lines]
    if all("\t" in line for line in lines):
        tabbed = [line.rstrip("\t ").split("\t") for line in lines]
        widths = {len(row) for row in rows}
        if {len(row) for row in tabbed} != {2} or len(widths) > 1 or min(widths) < 4:
            rows = tabbed
    if len(rows) > 1 and rows[0][0] == "#" and len(rows[0]) != len(rows[1]):
        rows = rows[1:]
    return [row for row in rows if len(row) != 10 or not NO_WORD.fullmatch(row[0])]


def describe_unread_scheme(labels: Iterable[str]) -> list[str]:
    """Describe tags of one kind that differ by a letter, as in PER-B and PER-I, if any."""
    kinds: dict[str, list[str]] = {}
    for label in sorted(labels):
        if label[:2] not in ("B-", "I-") and SCHEME_LETTER.search(label):
            kinds.setdefault(SCHEME_LETTER.sub("", label, count=1), []).append(label)
    return [
        f"{' and '.join(same)} are separate kinds; if they mark the words of one name, "
        f"write them as B-{kind or 'NAME'} and I-{kind or 'NAME'}"
        for kind, same in kinds.items()
        if len(same) > 1
    ][:1]


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


def space_out(text: str, words: Sequence[Place]) -> tuple[str, tuple[Place, ...]]:
    """Return a text with blanks between words of scripts that are written without."""
    parts = []
    places = []
    last = shift = 0
    for start, end in words:
        if start == last and start and regex.search(UNSPACED, text[start - 1 : end]):
            parts.append(" ")
            shift += 1
        parts.append(text[last:end])
        places.append((start + shift, end + shift))
        last = end
    return "".join([*parts, text[last:]]), tuple(places)


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
    firsts = {start: index for index, (start, _) in enumerate(words)}
    lasts = {end: index for index, (_, end) in enumerate(words)}
    tags = [OUTSIDE] * len(words)
    for start, end, label in spans:
        name = f"the span {start} to {end}, {text[max(0, start) : end][:40]!r},"
        first = firsts.get(start)
        last = lasts.get(end)
        if first is None or last is None or last < first:
            raise InputError(f"{name} does not begin and end with a word of the text")
        if {*tags[first : last + 1]} != {OUTSIDE}:
            raise InputError(f"{name} overlaps another one; a word has one tag")
        tags[first : last + 1] = [f"B-{label}", *[f"I-{label}"] * (last - first)]
    return Tagged(text, words, tuple(tags))


@dataclass(frozen=True, kw_only=True)
class GeneratedSentences(Synthetic):
    """Generated sentences with the spans of some words."""

    train: Size = 3_000
    valid: Size = 200
    test: SizeOrNone = 500

    make: ClassVar[Callable[[int, Random], Sentence]]
    """Makes a sentence of one of the sets."""

    def sentences(self) -> tuple[Sequence[Sentence], ...]:
        """Return the sentences of the three sets."""
        return disjoint_sets(self.sizes, self.seed, type(self).make, self.kind)

    def load(self) -> Splits[Tagged]:
        """Generate all three sets."""
        sets = []
        for sentences in self.sentences():
            texts = [of_spans(sentence.text, sentence.spans) for sentence in sentences]
            numbered = enumerate(texts, 1)
            sets.append([replace(text, place=f"sentence {n}") for n, text in numbered])
        return Splits(*sets)

    def tests(self) -> Sequence[Tagged]:
        """Return the sentences of the test set."""
        return self.load().test


@dataclass(frozen=True, kw_only=True)
class Names(GeneratedSentences):
    """Generated sentences about people, places and organisations.

    Names of the test set are mostly new.
    """

    kind: Literal["names"] = "names"
    make = staticmethod(make_named_sentence)


@dataclass(frozen=True, kw_only=True)
class Pronouns(GeneratedSentences):
    """Generated sentences in which "it" stands for one of two nouns, which is its tag."""

    kind: Literal["pronouns"] = "pronouns"
    train: Size = 6_000
    make = staticmethod(make_pronoun_sentence)


@dataclass(frozen=True, kw_only=True)
class Tagging(FineTuning):
    """A run file.

    A text of more tokens than `model.context` is read in several parts.
    """

    takes = tuple(TAGGERS)

    task: Literal["tagging"] = "tagging"
    data: TaggedFiles | Names | Pronouns
    model: TaggerConfig | None = None
