"""The arguments that several commands share."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
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
from regard.tasks.options import Option, Options, PredictOptions, list_options

Int8 = Annotated[bool, Parameter(name="--int8")]
Piped = Annotated[bool, Parameter(name="-")]


def build_flags(
    kind: type[Options],
    title: str,
    order: int,
    names: Collection[str] = (),
    converters: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Build a dataclass with options of a verb as flags, with their help and bounds.

    Args:
        kind: The options.
        title: The heading of the flags in `--help`.
        order: The place of the heading.
        names: The options; by default all.
        converters: By the name of an option what converts its texts.
    """
    hints, options = get_type_hints(kind), list_options(kind)
    entries: list[Any] = []
    for item in fields(kind):
        if names and item.name not in names:
            continue
        option, hint = options[item.name], hints[item.name]
        if item.name in converters:
            hint = tuple[int, ...] | None
        elif get_origin(hint) is Sequence:
            hint = tuple[*get_args(hint), ...]
        parameter = Parameter(
            name=f"--{option.flag}" if option.flag else None,
            help=option.help,
            validator=partial(check_bounds, option),
            converter=converters.get(item.name),
        )
        note: Any = Annotated
        entries.append((item.name, note[hint, parameter], field(default=item.default)))
    flags = make_dataclass(f"{kind.__name__}Flags", entries, frozen=True)
    flags.__module__ = __name__  # cyclopts takes those of `types` for simple values
    return Parameter(name="*", group=Group(title, sort_key=order))(flags)


def check_bounds(option: Option, hint: Any, value: Any) -> None:
    """Raise ValueError for a number out of an option's bounds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = Number(gte=option.least, gt=option.above, lte=option.most)
        number(hint, value if math.isfinite(value) else -math.inf)


SEARCH = {item.name for item in fields(PredictOptions)}
SEARCH -= {"prefix", "attention", "tokens"}
SEARCH_TITLE = "Search and sampling"
if TYPE_CHECKING:
    SearchFlags = PredictOptions
    PredictFlags = PredictOptions
else:
    SearchFlags = build_flags(PredictOptions, SEARCH_TITLE, 2, {*SEARCH, "tokens"})
    PredictFlags = build_flags(
        PredictOptions, SEARCH_TITLE, 2, {*SEARCH, "prefix", "attention"}
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
            f"--n-best is {options.n_best}; expected at least 1, at most --beam "
            f"{options.beam}"
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

    @property
    def used(self) -> bool:
        """Whether files are read."""
        return self != BatchFlags()

    def check(self, texts: Sequence[str], piped: bool) -> None:
        """Raise InputError for flags that do not go together."""
        if not self.used:
            return
        if not self.input or self.output is None:
            option = "--output" if self.input else "--input"
            raise InputError(
                f"{option} is not given; files are read from --input and their parts go to --output"
            )
        if texts or piped:
            raise InputError("texts and --input are both given; choose one")


def parse_maps(hint: Any, tokens: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the numbers of maps, each A or A:B.

    Raises:
        ValueError: A text has another form.
    """
    numbers: list[int] = []
    for token in tokens:
        first, colon, last = token.value.partition(":")
        stop = last if colon else first
        if not (first.isdecimal() and stop.isdecimal()):
            raise ValueError(f"{token.value}: expected a number from 0, or A:B")
        end = int(stop) + (not colon)
        if int(first) >= end:
            raise ValueError(f"{token.value}: there are the maps A to B-1 in A:B")
        numbers += range(int(first), end)
    return tuple(numbers) or None


def check_source(texts: Sequence[str], piped: bool) -> None:
    """Raise InputError for texts from both arguments and standard input."""
    if texts and piped:
        raise InputError(
            "texts and - are both given; choose one, or put a text that is - after --"
        )
