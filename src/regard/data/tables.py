"""Tables of texts of any format, by the ending of their names."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from regard.config.file_kinds import (
    SPREADSHEETS,
    TABLES,
    TEXTS,
    detect_text_table,
    suffix,
)
from regard.config.registry import Registry
from regard.config.yaml_tree import format_setting
from regard.data.delimited import FIRST_LINE, TYPED, Columns, column_names
from regard.data.files import (
    WORKBOOK,
    check_classes,
    check_one_set,
    folders_in,
    is_remote,
    list_files,
    read_lines,
)
from regard.data.records import Records
from regard.data.rows import MissingColumns, Row, RowCollector
from regard.errors import InputError

COLUMNS = ("text", "label")
ASIDE = "unsup"
"""The folder of IMDB's reviews that have no class."""


def has_texts(path: Any) -> bool:
    """Whether a path is a folder without tables that has .txt files in its folders."""
    if not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
        return False
    return any(Path(path).glob("*/*.txt")) and not any(
        suffix(name) in TABLES for name in os.listdir(path)
    )


def read_text_folders(
    path: str | Path,
    columns: Sequence[str | int],
    *,
    skip_bad: bool = False,
    **layout: Any,
) -> Iterator[Row]:
    """A row for each .txt file in the folders of a folder: its lines as one text, and the name of its folder.

    Raises InputError for another column, for folders that are named after sets, and for a blank or unreadable file, or
    skips and counts such files with `skip_bad`."""
    if unknown := [str(column) for column in columns if column not in COLUMNS]:
        raise MissingColumns(
            unknown, COLUMNS, "folders of texts", f"{path}: ", "leave these options out"
        )
    folders = [
        folder
        for folder in folders_in(Path(path))
        if folder.name != ASIDE and any(folder.glob("*.txt"))
    ]
    check_classes(str(path), [folder.name for folder in folders])
    collector = RowCollector(path, skip_bad)
    for folder in folders:
        for file in sorted(folder.glob("*.txt")):
            try:
                found = {"text": " ".join(read_lines(file)), "label": folder.name}
            except InputError as error:
                collector.refuse_record(str(error))
                continue
            collector.kept += 1
            yield Row(tuple(found[str(column)] for column in columns), f"{file}:1")
    collector.check(collector.kept)


T = TypeVar("T", bound="Tabular")
READERS = Registry(
    "regard.data",
    {
        "tsv": "delimited:read_tsv",
        "csv": "delimited:read_csv",
        "jsonl": "records:read_jsonl",
        "json": "records:read_json",
        "parquet": "arrow_tables:read_parquet",
        "arrow": "arrow_tables:read_arrow",
        "memory": "records:read_memory",
        "folders": "tables:read_text_folders",
    },
    "regard.readers",
)
"""Readers of tables by the ending of a file's name: `read(path, columns, *, skip_bad) -> Iterable[Row]`."""
KEYED = frozenset({"jsonl", "json", "parquet", "arrow", "memory"})
"""The kinds of table whose records have keys instead of columns in an order."""
HEADED = frozenset({"tsv", "csv", "jsonl"})
"""The kinds of table whose first line has the names of the columns, as a header or as the keys of an object."""
FOLDERS = "folders"
"""The kind of a folder with texts in its folders."""
WRITTEN = {"tab": "\t"} | {typed: delimiter for delimiter, typed in TYPED.items()}
"""Delimiters by what is written for them in a run file or an option."""


def kinds() -> str:
    """The endings of file names that have a reader."""
    return ", ".join(f".{name}" for name in READERS if name not in ("memory", FOLDERS))


