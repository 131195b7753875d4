"""The arguments that several commands share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from regard.errors import InputError
from regard.tasks.options import PredictOptions

RunFolder = Annotated[Path, Parameter(name="RUN", help="Folder of a trained run.")]
AnyFolder = Annotated[
    Path,
    Parameter(
        name="RUN",
        help="Folder of a trained run or of a transformers model, or its name on the hub, OWNER/NAME.",
    ),
]
Beam = Annotated[
    int | None,
    Parameter(
        name="--beam", help="Width of the search; 1 is greedy. Default: the run's own."
    ),
]
Maps = Annotated[
    list[str] | None,
    Parameter(
        name="--map",
        negative="",
        help="Only this map: layer x heads + head, from 0; or the maps A to B-1, as A:B. Repeatable. Default: all.",
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
        help="Of a Transformer or GPT-2, on a CPU: weights as bytes, for nearly the same predictions faster.",
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


@Parameter(name="*", group=Group("Search and sampling", sort_key=2))
@dataclass(frozen=True)
class SearchFlags:
    """The flags of search and sampling; without a flag the run's own setting applies."""

    beam: Beam = None
    n_best: Annotated[
        int,
        Parameter(
            help="Different predictions for each text, best first, a line each: the number of the text, from 1, the "
            "score and the prediction, with tabs between. When sampling, the one sampled first stays first."
        ),
    ] = 1
    temperature: Annotated[
        float | None,
        Parameter(
            help="Sample: 1 from the model's distribution, below 1 likely tokens more often."
        ),
    ] = None
    top_k: Annotated[
        int | None,
        Parameter(help="When sampling: from the k best tokens only; 0 is all."),
    ] = None
    top_p: Annotated[
        float | None,
        Parameter(
            help="When sampling: from the best tokens that together have this probability."
        ),
    ] = None
    seed: Annotated[
        int | None, Parameter(help="When sampling: the seed of the random numbers.")
    ] = None
    phrases: Annotated[
        tuple[str, ...],
        Parameter(
            name="--phrase",
            negative="",
            show_default=False,
            help="A text that every prediction contains. Repeatable.",
        ),
    ] = ()
    banned: Annotated[
        tuple[str, ...],
        Parameter(
            name="--ban",
            negative="",
            show_default=False,
            help="A text that no prediction contains. Repeatable.",
        ),
    ] = ()
    min_length: Annotated[
        int | None,
        Parameter(help="The least tokens of a prediction, its end included."),
    ] = None
    end_at_limit: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="End a prediction at its longest, even within a sentence.",
        ),
    ] = False
    repetition_penalty: Annotated[
        float | None,
        Parameter(
            help="Above 1: tokens that the prediction or its prompt contains become less likely."
        ),
    ] = None
    no_repeat: Annotated[
        int | None,
        Parameter(
            help="No sequence of this many tokens comes twice in a prediction; 0 allows all."
        ),
    ] = None
    length_penalty: Annotated[
        float | None,
        Parameter(
            help="Of a beam: above 0 favours longer predictions, the more the greater it is."
        ),
    ] = None

    def check(self) -> None:
        """Raises InputError for options that no model supports, before one is loaded."""
        check_search(self.beam, self.n_best)
        self.options().check()

    def options(self) -> PredictOptions:
        """The options of the library."""
        return PredictOptions(**vars(self))


@Parameter(name="*", group=Group("Search and sampling", sort_key=2))
@dataclass(frozen=True)
class PredictFlags(SearchFlags):
    """The flags of predictions."""

    prefix: Annotated[
        str, Parameter(show_default=False, help="The beginning of every prediction.")
    ] = ""
    mbr: Annotated[
        bool,
        Parameter(
            name="--least-risk",
            negative="",
            show_default=False,
            help="Of the --n-best sampled, the one most like the others.",
        ),
    ] = False
    attention: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="With --json: add the attention of each step.",
        ),
    ] = False

    def check(self) -> None:
        """Raises InputError for options that no model supports, before one is loaded."""
        super().check()
        if self.mbr and self.n_best < 2:
            raise InputError(
                "--least-risk chooses among predictions; give --n-best, and --temperature to sample them"
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
        """Raises InputError for flags that do not go together."""
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


def map_numbers(maps: Sequence[str] | None) -> tuple[int, ...] | None:
    """The numbers of maps, each A or A:B. Raises InputError for another form, and for a range without a map."""
    if maps is None:
        return None
    numbers: list[int] = []
    for each in maps:
        first, colon, last = each.partition(":")
        if not first.isdecimal() or (
            colon and not (last.isdecimal() and int(first) < int(last))
        ):
            raise InputError(
                f"--map is {each}; expected a number from 0, or A:B for the maps A to B-1"
            )
        numbers += range(int(first), int(last) if colon else int(first) + 1)
    return tuple(numbers)


def check_source(texts: Sequence[str], piped: bool) -> None:
    """Raises InputError for texts from both arguments and standard input."""
    if texts and piped:
        raise InputError(
            "texts and - are both given; choose one, or put a text that is - after --"
        )


def check_search(beam: int | None, n_best: int = 1) -> None:
    """Raises InputError for options that no model supports, before one is loaded."""
    if beam is not None and beam < 1:
        raise InputError(f"--beam is {beam}; expected at least 1")
    if not 1 <= n_best <= (math.inf if beam is None else beam):
        most = "" if beam is None else f", at most --beam {beam}"
        raise InputError(f"--n-best is {n_best}; expected at least 1{most}")
