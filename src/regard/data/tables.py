"""Tables of texts of any format, by the ending of their names."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any, ClassVar, TypeVar
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from regard.config.file_kinds import (
    COLUMN_NAME,
    COMPRESSED,
    FASTTEXT,
    FOREIGN,
    JOINED,
    LABEL,
    MARK,
    READERS,
    TABLES,
    TEXTS,
    detect_text_table,
    suffix,
)
from regard.config.loader import Registry
from regard.config.yaml_tree import format_setting
from regard.data.arrow_tables import arrow_records, parquet_records
from regard.data.delimited import USUAL, read_delimited
from regard.data.files import (
    BEGINNING,
    WORKBOOK,
    FilePath,
    Position,
    check_one_set,
    example_in,
    is_remote,
    iterate_lines,
    list_files,
)
from regard.data.records import (
    Keys,
    Record,
    Records,
    list_of_objects,
    read_json_lines,
    read_rows,
    records_in_memory,
)
from regard.data.rows import MissingColumns, Row, RowCollector
from regard.errors import InputError

T = TypeVar("T", bound="Tabular")
Columns = Mapping[str, str | int]
"""Columns by the keys of a run file that name them."""
PLUGINS = Registry("regard.data", {}, READERS)
"""Readers of other packages: `read(path, columns, *, skip_bad) -> Iterable[Row]`."""
KEYED = TABLES - USUAL.keys()
"""The kinds of table whose records have keys instead of columns in an order."""
FOREIGN_FILES = {
    "zip": "a zip archive; unpack it and name the file inside",
}
TYPED_DELIMITERS = {"tab": "\t", "\\t": "\t"}
"""Delimiters by their names in run files and options."""


def kinds() -> str:
    """List the endings of file names that have a reader."""
    names = sorted({*TABLES, *PLUGINS} - {"memory"})
    return ", ".join(f".{name}" for name in names)


def kind(path: FilePath) -> str:
    """Return the kind of a table by its name, or the kind of a folder's tables.

    Raises:
        InputError: The kind is unknown.
    """
    if not isinstance(path, Records) and os.path.isdir(path):
        path = table_files(path)[0]
    ending = suffix(path)
    if ending in TABLES or ending in PLUGINS:
        return ending
    if ending in FOREIGN:
        raise InputError(f"{path}: {FOREIGN_FILES.get(ending, WORKBOOK)}")
    if text_kind := detect_text_table(path):
        return text_kind
    if ending in TEXTS and not os.path.exists(path) and not is_remote(path):
        raise InputError(f"{path}: no such file; check the path")
    raise InputError(
        f"{path}: unknown kind of table '.{ending}'; expected {kinds()}, these with "
        f"{', '.join(COMPRESSED)}, or a .txt file whose lines have equally many tabs or "
        "one |||, or a header with commas"
    )


def table_files(path: FilePath) -> Sequence[FilePath]:
    """List the tables that a path names.

    A folder gives its files of one kind, Arrow files if it has some, as the folder of
    a data set has.

    Raises:
        InputError: There is none, or several kinds or sets.
    """
    if isinstance(path, Records):
        return [path]
    files = list_files(str(path))
    if not os.path.isdir(path):
        return files
    tables: dict[str, list[str]] = {}
    for file in files:
        ending = suffix(file)
        if ending != "json" and (ending in TABLES or ending in PLUGINS):
            tables.setdefault(ending, []).append(file)
    if not tables:
        raise InputError(
            f"{path}: is a folder without tables; name a file{example_in(str(path))}"
        )
    if "arrow" not in tables and len(tables) != 1:
        raise InputError(
            f"{path}: a folder with {len(tables)} kinds of tables; expected tables of "
            f"one kind, or a pattern such as {path}/*.csv"
        )
    chosen = tables.get("arrow") or next(iter(tables.values()))
    check_one_set(path, chosen)
    return chosen


def stream_records(
    path: FilePath,
    columns: Keys,
    start: Position = BEGINNING,
    *,
    delimiter: str | None = None,
    quoting: bool | None = None,
    all_columns: bool = False,
) -> Iterator[Record]:
    """Yield the records of a table of a built-in kind, one in memory where possible.

    Args:
        path: The table, whose name says its kind.
        columns: The columns that it must have, by name, or by number from 1.
        start: The position of the first record.
        delimiter: The delimiter of a .csv or .tsv file; None to detect it.
        quoting: Whether its cells may be quoted; None: only in .csv files.
        all_columns: Whether to return its other columns too.

    Raises:
        InputError: The table is damaged, or lacks a column.
    """
    form = kind(path)
    names = None if all_columns else [*map(str, columns)]
    rows = start.lines
    if form in USUAL:
        return read_delimited(
            path,
            form,
            columns,
            start,
            delimiter,
            quoting,
        )
    if form == "jsonl":
        return read_json_lines(path, start)
    if form in (JOINED, FASTTEXT):
        split = split_sides if form == JOINED else split_labels
        return read_divided_lines(path, split, start)
    if form == "parquet":
        values: Iterable[Any] = parquet_records(str(path), names, rows)
    elif form == "arrow":
        values = islice(arrow_records(str(path), names), rows, None)
    elif form == "tmx":
        values = islice(read_memory(path), rows, None)
    elif form == "json":
        values = list_of_objects(path)[rows:]
    else:
        values = records_in_memory(path)[rows:]
    return (Record(number, value) for number, value in enumerate(values, rows + 1))


def read_divided_lines(
    path: FilePath,
    split: Callable[[str], tuple[dict[str, Any], str]],
    start: Position = BEGINNING,
) -> Iterator[Record]:
    """Yield the records of lines that `split` divides, from a position on."""
    with closing(iterate_lines(path, start=start)) as lines:
        for number, offset, text in lines:
            values, fault = split(text)
            yield Record(number, values, fault, offset=offset)


def split_sides(line: str) -> tuple[dict[str, Any], str]:
    """Return the sides of `source ||| target`, and what is wrong with the line."""
    sides = [side.strip() for side in line.split(MARK)]
    fault = "" if len(sides) == 2 else f"expected one {MARK} between two texts"
    return dict(zip(("source", "target"), sides, strict=False)), fault


def split_labels(line: str) -> tuple[dict[str, Any], str]:
    """Return label and text of `__label__NAME text`, and what is wrong with the line.

    Several labels are a list.
    """
    words = line.split()
    labels = [word.removeprefix(LABEL) for word in takewhile(is_label, words)]
    text = " ".join(words[len(labels) :])
    fault = "" if labels and text else f"expected {LABEL}NAME before a text"
    return {"label": labels[0] if len(labels) == 1 else labels, "text": text}, fault


def is_label(word: str) -> bool:
    """Check whether a word is a label in the form of fastText."""
    return word.startswith(LABEL)


def read_memory(path: FilePath) -> Iterator[dict[str, str]]:
    """Yield the segments of each unit of a translation memory, by language.

    Raises:
        InputError: The file is not XML, or lacks units.
    """
    parser = XMLPullParser(["end"])
    count = 0
    try:
        with closing(iterate_lines(path)) as lines:
            for line in lines:
                parser.feed(line.text + "\n")
                events: Any = parser.read_events()
                for _, element in events:
                    if element.tag != "tu":
                        continue
                    count += 1
                    yield dict(map(read_variant, element.iter("tuv")))
                    element.clear()
    except ParseError as error:
        message = f"{path}: is not valid XML ({error}); export the memory again"
        raise InputError(message) from error
    if not count:
        raise InputError(f"{path}: has no <tu>; expected a translation memory")


def read_variant(element: Element) -> tuple[str, str]:
    """Return the language of a variant of a unit, without its region, and its text."""
    # the name may have a namespace in front
    attributes = {name.rpartition("}")[2]: value for name, value in element.items()}
    language = attributes.get("lang", "")
    segment = element.find("seg")
    text = "" if segment is None else "".join(segment.itertext())
    return language.partition("-")[0].lower(), text.strip()


def choose_columns(columns: Columns, names: str) -> dict[str, str | int]:
    """Return columns with other names, or numbers from 1, with commas between.

    Raises:
        InputError: There are more or fewer names than columns.
    """
    parts: list[Any] = [part.strip() for part in names.split(",")]
    if len(parts) != len(columns) or not all(parts):
        expected = ",".join(columns).upper()
        raise InputError(
            f"columns is {names!r}; expected {len(columns)} names or numbers, {expected}"
        )
    if all(part.isdecimal() for part in parts):
        parts = [int(part) for part in parts]
    return dict(zip(columns, parts, strict=True))


@dataclass(frozen=True, kw_only=True)
class Tabular:
    """The reading of tables, a part of `data:` sections.

    Attributes:
        delimiter: The character between the columns of .csv and .tsv files. By default
            it is found by the first line.
        quoting: Whether fields may be in quotation marks; by default in .csv
            files.
        skip_bad: Skip bad records and count them.
    """

    kind: str = ""
    delimiter: str | None = None
    quoting: bool | None = None
    skip_bad: bool = False

    has_label_columns: ClassVar[bool] = False
    """Whether `label` may name a column of 0 and 1 for each label."""

    @property
    def columns(self) -> Columns:
        """The columns to use, by the keys of this section that name them."""
        return {}

    @property
    def optional_columns(self) -> Columns:
        """Further columns that a table may have."""
        return {}

    def with_columns(self: T, names: str | None, *, skip_bad: bool = False) -> T:
        """Return the section with other columns.

        Args:
            names: Names or numbers with commas between, in the order of `columns`.
            skip_bad: Whether bad records are skipped.

        Raises:
            InputError: There are more or fewer names than columns.
        """
        section = replace(self, skip_bad=skip_bad or self.skip_bad)
        if names is None:
            return section
        chosen: dict[str, Any] = {}
        for key, column in choose_columns(self.columns, names).items():
            name, index, _ = key.partition("[")
            chosen[name] = (*chosen.get(name, ()), column) if index else column
        return replace(section, **chosen)

    def stream_rows(
        self, path: FilePath, columns: Columns, numbers: Keys = (), lists: Keys = ()
    ) -> Iterator[Row]:
        """Yield the rows of the tables of a path, with one in memory where possible.

        Args:
            path: A table, or a folder or pattern of several.
            columns: The columns of the fields, by the keys that name them.
            numbers: Columns that may hold numbers in JSON.
            lists: Columns that may be empty, and hold lists in JSON, whose items end with
                `ITEM` in the field.

        Raises:
            InputError: A row or a table is bad; it names the keys of
                missing columns.
        """
        files = table_files(path)
        self.check_columns(columns, str(files[0]))
        names = tuple(columns.values())
        with advise({**self.columns, **columns}):
            for file in files:
                form = kind(file)
                if form not in TABLES:
                    yield from PLUGINS[form](file, names, skip_bad=self.skip_bad)
                    continue
                records = self.stream_records(file, names)
                collector = RowCollector(file, self.skip_bad)
                yield from read_rows(
                    records,
                    names,
                    collector,
                    numbers,
                    lists,
                )

    def stream_records(
        self, file: FilePath, columns: Keys, *, all_columns: bool = False
    ) -> Iterator[Record]:
        """Yield the records of a table, by the delimiter and quoting that are set.

        Raises:
            InputError: As `stream_records`, or the delimiter has several characters.
        """
        delimiter = TYPED_DELIMITERS.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and len(delimiter) != 1:
            raise InputError(
                f"data.delimiter is {delimiter!r}; expected one character, such as ';', "
                "or tab"
            )
        return stream_records(
            file,
            columns,
            delimiter=delimiter,
            quoting=self.quoting,
            all_columns=all_columns,
        )

    def check_columns(self, columns: Columns, *paths: str | None) -> None:
        """Raise InputError for columns that no table can have.

        They are names and numbers, numbers of a table with keys, or one column twice.
        """
        values = list(columns.values())
        numbered = [key for key in columns if isinstance(columns[key], int)]
        keyed = KEYED & {suffix(path) for path in paths if path is not None}
        if numbered and (keyed or len(numbered) < len(values)):
            key = numbered[0]
            raise InputError(
                f"the columns {', '.join(map(repr, values))} must all be names, or all "
                "numbers of the columns of .tsv or .csv files without a header; a name "
                "that is a number is in quotation marks, as "
                + format_setting(f"data.{key}", str(columns[key]))
            )
        keys = {column: key for key, column in columns.items()}
        for key, column in columns.items():
            if keys[column] != key:
                raise InputError(
                    f"data.{key} and data.{keys[column]} name one column, {column!r}; "
                    "expected a column for each, so name another one with "
                    f"--set data.{keys[column]}=COLUMN"
                )


@contextmanager
def advise(columns: Columns) -> Iterator[None]:
    """Name the keys of columns that a table lacks, in errors inside."""
    try:
        yield
    except MissingColumns as error:
        if error.advice:
            raise
        error.names.sort(key=list(map(str, columns.values())).index)
        error.advice = _advise(columns, error)
        error.keys = list(columns)
        raise


def _guess_columns(texts: Sequence[str], cells: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the columns that are most likely texts and their label.

    Args:
        texts: The keys of texts, whose columns have the most words.
        cells: The first row.
    """
    columns = range(1, len(cells) + 1)
    by_words = sorted(columns, key=lambda column: -len(cells[column - 1].split()))
    count = len(texts)
    numbers = dict(zip(texts, sorted(by_words[:count]), strict=True))
    return numbers | {"label": max(by_words[count:])}