@dataclass(frozen=True, kw_only=True)
class Tabular:
    """The reading of tables, a part of `data:` sections. `delimiter` stands between the columns of .csv and .tsv files;
    by default it is a comma or a tab, or the one with which the header has the columns. With `quoting` fields may be in
    quotation marks: by default those of .csv files only. `skip_bad` skips bad records and counts them."""

    kind: str = ""
    delimiter: str | None = None
    quoting: bool | None = None
    skip_bad: bool = False

    @property
    def columns(self) -> Mapping[str, str | int]:
        """The columns that are read, by the keys of this section that name them."""
        return {}

    def with_columns(self: T, names: str | None, *, skip_bad: bool = False) -> T:
        """The section with other columns, names or numbers with commas between in the order of `columns`. Raises
        InputError for another number of them."""
        own = replace(self, skip_bad=skip_bad or self.skip_bad)
        if names is None:
            return own
        parts = [part.strip() for part in names.split(",")]
        if len(parts) != len(self.columns) or not all(parts):
            expected = ",".join(column.upper() for column in self.columns)
            raise InputError(
                f"columns is {names!r}; expected {len(self.columns)} names or numbers, {expected}"
            )
        numbered = all(part.isdecimal() for part in parts)
        chosen: dict[str, Any] = dict(
            zip(self.columns, map(int, parts) if numbered else parts, strict=True)
        )
        return replace(own, **chosen)

    def rows(
        self,
        path: str | Path,
        columns: Mapping[str, str | int],
        numbers: tuple[str | int, ...] = (),
        lists: tuple[str | int, ...] = (),
    ) -> list[Row]:
        """Read a table, or those that a pattern or a folder names. `columns` are those of the keys of this section, by
        the keys' names; `numbers` and `lists` as for `read_table`. Raises InputError as `read_table`, which names the
        keys of columns that the table lacks."""
        return list(self.streamed(path, columns, numbers, lists))

    def streamed(
        self,
        path: str | Path,
        columns: Mapping[str, str | int],
        numbers: tuple[str | int, ...] = (),
        lists: tuple[str | int, ...] = (),
    ) -> Iterator[Row]:
        """The rows of `rows`, one in memory at a time where the kind of table allows it."""
        chosen: Any = tuple(columns.values())
        files = table_files(path)
        self.check_columns(columns, str(files[0]))
        if (
            self.delimiter is not None
            and len(WRITTEN.get(self.delimiter, self.delimiter)) != 1
        ):
            raise InputError(
                f"data.delimiter is {self.delimiter!r}; expected one character, such as ';', or tab"
            )
        more: dict[str, Any] = {
            "skip_bad": self.skip_bad,
            "numbers": numbers,
            "lists": lists,
            "layout": self.layout(),
        }
        try:
            for file in files:
                yield from stream_table(file, chosen, **more)
        except MissingColumns as error:
            ordered = {**self.columns, **columns}
            raise error.advised(
                _advice(ordered, error, suffix(str(files[0])) in KEYED), ordered
            ) from error

    def layout(self) -> dict[str, Any]:
        """The settings of delimited files that differ from those of their kind."""
        stated = {"quoting": self.quoting}
        stated |= {
            "delimiter": self.delimiter and WRITTEN.get(self.delimiter, self.delimiter)
        }
        return {name: value for name, value in stated.items() if value is not None}

    def check_columns(
        self, columns: Mapping[str, str | int], *paths: str | None
    ) -> None:
        """Raises InputError for names among numbers, for numbers of a table with keys, and for two keys that name one
        column."""
        numbered = {isinstance(column, int) for column in columns.values()}
        keyed = KEYED & {suffix(path) for path in paths if path is not None}
        if len(numbered) > 1 or (True in numbered and keyed):
            names = {key: str(column) for key, column in columns.items()}
            key = next(
                key for key, column in columns.items() if isinstance(column, int)
            )
            raise InputError(
                f"the columns {', '.join(map(repr, columns.values()))} must all be names, or all numbers of the "
                "columns of .tsv or .csv files without a header; a name that is a number is in quotation marks, as "
                + _set(key, names)
            )
        for column in columns.values():
            same = [other for other, item in columns.items() if item == column]
            if len(same) > 1:
                raise InputError(
                    f"{' and '.join(f'data.{item}' for item in same)} name one column, {column!r}; expected a column "
                    f"for each, so name another one with --set data.{same[1]}=COLUMN"
                )


