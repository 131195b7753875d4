"""Generated messages about none, one or several topics, and their labels.

A message has a few clauses, each about one topic or about none. Some words belong to two topics, and the rest of their
clause decides which one is meant."""

from dataclasses import dataclass
from random import Random

from regard.data.generated.synthetic import disjoint_sets
from regard.errors import InputError

CLAUSES = {
    "food": (
        "the {soup|bread|cake|rice|salad|cheese} was {fresh|cold|too salty|served late}",
        "we {cooked|ordered|baked|ate} {soup|bread|cake|rice|pasta} at {home|noon|the inn}",
        "the {cook|waiter|baker} brought a hot dish",
        "the {soup|pasta} had a cold date in it",
    ),
    "money": (
        "the {bank|fund|insurer} raised its {fees|rates|prices}",
        "I {paid|owed|saved|lent} {forty|ninety|two hundred} coins at the bank",
        "the {bill|invoice|loan} is due on that date",
        "a {loan|share|pension} costs {more|less|nothing} now",
    ),
    "music": (
        "the {band|choir|singer|drummer} played a {slow|loud|new} {song|tune|piece}",
        "her {violin|piano|guitar|voice} was out of key",
        "they {sang|practised|recorded} the {song|tune|piece} {twice|at night|in the hall}",
        "the score had {five|nine} {lines|notes}",
    ),
    "sport": (
        "the {team|runner|goalkeeper} {won|lost|left} the {match|race|final}",
        "the score of the {match|final} was {two|five} to {one|nine}",
        "we {ran|swam|rowed|cycled} along the bank of the lake",
        "the {coach|captain|referee} stopped the {match|race}",
    ),
    "travel": (
        "the {train|ferry|bus|plane} left {late|on time|without us}",
        "our {hotel|room|cabin} had {no key|a view|two beds}",
        "we {missed|booked|changed} the {train|ferry|bus|plane} to the {coast|border|island}",
        "the {ticket|passport|visa} had the wrong date",
    ),
    "weather": (
        "{rain|snow|fog|hail} fell {all day|at dawn|on the hills}",
        "the {storm|wind|sun|frost} came {early|late} this {spring|autumn|winter}",
        "it was {cold|hot|windy|damp} and the {sky|air} was {grey|clear}",
        "the {forecast|thermometer} was wrong again",
    ),
}
"""The topics, each with its clauses; of the words between braces one is chosen."""
OTHERS = (
    "{anna|tom|my sister|the teacher} {wrote|called|wondered} {yesterday|again|why}",
    "nobody {answered|knew|minded}",
    "that is all for {today|now}",
    "{as you know|by the way|in short}",
)
"""Clauses about no topic."""


@dataclass(frozen=True)
class Message:
    """A text and its topics, in alphabetical order."""

    text: str
    topics: tuple[str, ...]


def generate(
    sizes: tuple[int, int, int], most: int, seed: int
) -> tuple[list[Message], ...]:
    """Training, validation and test messages without a common text, about at most `most` topics each. Raises InputError
    for a number of topics that there are not."""
    if not 1 <= most <= len(CLAUSES):
        raise InputError(f"topics: most is {most}; expected 1 to {len(CLAUSES)}")
    return disjoint_sets(sizes, seed, lambda part, random: make(most, random), "topics")


def make(most: int, random: Random) -> Message:
    """Generate one message: a clause for each topic, and one or two about none, in any order."""
    topics = random.sample(sorted(CLAUSES), random.randint(0, most))
    templates = [random.choice(CLAUSES[topic]) for topic in topics]
    templates += random.sample(OTHERS, random.randint(1, 2))
    random.shuffle(templates)
    return Message(
        " , ".join(filled(each, random) for each in templates), tuple(sorted(topics))
    )


def filled(template: str, random: Random) -> str:
    """A clause, with one of the words of each choice."""
    before, found, after = template.partition("{")
    if not found:
        return before
    choices, _, after = after.partition("}")
    return before + random.choice(choices.split("|")) + filled(after, random)
