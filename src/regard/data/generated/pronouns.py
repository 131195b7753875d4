"""Generated sentences with the pronoun "it" and two nouns that it may stand for.

What is said of "it" fits an animal or a place, and either may stand first. The pronoun's label is the right noun."""

from dataclasses import dataclass
from random import Random

from regard.data.generated.names import Sentence
from regard.data.generated.synthetic import disjoint_sets
from regard.data.generated.topics import filled

NOUNS = (
    "dog|cat|horse|rabbit|wolf|donkey|bear|fox|duck|hedgehog|cow|goat|mouse|hen|tortoise|frog|owl|ant|squirrel|otter",
    "bridge|path|garden|field|lake|market|tunnel|wood|park|port|street|road|square|hill|beach|meadow|river|forest|island",
)
"""Animals, and places."""
STATES = (
    "tired|hungry|ill|thirsty|afraid|lazy|lame|sleepy|old|shy",
    "wide|steep|narrow|muddy|crowded|icy|dark|loud|flooded|far away",
)
"""What is said of animals, and of places."""
TEMPLATES = (
    "The <animal> did not {cross|enter|reach} the <place> because it was {too|so|very} <state> .",
    "The <place> was {avoided|left|not reached} by the <animal> because it was {too|so|very} <state> .",
    "The <animal> {turned back|stopped} before the <place> , as it was {too|rather|very} <state> .",
    "At the <place> , the <animal> {waited|lay down|went no further} : it was {too|rather|so} <state> .",
    "Nobody saw the <animal> near the <place> {yesterday|today} , since it was {too|quite|so} <state> .",
    "Near the <place> lived {an old|a young|a wild} <animal> , but it was {too|quite|very} <state> .",
)
"""An animal, a place and what is said of one of them; of the words between braces one is chosen."""


@dataclass(frozen=True)
class PronounSentence(Sentence):
    """A sentence with the noun that "it" stands for, and the other noun."""

    referent: str
    other: str


def generate(
    sizes: tuple[int, int, int], seed: int
) -> tuple[list[PronounSentence], ...]:
    """Training, validation and test sentences without a common text."""
    return disjoint_sets(sizes, seed, lambda part, random: make(random), "pronouns")


def make(random: Random) -> PronounSentence:
    """Generate one sentence."""
    nouns = [random.choice(words.split("|")) for words in NOUNS]
    meant = random.randrange(2)
    text = filled(random.choice(TEMPLATES), random)
    for name, word in (
        ("animal", nouns[0]),
        ("place", nouns[1]),
        ("state", random.choice(STATES[meant].split("|"))),
    ):
        text = text.replace(f"<{name}>", word)
    start = text.index(" it ") + 1
    return PronounSentence(
        text, ((start, start + 2, nouns[meant]),), nouns[meant], nouns[1 - meant]
    )