def read_table(
    path: str | Path,
    columns: Columns,
    *,
    skip_bad: bool = False,
    numbers: tuple[str | int, ...] = (),
    lists: tuple[str | int, ...] = (),
    layout: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Read a table of the kind that its name ends with. In JSON, values of the columns `numbers` may be numbers. Values
    of the columns `lists` may be empty, and in JSON lists, whose items end with `records.ITEM` in the field. `layout`
    is that of delimited files. Raises InputError as its reader and `kind` do."""
    return list(
        stream_table(
            path,
            columns,
            skip_bad=skip_bad,
            numbers=numbers,
            lists=lists,
            layout=layout,
        )
    )


def stream_table(
    path: str | Path,
    columns: Columns,
    *,
    skip_bad: bool = False,
    numbers: tuple[str | int, ...] = (),
    lists: tuple[str | int, ...] = (),
    layout: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    """The rows of `read_table`, one in memory at a time where the kind of table allows it."""
    form = kind(path)
    more: dict[str, Any] = {"numbers": numbers} if form in KEYED else dict(layout or {})
    more |= {"lists": lists} if lists else {}
    return iter(READERS[form](path, columns, skip_bad=skip_bad, **more))


def table_files(path: str | Path) -> Sequence[str | Path]:
    """The tables that a path names (`opening.files_of`): of a folder those of one kind, Arrow files if it has some, as
    the folder of a data set has; a folder with texts in its folders is a table itself. Raises InputError for none, and
    for a folder with several kinds, or with several sets."""
    if isinstance(path, Records):
        return [path]
    if has_texts(path):
        return [path]
    found = list_files(str(path))
    if not os.path.isdir(path):
        return [path] if found == [str(path)] else found
    kinds_here = {suffix(file) for file in found} & set(READERS) - {"json", FOLDERS}
    if (len(kinds_here) > 1 and "arrow" not in kinds_here) or not kinds_here:
        what = f"tables of {len(kinds_here)} kinds" if kinds_here else "no table"
        raise InputError(
            f"{path}: a folder with {what}; expected tables of one kind, or a pattern such as {path}/*.csv"
        )
    chosen = "arrow" if "arrow" in kinds_here else next(iter(kinds_here))
    tables = [file for file in found if suffix(file) == chosen]
    check_one_set({str(path): tables})
    return tables


def names_in(path: str | Path) -> list[str]:
    """The columns of the first table of a path, or none of a kind without a header that is text. Raises InputError as
    `table_files` and `kind`."""
    (file, *_) = table_files(path)
    return (
        column_names(file) if isinstance(file, Records) or kind(file) in HEADED else []
    )


def kind(path: str | Path) -> str:
    """The kind of a table by the ending of its name; of a folder that of its tables. Raises InputError for an unknown
    kind."""
    if not isinstance(path, Records) and os.path.isdir(path):
        first = table_files(path)[0]
        return FOLDERS if first == path else suffix(first)
    found = suffix(path)
    if found in TEXTS:
        return _text_kind(path)
    if found in SPREADSHEETS:
        raise InputError(f"{path}: {WORKBOOK}")
    if found not in READERS:
        expected = f"{kinds()}, .txt, or these with .gz or .zst"
        raise InputError(
            f"{path}: unknown kind of table '.{found}'; expected {expected}"
        )
    return found


def _text_kind(path: str | Path) -> str:
    """The kind of a table that ends in .txt or has no ending. Raises InputError for a file that is no table."""
    if listed := detect_text_table(path):
        return listed
    if not os.path.exists(path) and not is_remote(str(path)):
        raise InputError(f"{path}: no such file; check the path")
    ending = ".txt" if suffix(path) else ""
    raise InputError(
        f"{path}: unknown kind of table {ending!r}, since its lines have neither equally many tabs nor a header with "
        f"commas above them; expected such lines, or {kinds()}, or these with .gz or .zst"
    )


def _advice(
    columns: Mapping[str, str | int], error: MissingColumns, keyed: bool
) -> str:
    """The options that name the columns that a table lacks."""
    if error.where == FIRST_LINE:
        numbered = {key: number for number, key in enumerate(columns, 1)}
        numbers = " ".join(dict.fromkeys(_set(key, numbered) for key in columns))
        return f"the file seems to have no header: name columns by number from 1, as {numbers}"
    lacking = list(
        dict.fromkeys(
            _setting(key, columns, error)
            for key in columns
            if columns[key] in error.names
        )
    )
    advice = f"name yours with {' and '.join(lacking)}"
    if not keyed and all(name.endswith("=COLUMN") for name in lacking):
        advice += f"; without a header name them by number, as {lacking[0].removesuffix('COLUMN')}1"
    return advice


def _setting(key: str, columns: Mapping[str, str | int], error: MissingColumns) -> str:
    """The option that names the missing column of a key, probably the closest one that the table has; of a key with
    several columns, all of them."""
    return _set(key, _propose_columns(columns, error))


def _set(key: str, columns: Mapping[str, str | int]) -> str:
    """The option that names the column of a key; of a key with several columns, all of them."""
    name, several, _ = key.partition("[")
    found = [
        column
        for item, column in columns.items()
        if several and item.startswith(f"{name}[")
    ]
    return format_setting(f"data.{name}", found if several else columns[key])


def _propose_columns(
    columns: Mapping[str, str | int], error: MissingColumns
) -> dict[str, str]:
    """For each key its column, or probably the closest one that the table has and no other key names."""
    found = {
        key: str(column) for key, column in columns.items() if column not in error.names
    }
    for key, column in columns.items():
        if key not in found:
            others = found.values()
            found[key] = (
                error.closest(str(column), others)
                or error.closest(key, others)
                or "COLUMN"
            )
    return {key: found[key] for key in columns}
