"""Records with keys: JSON lines, JSON arrays and rows in memory."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.data.files import BEGINNING, FileLimits, Position, iterate_lines, read_lines
from regard.data.rows import Row, RowCollector
from regard.errors import InputError, quote

ONE_LINE = FileLimits(max_line=2**28)
"""A published JSON file is a single line."""
ABSENT = object()
ITEM = "\x1f"
"""The end of each item of a list in a field, the unit separator of ASCII."""
Key = str | int
Keys = Sequence[Key]


@dataclass(frozen=True)
class Record:
    """A record as it stands in a file.

    Attributes:
        number: The number of its line or row, from 1.
        values: Its values by column, or anything else that is no record.
        fault: Why it has no values; empty by default.
        line: Its line of JSON, for messages.
        offset: The byte at which it begins.
    """

    number: int
    values: Any
    fault: str = ""
    line: str = ""
    offset: int = 0


def read_rows(
    records: Iterable[Record],
    columns: Keys,
    collector: RowCollector,
    numbers: Keys = (),
    lists: Keys = (),
) -> Iterator[Row]:
    """Yield the rows of records, with one in memory at a time.

    The values of columns must be texts. The last value may be a list: its first item is
    the field, the rest are the row's `alternatives`.

    Args:
        records: The records of a file.
        columns: The columns of the fields.
        collector: What refuses bad records.
        numbers: Columns whose values may also be numbers, read as text.
        lists: Columns that may be empty, or lists of texts or numbers.

    Raises:
        InputError: A record is bad, or none is good.
    """
    for record in records:
        values = find_values(record, columns, collector)
        if values is None:
            continue
        cells = list(zip(columns, values, strict=True))
        column, last = cells[-1]
        listed = isinstance(last, list | tuple) and column not in lists
        if listed:
            cells[-1:] = [(column, item) for item in last]
        texts = []
        try:
            if listed and not last:
                raise ValueError("is an empty list, expected at least one text")
            for column, value in cells:
                texts.append(_read_text(value, column in numbers, column in lists))
        except ValueError as error:
            key = json.dumps(str(column).rpartition(".")[2])
            character = max(record.line.find(key), 0) + 1
            place = f"character {character}: " if record.line else ""
            collector.refuse(record.number, f"{place}column {column!r} {error}")
            continue
        width = len(columns)
        yield collector.row(record.number, texts[:width], texts[width:], listed=listed)
    collector.check()


def find_values(
    record: Record, columns: Keys, collector: RowCollector
) -> list[Any] | None:
    """Return the values of the columns of a record; None if it is refused."""
    fault = record.fault
    content = record.values
    if not fault and not isinstance(content, Mapping):
        place = "character 1: " if record.line else ""
        fault = f"{place}expected an object with keys, found {type(content).__name__}"
    if fault:
        collector.refuse(record.number, fault)
        return None
    values = [get_value(content, column) for column in columns]
    pairs = zip(columns, values, strict=True)
    if missing := [str(column) for column, value in pairs if value is ABSENT]:
        collector.lack(record.number, missing, list_keys(content))
        return None
    return values


def _read_text(value: Any, is_number: bool, is_list: bool) -> str:
    """Return a value as a text. Raises ValueError."""
    if is_list and isinstance(value, list | tuple):
        return "".join(f"{_read_text(item, True, True)}{ITEM}" for item in value)
    if is_list and value is None:
        return ""
    if is_number and isinstance(value, bool):
        return str(value).lower()
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    if (is_number or is_list) and is_real and value == value:
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"is {type(value).__name__}, expected text")
    if not value.strip() and not is_list:
        raise ValueError("is empty")
    return value


def get_value(record: Mapping[Any, Any], key: Key) -> Any:
    """Return the value of a key; ABSENT if there is none.

    A key may lie inside another one, `review.body`, or in a list, `answers.0`.
    """
    if key in record:
        return record[key]
    value: Any = record
    for step in str(key).split("."):
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, Mapping):
            value = value.get(step, ABSENT)
        elif value is not None:
            return ABSENT
    return value


def list_keys(record: Mapping[Any, Any], prefix: str = "", depth: int = 3) -> list[str]:
    """List the keys of a record; those of an object inside as `outer.inner`."""
    keys = []
    for name, value in record.items():
        if isinstance(value, Mapping) and value and depth:
            keys += list_keys(value, f"{prefix}{name}.", depth - 1)
        else:
            keys.append(f"{prefix}{name}")
    return keys


def parse_json(line: str) -> tuple[Any, str]:
    """Return the value of a line, and what is wrong with it."""
    try:
        return json.loads(line), ""
    except json.JSONDecodeError as error:
        return None, f"character {error.colno}: not valid JSON ({error.msg})"
    except (ValueError, RecursionError) as error:
        return None, f"character 1: JSON that cannot be read ({error})"


def parse_object(line: str, form: str) -> tuple[Any, str]:
    """Return the object of a line that a user types, and the error that says its form."""
    value, fault = parse_json(line)
    if fault and not line.lstrip().startswith("{"):
        fault = f"got {quote(line)}"
    return value, f"{fault}; expected {form}" if fault else f"expected {form}"


def read_json_lines(path: str | Path, start: Position = BEGINNING) -> Iterator[Record]:
    """Yield the record of each line of a file, from a position on."""
    with closing(iterate_lines(path, start=start)) as lines:
        for number, offset, text in lines:
            yield Record(number, *parse_json(text), text, offset)


def read_document(path: str | Path) -> Any:
    """Read the value of a JSON file. Raises InputError for invalid JSON."""
    lines = read_lines(path, ONE_LINE)
    value, fault = parse_json("\n".join(lines))
    if fault and len(lines) > 1 and isinstance(parse_json(lines[0])[0], Mapping):
        fault = "has an object a line, which is JSON lines; rename it to .jsonl"
    if fault:
        raise InputError(f"{path}: {fault}")
    return value


def list_of_objects(path: str | Path) -> list[Any]:
    """Read the list in a JSON file.

    Of a file of COCO's form (Lin 2014, 1405.0312) these are its annotations, such as
    captions, each with the fields of its image, such as `file_name`.

    Raises:
        InputError: The file has another form.
    """
    value = read_document(path)
    if isinstance(value, Mapping) and {"images", "annotations"} <= value.keys():
        try:
            images = {image["id"]: image for image in value["images"]}
            return [images[item["image_id"]] | item for item in value["annotations"]]
        except (LookupError, TypeError) as error:
            raise InputError(
                f"{path}: has COCO's 'images' and 'annotations', but {error} is missing "
                "or of another form; expected an 'id' of each image, and the 'image_id' "
                "of each annotation"
            ) from error
    if isinstance(value, Mapping) and isinstance(value.get("intents"), list):
        value = value["intents"]
    if not isinstance(value, list):
        raise InputError(f"{path}: is no list; expected a list of objects")
    return list(chain.from_iterable(map(_split_intent, value)))


def _split_intent(item: Any) -> list[Any]:
    """Return a row for each pattern of an intent of a chatbot, or the item itself."""
    match item:
        case {"tag": tag, "patterns": [*patterns]}:
            texts = [{"patterns": pattern, "text": pattern} for pattern in patterns]
            return [{**item, **text, "label": tag} for text in texts]
    return [item]


MEMORY_SUFFIX = ".memory"


class Records(str):
    """Rows in memory by the keys of their columns.

    As text it is their name, which stands in a run file and in messages instead of the
    path of a table.
    """

    records: Sequence[Mapping[str, Any]]

    def __new__(cls, name: str, records: Sequence[Mapping[str, Any]]) -> "Records":
        self = super().__new__(cls, name + MEMORY_SUFFIX)
        self.records = records
        return self

    def __str__(self) -> "Records":
        return self

    def __deepcopy__(self, memo: object) -> "Records":
        return self


@runtime_checkable
class DataFrame(Protocol):
    """A data frame of pandas or polars: its columns by name."""

    @property
    def columns(self) -> Iterable[Any]: ...

    def __getitem__(self, name: Any, /) -> Any: ...


def records_of(data: Any) -> Sequence[Mapping[str, Any]] | None:
    """Return the records of rows in memory; None for anything else.

    Rows in memory are a list of mappings, a data frame, or a data set that yields
    mappings, such as those of `datasets`. Classes that a data set has as numbers with
    names are read by name.
    """
    if isinstance(data, list | tuple):
        return data if data and isinstance(data[0], Mapping) else None
    if isinstance(data, DataFrame):
        names = [str(name) for name in data.columns]
        rows = zip(*(data[name] for name in data.columns), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]
    is_set = isinstance(data, Iterable) and isinstance(data, Sized)
    if not is_set or isinstance(data, str | bytes | Mapping):
        return None
    classes = {}
    for name, feature in (getattr(data, "features", None) or {}).items():
        inner = getattr(feature, "feature", feature)  # of a list what its items are
        if names := getattr(inner, "names", None):
            classes[name] = names
    records = list(data)
    if not all(isinstance(record, Mapping) for record in records):
        return None
    return [name_classes(record, classes) for record in records]


def name_classes(
    record: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> Mapping[str, Any]:
    """Return a record with the names of its classes for their numbers, by column.

    A number without a name, as the -1 of `datasets` for no class, is None.
    """
    named = {
        column: _name_class(get_value(record, column), names[column])
        for column in names
    }
    return {**record, **named}


def _name_class(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_name_class(item, names) for item in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None


def records_in_memory(path: str | Path) -> Sequence[Mapping[str, Any]]:
    """Return the rows in memory of a name. Raises InputError if they are gone."""
    if not isinstance(path, Records):
        raise InputError(
            f"{path}: were rows in memory, which are not saved with a run; give them "
            "again, or a file"
        )
    return path.records
