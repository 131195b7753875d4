"""Data sections of generated pairs: dates, questions, sentences and letters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from random import Random
from string import ascii_lowercase
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    runtime_checkable,
)

from pydantic import Field

from regard.data.generated import bitext, conversations, questions
from regard.data.generated.dates import Forms, split_days, write_day
from regard.data.pairs import Pair
from regard.data.splits import Splits
from regard.errors import InputError

TRIES = 1_000


Size = Annotated[int, Field(ge=1, le=1_000_000)]
SizeOrNone = Annotated[int, Field(ge=0, le=1_000_000)]
SmallSize = Annotated[int, Field(ge=1, le=100_000)]
SmallSizeOrNone = Annotated[int, Field(ge=0, le=100_000)]


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Examples for training, validation and test, as a function of `seed`.

    Attributes:
        train: The number of training examples.
        valid: The number of validation examples.
        test: The number of test examples.
        seed: The seed of the examples.
    """

    kind: str
    train: Size = 20_000
    valid: Size = 500
    test: SizeOrNone = 1_000
    seed: int = 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes of the three sets."""
        return self.train, self.valid, self.test


@dataclass(frozen=True, kw_only=True)
class SyntheticOfLengths(Synthetic):
    """Examples of length `least` to `most`; `smallest` is the minimum of `least`."""

    least: int = 1
    most: int = 20

    smallest = 1

    def __post_init__(self) -> None:
        """Raise InputError for an empty range of lengths."""
        if not self.smallest <= self.least <= self.most:
            raise InputError(
                f"{self.kind}: least is {self.least} and most {self.most}; expected "
                f"{self.smallest} <= least <= most"
            )


class IndependentSets(ABC):
    """A `data:` section that generates each set with a generator of its own."""

    @abstractmethod
    def make(self, name: str) -> Sequence[Any]:
        """Generate `train`, `valid` or `test`."""

    def load(self) -> Splits[Any]:
        """Generate the three sets."""
        return Splits(*map(self.make, ("train", "valid", "test")))

    def tests(self) -> Sequence[Any]:
        """Generate the test set."""
        return self.make("test")


@runtime_checkable
class Example(Protocol):
    """An example that is identified by its text."""

    @property
    def text(self) -> str: ...


T = TypeVar("T", bound=Example)


def disjoint_sets(
    sizes: tuple[int, int, int], seed: int, make: Callable[[int, Random], T], kind: str
) -> tuple[list[T], list[T], list[T]]:
    """Generate training, validation and test examples without a common text.

    The test set comes first, so it depends on its size and the seed only.

    Args:
        sizes: The sizes of the three sets.
        make: Makes an example of a set, 0, 1 or 2.
        kind: What the examples are, for messages.

    Raises:
        InputError: `make` does not give enough different texts.
    """
    texts: set[str] = set()
    train, valid, test = sets = [], [], []
    for number in (2, 1, 0):
        random = Random(f"{seed}/{number}")
        tries = 0
        while len(sets[number]) < sizes[number]:
            example = make(number, random)
            if example.text not in texts:
                texts.add(example.text)
                sets[number].append(example)
                tries = 0
                continue
            tries += 1
            if tries == TRIES:
                raise InputError(
                    f"{kind}: {sum(sizes):,} different ones could not be found; ask for "
                    "fewer, or longer ones"
                )
    return train, valid, test


Order = Literal["copy", "reverse"]


@dataclass(frozen=True, kw_only=True)
class SyntheticPairs(Synthetic):
    """Generated pairs for training, validation and test, without a common source."""

    @abstractmethod
    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a pair of a set, 0 to 2."""

    def load(self) -> Splits[Pair]:
        """Generate all three sets. Raises InputError for too few different pairs."""
        sets = disjoint_sets(self.sizes, self.seed, self.make_pair, self.kind)
        parts = []
        for name, pairs in zip(("train", "valid", "test"), sets, strict=True):
            part = []
            for number, pair in enumerate(pairs, 1):
                place = f"{self.kind} {name} {number} {pair.place}".rstrip()
                part.append(replace(pair, place=place))
            parts.append(part)
        return Splits(*parts)

    def tests(self) -> Sequence[Pair]:
        """Generate the pairs of the test set."""
        return self.load().test


