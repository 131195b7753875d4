"""Which of the pictures of what heads read the user wants, and of how much of the text. Imports nothing heavy."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.errors import InputError

View = Literal["matrix", "lines", "heads", "reading", "rollout", "entropy"]
TEXT = frozenset({"words", "source", "target", "page"})
USES: dict[View, frozenset[str]] = {
    "matrix": TEXT | {"scale", "width"},
    "lines": TEXT | {"threshold", "width"},
    "heads": TEXT | {"scale", "width"},
    "reading": TEXT | {"scale", "width"},
    "rollout": TEXT | {"scale", "width"},
    "entropy": frozenset({"width"}),
}
"""The options that each view knows."""


@Parameter(name="*")
@dataclass(frozen=True)
class Viewing:
    """What is given about the picture; without any of it a run draws its own."""

    view: Annotated[
        View | None,
        Parameter(
            help="matrix; lines between two copies of the text, a colour a head; heads, all of all layers side by "
            "side; reading, the text shaded by what each token reads; rollout, all layers together beside the last; "
            "entropy of every head. Default: matrix; of images and documents the run's own picture."
        ),
    ] = None
    words: Annotated[
        bool, Parameter(negative="", show_default=False, help="Between words that blanks separate, not pieces.")
    ] = False
    source: Annotated[str | None, Parameter(help="Of what is read these places alone: A:B, from 0, without B.")] = None
    target: Annotated[str | None, Parameter(help="Of what reads these places alone.")] = None
    page: Annotated[int | None, Parameter(help="So many places a picture; several are written, NAME-1 and so on.")] = (
        None
    )
    threshold: Annotated[float | None, Parameter(help="Of lines: the least weight that has one. Default: 0.15.")] = None
    scale: Annotated[float | None, Parameter(help="The weight that is darkest. Default: 1; of heads the greatest.")] = (
        None
    )
    width: Annotated[float | None, Parameter(help="Of the picture on paper, in centimetres.")] = None

    @property
    def given(self) -> set[str]:
        """The options that are, but for the view itself."""
        return {
            each.name for each in fields(self) if each.name != "view" and getattr(self, each.name) not in (None, False)
        }

    @property
    def asked(self) -> bool:
        """Whether anything is."""
        return self.view is not None or bool(self.given)

    def check(self) -> None:
        """Refuses what no picture can be, before a model is loaded. Raises InputError."""
        limits = {"page": (1, "at least 1"), "scale": (0, "more than 0"), "width": (0, "more than 0")}
        for name, (least, expected) in limits.items():
            value = getattr(self, name)
            if value is not None and not (value >= least if name == "page" else least < value < float("inf")):
                raise InputError(f"--{name} is {value}; expected {expected}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InputError(f"--threshold is {self.threshold}; expected 0 to 1")
        view = self.view or "matrix"
        for name in sorted(self.given - USES[view]):
            takers = ", ".join(each for each, uses in USES.items() if name in uses)
            raise InputError(f"--{name} is given; --view {view} takes none, but {takers}")

    def part(self, name: Literal["source", "target"], count: int) -> slice:
        """The places of one side that are asked for, of so many. Raises InputError for none."""
        asked = getattr(self, name)
        if asked is None:
            return slice(0, count)
        first, colon, last = asked.partition(":")
        if not all(not part or part.isdecimal() for part in (first, last)) or not (first or colon):
            raise InputError(f"--{name} is {asked!r}; expected A:B, A:, :B or A, numbers from 0")
        begin = int(first or 0)
        end = min(int(last), count) if last else count if colon else begin + 1
        if not begin < end <= count:
            raise InputError(f"--{name} is {asked!r}; the {name} has {count} places, from 0: give some of them")
        return slice(begin, end)
