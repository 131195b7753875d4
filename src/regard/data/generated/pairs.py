"""The `data:` sections of run files that generate pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from regard.data.generated import bitext, letters, questions
from regard.data.generated.dates import DateExample, Forms, generate
from regard.data.generated.synthetic import Example, Synthetic
from regard.data.pair import Pair
from regard.data.splits import Splits
from regard.errors import InputError
from regard.maps.links import Links

_MOST_CLAUSES, _MOST_LETTERS = 10, 1_000
E = TypeVar("E", bound=Example)


@dataclass(frozen=True, kw_only=True)
class Dates(Synthetic):
    """Generated dates, free form to ISO. Pairs whose text has two readings are in the group "ambiguous"."""

    kind: Literal["dates"] = "dates"
    valid: int = 1_000
    test: int = 2_000
    forms: Forms = "unambiguous"

    most_held_out = (
        100_000  # a tenth of the days cannot give more texts without a long search
    )

    def load(self) -> Splits[Pair]:
        """Generate all three sets. Raises InputError when `forms` is "all" and Babel is not installed."""
        train, valid, test = generate(self.sizes, self.forms, self.seed)
        return Splits(
            _pairs("train", train), _pairs("valid", valid), _pairs("test", test)
        )


@dataclass(frozen=True, kw_only=True)
class Questions(Synthetic):
    """Generated questions about a context of `facts` facts. The links of a pair are between the requested words of the
    answer and their places in the context."""

    kind: Literal["questions"] = "questions"
    facts: int = 4

    def load(self) -> Splits[Pair]:
        """Generate all three sets. Raises InputError for an invalid number of facts."""
        found = questions.generate(self.sizes, self.facts, self.seed)
        return _splits("questions", found, lambda each: (each.answer, each.links))


@dataclass(frozen=True, kw_only=True)
class Bitext(Synthetic):
    """Generated English sentences of one to `clauses` clauses with their French and its word alignment."""

    kind: Literal["bitext"] = "bitext"
    clauses: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.clauses <= _MOST_CLAUSES:
            raise InputError(
                f"bitext: clauses is {self.clauses}; expected 1 to {_MOST_CLAUSES}"
            )

    def load(self) -> Splits[Pair]:
        """Generate all three sets."""
        return _splits(
            "bitext",
            bitext.generate(self.sizes, self.clauses, self.seed),
            lambda each: (each.translation, each.links),
        )


@dataclass(frozen=True, kw_only=True)
class Letters(Synthetic):
    """Generated rows of `least` to `most` letters to copy or reverse, with their alignment."""

    kind: Literal["letters"] = "letters"
    order: letters.Order = "reverse"
    least: int = 5
    most: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.least <= self.most <= _MOST_LETTERS:
            raise InputError(
                f"letters: least is {self.least} and most {self.most}; expected 1 <= least <= most <= {_MOST_LETTERS}"
            )

    def load(self) -> Splits[Pair]:
        """Generate all three sets. Raises InputError if there are too few rows of these lengths."""
        found = letters.generate(
            self.sizes, self.order, (self.least, self.most), self.seed
        )
        return _splits("letters", found, lambda each: (each.answer, each.links))


def _pairs(name: str, examples: list[DateExample]) -> list[Pair]:
    return [
        Pair(
            each.text,
            each.iso,
            f"dates {name} {number} ({each.pattern})",
            "ambiguous" if each.ambiguous else "",
        )
        for number, each in enumerate(examples, 1)
    ]


def _splits(
    kind: str, sets: Sequence[Sequence[E]], target: Callable[[E], tuple[str, Links]]
) -> Splits[Pair]:
    """Generated examples as pairs, with their places and links."""
    named = zip(("train", "valid", "test"), sets, strict=True)
    train, valid, test = (
        [
            Pair(each.text, text, f"{kind} {name} {number}", links=links)
            for number, (each, (text, links)) in enumerate(
                ((each, target(each)) for each in found), 1
            )
        ]
        for name, found in named
    )
    return Splits(train, valid, test)
