"""Generated questions about who taught what and when. The place of each answer in the context is known.

A context has a few facts, each about another teacher, another subject and a term, in varied wording and order, with
filler sentences between them. A question is about one part of one fact, given the other two."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from regard.data.generated.synthetic import disjoint_sets
from regard.errors import InputError
from regard.maps.links import Links

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


@dataclass(frozen=True)
class Question:
    """A question with its context, and the answer. `links` are between the unknown words of the answer and their places
    in the context; blanks separate the words."""

    text: str
    answer: str
    links: Links


def generate(
    sizes: tuple[int, int, int], facts: int, seed: int
) -> tuple[list[Question], ...]:
    """Training, validation and test questions without a common text. `sizes` are the sizes of the three sets. The test
    set depends on its size, `facts` and `seed` only.

    Raises:
        InputError: fewer than one fact, or more than there are subjects.
    """
    if not 1 <= facts <= len(SUBJECTS):
        raise InputError(f"questions: facts is {facts}; expected 1 to {len(SUBJECTS)}")
    return disjoint_sets(
        sizes, seed, lambda part, random: make(facts, random), "questions"
    )


def make(facts: int, random: Random) -> Question:
    """Generate one question."""
    stated = [
        {"teacher": teacher, "subject": subject, "term": random.choice(TERMS)}
        for teacher, subject in zip(
            random.sample(TEACHERS, facts), random.sample(SUBJECTS, facts), strict=True
        )
    ]
    fact, form = stated[0], random.choice(FORMS)
    random.shuffle(stated)
    words = form.question.format(**fact).split()
    places: list[int] = []
    for item in stated:
        template = random.choice(STATEMENTS).split()
        for part in template:
            piece = part.format(**item).split()
            if item is fact and part == f"{{{form.unknown}}}":
                places = list(range(len(words), len(words) + len(piece)))
            words += piece
        words += random.choice(BETWEEN).split() if random.random() < 0.5 else []
    answer: list[str] = []
    links = set()
    for part in form.answer.split():
        piece = part.format(**fact).split()
        if part == f"{{{form.unknown}}}":
            links = {
                (place, len(answer) + number) for number, place in enumerate(places)
            }
        answer += piece
    return Question(" ".join(words), " ".join(answer), frozenset(links))
