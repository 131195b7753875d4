"""The arguments that several commands share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

from regard.errors import InputError
from regard.tasks.options import Options, PredictOptions, list_options

RunFolder = Annotated[Path, Parameter(name="RUN", help="Folder of a trained run.")]
AnyFolder = Annotated[
    Path,
    Parameter(
        name="RUN",
        help="Folder of a trained run or of a transformers model, or its name on the hub, OWNER/NAME.",
    ),
]
AllowMissing = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Initialise parameters that the weights lack.",
    ),
]
Int8 = Annotated[
    bool,
    Parameter(
        name="--int8",
        negative="",
        show_default=False,
        help="Multiply in 8-bit integers, on a CPU by CTranslate2: faster, for nearly the same texts.",
    ),
]
Overwrite = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Replace what --out has, if regard wrote it; other files are kept.",
    ),
]
Piped = Annotated[
    bool,
    Parameter(
        name="-", negative="", show_default=False, help="The lines of standard input."
    ),
]
Json = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")
]


Flags = TypeVar("Flags")


def derive_flags(
    kind: type[Options], title: str, order: int
) -> Callable[[type[Flags]], type[Flags]]:
    """Give the fields of a dataclass the name and help of a verb's options.

    Args:
        kind: The options; fields that it does not have keep their annotation.
        title: The heading of the flags in `--help`.
        order: The place of the heading.
    """

    def derive(flags: type[Flags]) -> type[Flags]:
        annotated: Any = Annotated
        options = list_options(kind)
        for name, hint in flags.__annotations__.items():
            if name not in options:
                continue
            option = options[name]
            parameter = Parameter(
                name=f"--{option.flag}" if option.flag else None,
                negative="",
                show_default=False,
                help=option.help,
            )
            flags.__annotations__[name] = annotated[hint, parameter]
        return Parameter(name="*", group=Group(title, sort_key=order))(flags)

    return derive


def check_flags(kind: type[Options], values: Mapping[str, Any]) -> None:
    """Raise InputError for a number out of bounds, with the name of its flag."""
    for name, option in list_options(kind).items():
        value = values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            option.check(f"--{option.flag or name.replace('_', '-')}", value)


@derive_flags(PredictOptions, "Search and sampling", 2)
@dataclass(frozen=True)
class SearchFlags:
    """Flags of search and sampling; without a flag the run's own setting applies."""

    beam: int | None = None
    n_best: int = 1
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    phrases: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()
    min_length: int | None = None
    end_at_limit: bool = False
    repetition_penalty: float | None = None
    no_repeat: int | None = None
    length_penalty: float | None = None

    def check(self) -> None:
        """Raise InputError for options that no model supports."""
        check_flags(PredictOptions, vars(self))
        self.options().check()
        if self.beam is not None and self.n_best > self.beam:
            raise InputError(
                f"--n-best is {self.n_best}; expected at least 1, at most --beam "
                f"{self.beam}"
            )

    def options(self) -> PredictOptions:
        """Return the options of the library."""
        return PredictOptions(**vars(self))


@derive_flags(PredictOptions, "Search and sampling", 2)
@dataclass(frozen=True)
class PredictFlags(SearchFlags):
    """Flags of predictions."""

    prefix: str = ""
    mbr: bool = False
    attention: bool = False

    def check(self) -> None:
        """Raise InputError for options that no model supports."""
        super().check()
        if self.mbr and self.n_best < 2:
            raise InputError(
                "--least-risk chooses among predictions; give --n-best, and "
                "--temperature to sample them"
            )


@Parameter(name="*")
@dataclass(frozen=True)
class LoadFlags:
    """How the weights of a run are loaded."""

    allow_missing: AllowMissing = False
    int8: Int8 = False


@Parameter(name="*", group=Group("Files, in parts", sort_key=3))
@dataclass(frozen=True)
class BatchFlags:
    """The flags of a command that reads files and writes a folder."""

    input: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            show_default=False,
            help="Files of texts, one a line, or rows (.jsonl, .json, .csv, .tsv, .parquet); folders, patterns, URLs.",
        ),
    ] = ()
    output: Annotated[
        Path | None, Parameter(help="Folder for the parts and their manifest.")
    ] = None
    format: Annotated[
        Literal["jsonl", "parquet"], Parameter(help="Format of the parts.")
    ] = "jsonl"
    columns: Annotated[
        str | None,
        Parameter(
            help="Columns of a table, names or numbers from 1. Default: those of the run's data."
        ),
    ] = None
    skip_bad: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Leave out bad rows, count them."
        ),
    ] = False
    part_rows: Annotated[
        int, Parameter(help="Rows of a part; a killed process loses at most one part.")
    ] = 8192

    on: Annotated[
        Literal["here", "ray"],
        Parameter(
            help="Compute in this process, and in others with the same command; or on a Ray cluster."
        ),
    ] = "here"

    @property
    def used(self) -> bool:
        """Whether files are read."""
        return self != BatchFlags()

    def check(self, texts: Sequence[str], piped: bool) -> None:
        """Raise InputError for flags that do not go together."""
        if not self.used:
            return
        if not self.input or self.output is None:
            lacking = "--output" if self.input else "--input"
            raise InputError(
                f"{lacking} is not given; files are read from --input and their parts go to --output"
            )
        if texts or piped:
            raise InputError("texts and --input are both given; choose one")
        if self.part_rows < 1:
            raise InputError(f"--part-rows is {self.part_rows}; expected at least 1")


def parse_maps(maps: Sequence[str]) -> tuple[int, ...] | None:
    """Return the numbers of maps, each A or A:B; None without any.

    Raises:
        InputError: A text has another form, or is a range without a map.
    """
    if not maps:
        return None
    numbers: list[int] = []
    for text in maps:
        first, colon, last = text.partition(":")
        is_number = first.isdecimal() and not colon
        is_range = first.isdecimal() and last.isdecimal() and int(first) < int(last)
        if not is_number and not is_range:
            raise InputError(
                f"--map is {text}; expected a number from 0, or A:B for the maps A to B-1"
            )
        numbers += range(int(first), int(last) if colon else int(first) + 1)
    return tuple(numbers)


def check_source(texts: Sequence[str], piped: bool) -> None:
    """Raise InputError for texts from both arguments and standard input."""
    if texts and piped:
        raise InputError(
            "texts and - are both given; choose one, or put a text that is - after --"
        )
