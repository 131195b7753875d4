"""Data sections of generated pairs: dates, questions, sentences and letters."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from string import ascii_lowercase
from typing import Literal

from regard.data.generated import bitext, questions
from regard.data.generated.dates import Forms, make_writer
from regard.data.generated.synthetic import Synthetic, disjoint_sets
from regard.data.pairs import Pair
from regard.data.splits import Splits
from regard.errors import InputError

Order = Literal["copy", "reverse"]


@dataclass(frozen=True, kw_only=True)
class SyntheticPairs(Synthetic):
    """Generated pairs for training, validation and test, without a common source."""

    @abstractmethod
    def maker(self) -> Callable[[int, Random], Pair]:
        """Return what makes a pair of a set, 0 to 2."""

    def load(self) -> Splits[Pair]:
        """Generate all three sets. Raises InputError for too few different pairs."""
        sets = disjoint_sets(self.sizes, self.seed, self.maker(), self.kind)
        parts = []
        for name, pairs in zip(("train", "valid", "test"), sets, strict=True):
            places = (
                f"{self.kind} {name} {number}" for number in range(1, len(pairs) + 1)
            )
            parts.append(
                [
                    replace(pair, place=f"{place} {pair.place}".rstrip())
                    for place, pair in zip(places, pairs, strict=True)
                ]
            )
        return Splits(*parts)


@dataclass(frozen=True, kw_only=True)
class Dates(SyntheticPairs):
    """Generated dates, free form to ISO.

    Pairs whose text has two readings are in the group "ambiguous".
    """

    kind: Literal["dates"] = "dates"
    valid: int = 1_000
    test: int = 2_000
    forms: Forms = "unambiguous"

    # A tenth of the days cannot give more texts without a long search.
    most_held_out = 100_000

    def maker(self) -> Callable[[int, Random], Pair]:
        """Return what makes a pair. Raises InputError for all forms without Babel."""
        return make_writer(self.forms, self.seed)


@dataclass(frozen=True, kw_only=True)
class Questions(SyntheticPairs):
    """Generated questions about a context of `facts` facts.

    The links of a pair are between the requested words of the answer and their places in
    the context.
    """

    kind: Literal["questions"] = "questions"
    facts: int = 4

    def maker(self) -> Callable[[int, Random], Pair]:
        """Return what makes a pair. Raises InputError for a wrong number of facts."""
        most = len(questions.SUBJECTS)
        if not 1 <= self.facts <= most:
            raise InputError(f"questions: facts is {self.facts}; expected 1 to {most}")
        return lambda part, random: questions.make(self.facts, random)


@dataclass(frozen=True, kw_only=True)
class Bitext(SyntheticPairs):
    """Generated English sentences of one to `clauses` clauses with aligned French."""

    kind: Literal["bitext"] = "bitext"
    clauses: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.clauses <= 10:
            raise InputError(f"bitext: clauses is {self.clauses}; expected 1 to 10")

    def maker(self) -> Callable[[int, Random], Pair]:
        """Return what makes a pair."""
        return lambda part, random: bitext.make(random.randint(1, self.clauses), random)


@dataclass(frozen=True, kw_only=True)
class Letters(SyntheticPairs):
    """Generated rows of `least` to `most` letters to copy or reverse, aligned."""

    kind: Literal["letters"] = "letters"
    order: Order = "reverse"
    least: int = 5
    most: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.least <= self.most <= 1000:
            raise InputError(
                f"letters: least is {self.least} and most {self.most}; expected 1 <= "
                "least <= most <= 1000"
            )

    def maker(self) -> Callable[[int, Random], Pair]:
        """Return what makes a pair."""
        lengths = self.least, self.most
        return lambda part, random: make(random.randint(*lengths), self.order, random)


def make(length: int, order: Order, random: Random) -> Pair:
    """Generate a row of letters with its copy, or reversed, and their alignment."""
    letters = random.choices(ascii_lowercase, k=length)
    indices = range(length) if order == "copy" else range(length - 1, -1, -1)
    target = " ".join(letters[index] for index in indices)
    links = frozenset((source, number) for number, source in enumerate(indices))
    return Pair(" ".join(letters), target, "", links=links)