def _advise(columns: Columns, error: MissingColumns) -> str:
    """Return the options that name missing columns, with the closest available ones."""
    chosen: dict[str, Any] = {key: str(name) for key, name in columns.items()}
    missing = [key for key, column in chosen.items() if column in error.names]
    for key in missing:
        column = chosen.pop(key)
        used = list(chosen.values())
        likely = error.closest(column, used) or error.closest(key, used)
        chosen[key] = likely or "COLUMN"
    unused: list[Any] = [
        name for name in error.available if name not in chosen.values()
    ]
    unnamed = [key for key in missing if chosen[key] == "COLUMN" and "[" not in key]
    # Texts and labels stand in either order, pairs from source to target.
    if len(unused) == len(unnamed) and unnamed in ([missing[0]], ["source", "target"]):
        if not all(map(COLUMN_NAME.fullmatch, unused)):
            unused = [error.available.index(name) + 1 for name in unused]
        chosen |= dict(zip(unnamed, unused, strict=True))
    has_label = unnamed in (["text", "label"], ["text", "second", "label"])
    has_header = all(map(COLUMN_NAME.fullmatch, error.available))
    if has_label and not has_header and len(unnamed) <= len(unused):
        chosen |= _guess_columns(unnamed[:-1], error.available)
    options = []
    for name in dict.fromkeys(key.partition("[")[0] for key in missing):
        several = [chosen[key] for key in columns if key.startswith(f"{name}[")]
        options.append(format_setting(f"data.{name}", several or chosen[name]))
    numbers = " (by number from 1 if the file has no header)" if error.numbered else ""
    return f"name yours with {' and '.join(options)}{numbers}"
