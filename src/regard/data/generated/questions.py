"""Generated questions about who taught what and when, whose answers have known places.

A context has a few facts, each about another teacher, another subject and a term, in
varied wording and order, with filler sentences between them. A question is about one part
of one fact, given the other two.
"""

from random import Random
from typing import NamedTuple

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


class Form(NamedTuple):
    """The unknown part of a fact, with the question and the answer."""

    unknown: str
    question: str
    answer: str


FORMS = (
    Form(
        "subject",
        "What did Professor {teacher} teach in the {term} ?",
        "Professor {teacher} taught {subject} in the {term}",
    ),
    Form(
        "teacher",
        "Who taught {subject} in the {term} ?",
        "{subject} was taught by Professor {teacher} in the {term}",
    ),
    Form(
        "term",
        "When did Professor {teacher} teach {subject} ?",
        "Professor {teacher} taught {subject} in the {term}",
    ),
)


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
    unknown = f"{{{form.unknown}}}"
    words = form.question.format(**fact).split()
    first = 0
    for item in stated:
        for part in random.choice(STATEMENTS).split():
            if item is fact and part == unknown:
                first = len(words)
            words += part.format(**item).split()
        if random.random() < 0.5:
            words += random.choice(BETWEEN).split()
    before, _, _ = form.answer.partition(unknown)
    begin = len(before.format(**fact).split())
    size = len(unknown.format(**fact).split())
    links = frozenset((first + number, begin + number) for number in range(size))
    answer = form.answer.format(**fact)
    return Pair(" ".join(words), answer, "", links=links)
