"""Generated questions about who taught what and when, whose answers have known places.

A context has a few facts, each about another teacher, another subject and a term, in
varied wording and order, with filler sentences between them. A question is about one part
of one fact, given the other two.
"""

from collections.abc import Sequence
from random import Random
from typing import Literal, NamedTuple

from regard.data.pairs import Pair

TEACHERS = [
    "Abel",
    "Alvarez",
    "Bauer",
    "Becker",
    "Bell",
    "Brandt",
    "Castro",
    "Chen",
    "Costa",
    "Dahl",
    "Diaz",
    "Dubois",
    "Eriksen",
    "Evans",
    "Farkas",
    "Fischer",
    "Fontaine",
    "Garcia",
    "Green",
    "Haas",
    "Hansen",
    "Ito",
    "Ivanov",
    "Jansen",
    "Jones",
    "Kato",
    "Keller",
    "Khan",
    "Klein",
    "Kovacs",
    "Lang",
    "Lee",
    "Lopez",
    "Maier",
    "Martin",
    "Meyer",
    "Moreau",
    "Nagy",
    "Novak",
    "Okafor",
    "Olsen",
    "Park",
    "Perez",
    "Perry",
    "Petrov",
    "Rao",
    "Reyes",
    "Rossi",
    "Sato",
    "Silva",
    "Singh",
    "Smith",
    "Tanaka",
    "Torres",
    "Varga",
    "Vogel",
    "Wagner",
    "Weber",
    "Wong",
    "Young",
]
SUBJECTS = [
    "Algebra",
    "Machine Learning",
    "Botany",
    "Statistics",
    "Organic Chemistry",
    "Geometry",
    "Logic",
    "World History",
    "Phonetics",
    "Number Theory",
    "Optics",
    "Genetics",
    "Economics",
    "Art History",
    "Astronomy",
    "Contract Law",
    "Ethics",
    "Music Theory",
    "Robotics",
    "Graph Theory",
    "Anatomy",
    "Geology",
    "Cryptography",
    "Modern Poetry",
    "Topology",
    "Game Theory",
    "Ecology",
    "Data Mining",
    "Rhetoric",
    "Fluid Dynamics",
]
TERMS = "Spring", "Summer", "Autumn", "Winter"
STATEMENTS = (
    "Professor {teacher} taught {subject} in the {term} .",
    "In the {term} , Professor {teacher} taught {subject} .",
    "{subject} was taught by Professor {teacher} in the {term} .",
    "The {term} course on {subject} was given by Professor {teacher} .",
)
BETWEEN = (
    "The students enjoyed it .",
    "Many came .",
    "It was hard work .",
    "The room was full .",
    "Nobody was late .",
)


class UnknownPart(NamedTuple):
    """The unknown part of a fact, with the question and the answer."""

    unknown: str
    question: str
    answer: str


FORMS = (
    UnknownPart(
        "subject",
        "What did Professor {teacher} teach in the {term} ?",
        "Professor {teacher} taught {subject} in the {term}",
    ),
    UnknownPart(
        "teacher",
        "Who taught {subject} in the {term} ?",
        "{subject} was taught by Professor {teacher} in the {term}",
    ),
    UnknownPart(
        "term",
        "When did Professor {teacher} teach {subject} ?",
        "Professor {teacher} taught {subject} in the {term}",
    ),
)


VERBS = "taught", "showed", "gave", "sent"
RECIPIENTS = "them", "us", "me", "her", "him", "you"
REPORTS = (
    "Professor {teacher} {verb} {recipient} {subject} .",
    "In the {term} , Professor {teacher} {verb} {recipient} {subject} .",
    "Nobody was late when Professor {teacher} {verb} {recipient} {subject} .",
    "Professor {teacher} , it is said , {verb} {recipient} {subject} in the {term} .",
)
REMARKS = (
    "{pronoun} was glad .",
    "{pronoun} enjoyed it .",
    "{pronoun} came late .",
    "{pronoun} did it again yesterday .",
)
"""Sentences after a report that tell the teacher's pronoun."""
TEMPLATE = "{pronoun} {verb} {recipient} {subject}"
PronounSource = Literal["name", "context"]
Fact = dict[str, str]


def append_statement(
    template: str, fact: Fact, words: list[str]
) -> dict[str, list[int]]:
    """Append the words of a statement; return the indices of each part of the fact."""
    places = {}
    for part in template.split():
        first = len(words)
        words += part.format(**fact).split()
        places[part.strip("{}")] = list(range(first, len(words)))
    return places


def pair_with_links(
    words: list[str],
    places: dict[str, list[int]],
    answer: str,
    fact: Fact,
    unknown: Sequence[str],
) -> Pair:
    """Return a pair whose links are between the unknown parts of answer and context."""
    target: list[str] = []
    answered = append_statement(answer, fact, target)
    links = frozenset(
        link
        for part in unknown
        for link in zip(places[part], answered[part], strict=True)
    )
    return Pair(" ".join(words), " ".join(target), "", links=links)


def make(facts: int, random: Random) -> Pair:
    """Generate a question with its context, and the answer.

    The links are between the unknown words of the answer and their places in the context.
    """
    teachers = random.sample(TEACHERS, facts)
    subjects = random.sample(SUBJECTS, facts)
    stated = []
    for teacher, subject in zip(teachers, subjects, strict=True):
        term = random.choice(TERMS)
        stated.append({"teacher": teacher, "subject": subject, "term": term})
    fact = stated[0]
    form = random.choice(FORMS)
    random.shuffle(stated)
    words = form.question.format(**fact).split()
    places = {}
    for item in stated:
        stated_places = append_statement(random.choice(STATEMENTS), item, words)
        if item is fact:
            places = stated_places
        if random.random() < 0.5:
            words += random.choice(BETWEEN).split()
    return pair_with_links(words, places, form.answer, fact, [form.unknown])


def make_template(facts: int, source: PronounSource, random: Random) -> Pair:
    """Generate a question about a teacher that is answered as "She taught them Logic".

    Each word of the answer is looked up in the context; the pronoun too if that is its
    source, else it follows from the teacher's name.
    """
    teachers = random.sample(TEACHERS, facts)
    subjects = random.sample(SUBJECTS, facts)
    stated = []
    for teacher, subject in zip(teachers, subjects, strict=True):
        pronoun = ("She", "He")[TEACHERS.index(teacher) % 2]
        if source == "context":
            pronoun = random.choice(("He", "She"))
        item = {"teacher": teacher, "subject": subject, "pronoun": pronoun}
        item |= {"verb": random.choice(VERBS), "recipient": random.choice(RECIPIENTS)}
        stated.append(item | {"term": random.choice(TERMS)})
    fact = stated[0]
    random.shuffle(stated)
    words = f"What did Professor {fact['teacher']} do ?".split()
    places = {}
    for item in stated:
        stated_places = append_statement(random.choice(REPORTS), item, words)
        if source == "context":
            stated_places |= append_statement(random.choice(REMARKS), item, words)
        elif random.random() < 0.5:
            words += random.choice(BETWEEN).split()
        if item is fact:
            places = stated_places
    unknown = ["verb", "recipient", "subject"]
    unknown += ["pronoun"] * (source == "context")
    return pair_with_links(words, places, TEMPLATE, fact, unknown)
