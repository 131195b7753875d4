"""Generated sentences about topics, names and pronouns, with their labels."""

from dataclasses import dataclass
from random import Random

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


def make_message(topics: int, random: Random) -> Message:
    """Generate a message: a clause for each topic, and one or two about none."""
    chosen = random.sample(sorted(CLAUSES), random.randint(0, topics))
    templates = [random.choice(CLAUSES[topic]) for topic in chosen]
    templates += random.sample(OTHERS, random.randint(1, 2))
    random.shuffle(templates)
    return Message(
        " , ".join(fill_template(template, random) for template in templates),
        tuple(sorted(chosen)),
    )


def fill_template(template: str, random: Random) -> str:
    """Return a clause, with one of the words of each choice."""
    before, brace, after = template.partition("{")
    if not brace:
        return before
    choices, _, after = after.partition("}")
    return before + random.choice(choices.split("|")) + fill_template(after, random)


BEGINNINGS = "al|an|bar|bel|cor|dan|el|fal|gar|hal|iv|jor|kel|lan|mar|nor|ol|par|ros|sal|tor|ur|val|wen|yor|zan"
MIDDLES = "a|e|i|o|ba|da|la|li|mi|na|ra|ri|ro|ta|va"
ENDINGS = "berg|den|don|field|ford|ham|holm|low|mont|ner|ra|son|stad|ston|ton|ville|vik|well|wick|worth"
FIRST = "Ada|Ben|Cleo|Dan|Eva|Finn|Gia|Hugo|Ines|Jan|Kim|Leo|Mia|Noah|Olga|Paul|Rosa|Sam|Tess|Zoe"
KINDS = ("Bank", "Motors", "Press", "Steel", "Airlines", "University", "Museum", "Labs")
PERSON, PLACE, ORGANISATION = "PER", "LOC", "ORG"
NAME_TEMPLATES = (
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


def make_named_sentence(part: int, random: Random) -> Sentence:
    """Generate one sentence of any set."""
    text, *pieces = fill_template(random.choice(NAME_TEMPLATES), random).split("<")
    spans = []
    for piece in pieces:
        label, _, after = piece.partition(">")
        name = NAMES[label](random)
        spans.append((len(text), len(text) + len(name), label))
        text += name + after
    return Sentence(text, tuple(spans))


def stem(random: Random) -> str:
    """Make a name that a person or a place may have."""
    middle = f"{{{MIDDLES}}}" if random.random() < 0.5 else ""
    return fill_template(f"{{{BEGINNINGS}}}{middle}{{{ENDINGS}}}", random).capitalize()


def person(random: Random) -> str:
    """Make a first name and a last name, or the last name alone."""
    first = fill_template(f"{{{FIRST}}} ", random) if random.random() < 0.6 else ""
    return first + stem(random)


def place(random: Random) -> str:
    """Make a place, which may be new, upper or lower."""
    prefixes = ("New ", "Upper ", "Lower ")
    prefix = random.choice(prefixes) if random.random() < 0.2 else ""
    return prefix + stem(random)


def organisation(random: Random) -> str:
    """Make a firm that is named after a person or a place."""
    return f"{stem(random)} {random.choice(KINDS)}"


NAMES = {PERSON: person, PLACE: place, ORGANISATION: organisation}
"""What makes a name of each kind."""


NOUNS = (
    "dog|cat|horse|rabbit|wolf|donkey|bear|fox|duck|hedgehog|cow|goat|mouse|hen|tortoise|frog|owl|ant|squirrel|otter",
    "bridge|path|garden|field|lake|market|tunnel|wood|park|port|road|square|hill|beach|meadow|river|forest|street|island|avenue",
)
"""Animals, and places; the last `UNSEEN` of each occur in the test set only."""
UNSEEN = 6
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
    """A sentence with the noun that "it" stands for, and the other noun, the distractor."""

    referent: str
    distractor: str


def make_pronoun_sentence(part: int, random: Random) -> PronounSentence:
    """Generate one sentence of a set, 0 to 2.

    The test set has nouns that no other set has. Half of the nouns of the others are made
    up, so that a model must learn from the sentence which noun is meant.
    """
    nouns = []
    for words in NOUNS:
        words = words.split("|")
        if part == 2:
            nouns.append(random.choice(words[-UNSEEN:]))
        else:
            is_real = random.random() < 0.5
            noun = random.choice(words[:-UNSEEN])
            nouns.append(noun if is_real else stem(random).lower())
    meant = random.randrange(2)
    text = fill_template(random.choice(TEMPLATES), random)
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
