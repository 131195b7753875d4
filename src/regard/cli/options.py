"""The arguments that several commands share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.errors import InputError
from regard.tasks.options import SAMPLING, PredictOptions

RunFolder = Annotated[Path, Parameter(name="RUN", help="Folder of a trained run.")]
Beam = Annotated[int | None, Parameter(name="--beam", help="Width of the search; 1 is greedy. Default: the run's own.")]
Maps = Annotated[
    list[int] | None,
    Parameter(
        name="--map", negative="", help="Take this map alone: layer x heads + head, from 0. Repeatable. Default: all."
    ),
]
AllowMissing = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Leave parameters that the weights lack as they are initialised."),
]
Int8 = Annotated[
    bool,
    Parameter(
        name="--int8",
        negative="",
        show_default=False,
        help="Of a Transformer or GPT-2, on a CPU: weights as bytes, for nearly the same answers sooner.",
    ),
]
Piped = Annotated[bool, Parameter(name="-", negative="", show_default=False, help="The lines of standard input.")]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")]


@Parameter(name="*")
@dataclass(frozen=True)
class SearchFlags:
    """How outputs are searched or sampled; a flag that is left out is the run's own setting."""

    beam: Beam = None
    n_best: Annotated[
        int,
        Parameter(
            help="Predictions for each text, best first: number, score and text between tabs. When sampling, the one "
            "sampled first stays first."
        ),
    ] = 1
    temperature: Annotated[
        float | None, Parameter(help="Sample: 1 as the model has it, below 1 the likely more often.")
    ] = None
    top_k: Annotated[int | None, Parameter(help="When sampling: from the k best tokens only; 0 is all.")] = None
    top_p: Annotated[
        float | None, Parameter(help="When sampling: from the best tokens that together have this probability.")
    ] = None
    seed: Annotated[int | None, Parameter(help="When sampling: the same number samples the same.")] = None

    def check(self) -> None:
        """Refuse what no model can do, before one is loaded. Raises InputError."""
        check_search(self.beam, self.n_best)
        sampling = [name for name in SAMPLING if getattr(self, name) is not None]
        if self.beam is not None and sampling:
            first = "--" + sampling[0].replace("_", "-")
            raise InputError(f"--beam and {first} are both given; a beam searches, {first} is for sampling: choose one")

    def options(self) -> PredictOptions:
        """The options of the library."""
        return PredictOptions(**vars(self))


@Parameter(name="*")
@dataclass(frozen=True)
class PredictFlags(SearchFlags):
    """The predictions that the user requests."""

    prefix: Annotated[str, Parameter(show_default=False, help="What every prediction begins with.")] = ""
    phrases: Annotated[
        tuple[str, ...],
        Parameter(name="--phrase", negative="", show_default=False, help="What every prediction contains. Repeatable."),
    ] = ()
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
        bool, Parameter(negative="", show_default=False, help="With --json: add what each step read.")
    ] = False

    def check(self) -> None:
        """Refuse what no model can do, before one is loaded. Raises InputError."""
        super().check()
        if self.mbr and self.n_best < 2:
            raise InputError("--least-risk chooses among predictions; give --n-best, and --temperature to sample them")


@Parameter(name="*")
@dataclass(frozen=True)
class LoadFlags:
    """How the weights of a run are loaded."""

    allow_missing: AllowMissing = False
    int8: Int8 = False


def check_source(texts: Sequence[str], piped: bool) -> None:
    """Refuses two places that texts are to come from. Raises InputError."""
    if texts and piped:
        raise InputError("texts and - are both given; choose one, or put a text that is - after --")


def check_search(beam: int | None, n_best: int = 1) -> None:
    """Refuses what no model can do, before one is loaded. Raises InputError."""
    if beam is not None and beam < 1:
        raise InputError(f"--beam is {beam}; expected at least 1")
    if not 1 <= n_best <= (math.inf if beam is None else beam):
        most = "" if beam is None else f", at most --beam {beam}"
        raise InputError(f"--n-best is {n_best}; expected at least 1{most}")