@dataclass(frozen=True, kw_only=True)
class Dates(SyntheticPairs):
    """Generated dates, free form to ISO.

    Pairs whose text has two readings are in the group "ambiguous".
    """

    kind: Literal["dates"] = "dates"
    # A tenth of the days cannot give more texts without a long search.
    valid: SmallSize = 1_000
    test: SmallSizeOrNone = 2_000
    forms: Forms = "unambiguous"

    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a date. Raises InputError for all forms without Babel."""
        day = date.fromordinal(random.choice(split_days(self.seed)[part]))
        return write_day(day, random, self.forms)


@dataclass(frozen=True, kw_only=True)
class GeneratedQuestions(SyntheticPairs):
    """Generated questions about a context of `facts` facts.

    The links of a pair are between the requested words of the answer and their places in
    the context.
    """

    kind: Literal["questions"] = "questions"
    facts: Annotated[int, Field(ge=1, le=len(questions.SUBJECTS))] = 4

    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a question."""
        return questions.make(self.facts, random)


@dataclass(frozen=True, kw_only=True)
class Templates(SyntheticPairs):
    """Generated questions about a teacher, answered as "She taught them Logic".

    The links of a pair are between the words of the answer and their places in the
    context, but for a pronoun that follows from the teacher's name.
    """

    kind: Literal["templates"] = "templates"
    train: Size = 40_000
    facts: Annotated[int, Field(ge=1, le=len(questions.SUBJECTS))] = 4
    pronoun: questions.PronounSource = "name"
    """What tells the pronoun: the teacher's name, or a sentence after each fact."""

    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a question."""
        return questions.make_template(self.facts, self.pronoun, random)


@dataclass(frozen=True, kw_only=True)
class Conversations(SyntheticPairs):
    """Generated conversations whose later turns ask for what earlier ones told.

    The links of a pair are between the word that is asked for and its place in the turn
    that told it.
    """

    kind: Literal["conversations"] = "conversations"
    turns: Annotated[int, Field(ge=0, le=5)] = 5
    """Number of turns before a reply that form its source."""

    longest: ClassVar[int] = conversations.LONGEST

    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a reply with the turns before it."""
        return conversations.make_reply(self.turns, random)


@dataclass(frozen=True, kw_only=True)
class Bitext(SyntheticPairs):
    """Generated English sentences of one to `clauses` clauses with aligned French."""

    kind: Literal["bitext"] = "bitext"
    clauses: Annotated[int, Field(ge=1, le=10)] = 2

    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a sentence and its translation."""
        return bitext.make(random.randint(1, self.clauses), random)


@dataclass(frozen=True, kw_only=True)
class Letters(SyntheticPairs, SyntheticOfLengths):
    """Generated rows of `least` to `most` letters to copy or reverse, aligned."""

    kind: Literal["letters"] = "letters"
    order: Order = "reverse"
    least: int = 5
    most: Annotated[int, Field(le=1000)] = 20

    def make_pair(self, part: int, random: Random) -> Pair:
        """Generate a row of letters."""
        return make(random.randint(self.least, self.most), self.order, random)


def make(length: int, order: Order, random: Random) -> Pair:
    """Generate a row of letters with its copy, or reversed, and their alignment."""
    letters = random.choices(ascii_lowercase, k=length)
    indices = range(length) if order == "copy" else range(length - 1, -1, -1)
    target = " ".join(letters[index] for index in indices)
    links = frozenset((source, number) for number, source in enumerate(indices))
    return Pair(" ".join(letters), target, "", links=links)
