"""Generated rows of letters to copy or reverse: a task with a known alignment at any length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Literal, TypeVar

from regard.data.generated import bitext, questions
from regard.data.generated.dates import DateExample, Forms, generate
from regard.data.generated.synthetic import Example, Synthetic, disjoint_sets
from regard.data.pairs import Pair
from regard.data.splits import Splits
from regard.errors import InputError
from regard.maps.links import Links

Order = Literal["copy", "reverse"]


@dataclass(frozen=True)
class LetterExample:
    """Letters separated by blanks, the output, and their alignment."""

    text: str
    answer: str
    links: Links


def generate_letters(
    sizes: tuple[int, int, int], order: Order, lengths: tuple[int, int], seed: int
) -> tuple[list[LetterExample], ...]:
    """Training, validation and test rows without duplicates. `sizes` are the sizes of the three sets; lengths are
    uniform between the two `lengths`.

    Raises:
        InputError: there are too few different rows.
    """
    return disjoint_sets(
        sizes,
        seed,
        lambda part, random: make(random.randint(*lengths), order, random),
        "letters",
    )


def make(length: int, order: Order, random: Random) -> LetterExample:
    """Generate one row."""
    row = random.choices(ascii_lowercase, k=length)
    places = range(length) if order == "copy" else range(length - 1, -1, -1)
    answer = " ".join(row[place] for place in places)
    return LetterExample(
        " ".join(row),
        answer,
        frozenset((source, target) for target, source in enumerate(places)),
    )


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
        return _splits("questions", found, lambda item: (item.answer, item.links))


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
            lambda item: (item.translation, item.links),
        )


@dataclass(frozen=True, kw_only=True)
class Letters(Synthetic):
    """Generated rows of `least` to `most` letters to copy or reverse, with their alignment."""

    kind: Literal["letters"] = "letters"
    order: Order = "reverse"
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
        found = generate_letters(
            self.sizes, self.order, (self.least, self.most), self.seed
        )
        return _splits("letters", found, lambda item: (item.answer, item.links))


def _pairs(name: str, examples: list[DateExample]) -> list[Pair]:
    return [
        Pair(
            item.text,
            item.iso,
            f"dates {name} {number} ({item.pattern})",
            "ambiguous" if item.ambiguous else "",
        )
        for number, item in enumerate(examples, 1)
    ]


def _splits(
    kind: str, sets: Sequence[Sequence[E]], target: Callable[[E], tuple[str, Links]]
) -> Splits[Pair]:
    """Generated examples as pairs, with their places and links."""
    named = zip(("train", "valid", "test"), sets, strict=True)
    train, valid, test = (
        [
            Pair(entry.text, text, f"{kind} {name} {number}", links=links)
            for number, (entry, (text, links)) in enumerate(
                ((item, target(item)) for item in found), 1
            )
        ]
        for name, found in named
    )
    return Splits(train, valid, test)
