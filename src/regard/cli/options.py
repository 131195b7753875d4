"""The arguments that several commands share."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from regard.errors import InputError
from regard.tasks.options import Options, PredictOptions, list_options

if TYPE_CHECKING:
    from regard.data.rows import MissingColumns

Int8 = Annotated[bool, Parameter(name="--int8")]
Piped = Annotated[bool, Parameter(name="-")]


def parse_maps(hint: Any, tokens: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of maps, each A or A:B.

    Raises:
        ValueError: A text has another form.
    """
    numbers: list[int] = []
    for token in tokens:
        match = re.fullmatch(r"([0-9]+)(?::([0-9]+))?", token.value)
        if match is None:
            raise ValueError(f"{token.value}: expected a number from 0, or A:B")
        first = int(match[1])
        maps = range(first, int(match[2] or first + 1))
        if not maps:
            raise ValueError(f"{token.value}: there are the maps A to B-1 in A:B")
        numbers += maps
    return tuple(numbers)


Maps = Annotated[
    tuple[int, ...] | None,
    Parameter(
        name="--map",
        converter=parse_maps,
        help="Only these maps, layer x heads + head, from 0. Default: all.",
    ),
]


def check_source(texts: Sequence[str], piped: bool) -> None:
    """Raise InputError for texts from both arguments and standard input."""
    if texts and piped:
        raise InputError(
            "texts and - are both given; choose one, or put a text that is - after --"
        )


def advise_columns(error: "MissingColumns", keys: Iterable[str]) -> None:
    """Add the option that names columns to the error of a table that lacks some."""
    names = ",".join(map(str.upper, keys))
    error.advice = f"name yours with --columns {names}"


def build_flags(
    kind: type[Options], title: str, order: int, names: Collection[str] = ()
) -> Any:
    """Build a dataclass with options of a verb as flags, with their help.

    Args:
        kind: The options.
        title: The heading of the flags in `--help`.
        order: The place of the heading.
        names: The options; by default all.
    """
    hints, entries = get_type_hints(kind), []
    for name, option in list_options(kind).items():
        if names and name not in names:
            continue
        hint: Any = hints[name]
        if get_origin(hint) is Sequence:
            hint = tuple[*get_args(hint), ...]
        flag = f"--{option.flag}" if option.flag else None
        hint = Annotated[hint, Parameter(name=flag, help=option.help)]
        if name == "maps":
            hint = Maps
        entries.append((name, hint, field(default=getattr(kind, name))))
    flags = make_dataclass(f"{kind.__name__}Flags", entries, frozen=True)
    flags.__module__ = __name__  # cyclopts takes those of `types` for simple values
    return Parameter(name="*", group=Group(title, sort_key=order))(flags)


SEARCH = {item.name for item in fields(PredictOptions)}
SEARCH -= {"prefix", "attention", "tokens"}
if TYPE_CHECKING:
    SearchFlags = PredictFlags = PredictOptions
else:
    TITLE = "Search and sampling"
    SearchFlags = build_flags(PredictOptions, TITLE, 2, {*SEARCH, "tokens"})
    PredictFlags = build_flags(
        PredictOptions, TITLE, 2, {*SEARCH, "prefix", "attention"}
    )


def read_predict_options(flags: Any) -> PredictOptions:
    """Return the options of flags of search and sampling.

    Raises:
        InputError: Options do not go together.
    """
    options = PredictOptions(**vars(flags))
    options.check()
    if options.beam is not None and options.n_best > options.beam:
        raise InputError(
            f"--n-best is {options.n_best}; expected at most --beam {options.beam}"
        )
    return options


@Parameter(name="*")
@dataclass(frozen=True)
class LoadFlags:
    """How the weights of a run are loaded.

    Attributes:
        allow_missing: Initialize parameters that the weights lack.
        int8: Multiply in 8-bit integers, on a CPU by CTranslate2: faster, for nearly
            the same texts.
    """

    allow_missing: bool = False
    int8: Int8 = False


@Parameter(name="*", group=Group("Files, in parts", sort_key=3))
@dataclass(frozen=True)
class BatchFlags:
    """The flags of a command that reads files and writes a folder.

    Attributes:
        input: Files of texts, one a line, or rows (.jsonl, .json, .csv, .tsv,
            .parquet); folders, patterns, URLs.
        output: Folder for the parts and their manifest.
        columns: Columns of a table, names or numbers from 1. Default: those of the
            run's data.
        skip_bad: Leave out bad rows, count them.
        part_rows: Rows of a part; a killed process loses at most one part.
        on: Compute in this process, and in others with the same command; or on a Ray
            cluster.
    """

    input: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    output: Path | None = None
    columns: str | None = None
    skip_bad: bool = False
    part_rows: Annotated[int, Parameter(validator=Number(gte=1))] = 8192
    on: Literal["here", "ray"] = "here"

    def is_used(self, texts: Sequence[str], piped: bool) -> bool:
        """Check whether files are read.

        Raises:
            InputError: There are several sources, or flags do not go together.
        """
        check_source(texts, piped)
        if self == BatchFlags():
            return False
        if not self.input or self.output is None:
            raise InputError(
                "--input and --output go together: files are read from --input, and "
                "their parts are written to --output"
            )
        if texts or piped:
            raise InputError("texts and --input are both given; choose one")
        return True
