"""Generated sentences about people, places and organisations, with the spans of their names.

Names are built of syllables, and one name may be a person's in one sentence and a place's in another, so that the
context has to decide. Words with capitals at the start of a sentence, and months, are no names."""

from dataclasses import dataclass
from random import Random

from regard.data.generated.synthetic import disjoint_sets
from regard.data.generated.topics import filled

BEGINNINGS = "al|an|bar|bel|cor|dan|el|fal|gar|hal|iv|jor|kel|lan|mar|nor|ol|par|ros|sal|tor|ur|val|wen|yor|zan"
MIDDLES = "a|e|i|o|ba|da|la|li|mi|na|ra|ri|ro|ta|va"
ENDINGS = "berg|den|don|field|ford|ham|holm|low|mont|ner|ra|son|stad|ston|ton|ville|vik|well|wick|worth"
FIRST = "Ada|Ben|Cleo|Dan|Eva|Finn|Gia|Hugo|Ines|Jan|Kim|Leo|Mia|Noah|Olga|Paul|Rosa|Sam|Tess|Zoe"
KINDS = ("Bank", "Motors", "Press", "Steel", "Airlines", "University", "Museum", "Labs")
PERSON, PLACE, ORGANISATION = "PER", "LOC", "ORG"
TEMPLATES = (
    "<PER> {moved|travelled|drove|returned} to <LOC> in {May|June|March} .",
    "The mayor of <LOC> {met|praised|thanked} <PER> {yesterday|again|in public} .",
    "<PER> {works|worked} for <ORG> in <LOC> .",
    "<ORG> will {open|close|sell} its {office|shop|plant} in <LOC> .",
    "{Shares|Profits|Sales} of <ORG> {rose|fell} {sharply|a little} , said <PER> .",
    "The river flows from <LOC> to <LOC> .",
    '" We are {glad|sorry|tired} , " said <PER> of <ORG> .',
    "<PER> and <PER> {won|lost} {the match|two games} in <LOC> .",
    "{Heavy|Light} rain fell {near|north of|in} <LOC> {on Monday|in April} .",
    "Nobody {answered|was late|paid for it} .",
    "{Shares|Trains|Prices} {rose|were late} {on Friday|in August} .",
    "Dr <PER> {teaches|studied} at <ORG> .",
    "<ORG> {bought|sued|supplies} <ORG> , a {firm|company} from <LOC> .",
    "A {road|bridge|line} between <LOC> and <LOC> was {closed|opened} by <PER> .",
)
"""A name of a kind in angle brackets, and of the words between braces one."""


@dataclass(frozen=True)
class Sentence:
    """A text and its names: characters `start` to `end`, half-open, and the label."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


def generate(sizes: tuple[int, int, int], seed: int) -> tuple[list[Sentence], ...]:
    """Training, validation and test sentences without a common text."""
    return disjoint_sets(sizes, seed, lambda part, random: make(random), "names")


def make(random: Random) -> Sentence:
    """Generate one sentence."""
    text, *parts = filled(random.choice(TEMPLATES), random).split("<")
    spans = []
    for part in parts:
        label, _, after = part.partition(">")
        name = NAMES[label](random)
        spans.append((len(text), len(text) + len(name), label))
        text += name + after
    return Sentence(text, tuple(spans))


def stem(random: Random) -> str:
    """A name that a person or a place may have."""
    middle = f"{{{MIDDLES}}}" if random.random() < 0.5 else ""
    return filled(f"{{{BEGINNINGS}}}{middle}{{{ENDINGS}}}", random).capitalize()


def person(random: Random) -> str:
    """A first name and a last name, or the last name alone."""
    return (
        filled(f"{{{FIRST}}} ", random) + stem(random)
        if random.random() < 0.6
        else stem(random)
    )


def place(random: Random) -> str:
    """A place, which may be new, upper or lower."""
    return (
        f"{random.choice(('New', 'Upper', 'Lower'))} {stem(random)}"
        if random.random() < 0.2
        else stem(random)
    )


def organisation(random: Random) -> str:
    """A firm that is named after a person or a place."""
    return f"{stem(random)} {random.choice(KINDS)}"


NAMES = {PERSON: person, PLACE: place, ORGANISATION: organisation}
"""What makes a name of each kind."""
