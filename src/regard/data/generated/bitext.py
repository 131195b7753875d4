"""Generated English sentences with their French translation and word alignment.

The grammar is small but has what makes alignment hard: adjectives after their noun, pronouns before their verb, one
word for two around a third (not: ne ... pas), words without counterpart (does), one noun for three words, articles that
depend on a later noun, and words that move from the end of one sentence to the beginning of the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from regard.data.generated.synthetic import disjoint_sets
from regard.maps.links import Links

MASCULINE = {
    "cat": "chat",
    "dog": "chien",
    "horse": "cheval",
    "teacher": "professeur",
    "king": "roi",
    "garden": "jardin",
    "book": "livre",
    "bridge": "pont",
    "boat": "bateau",
    "knife": "couteau",
    "hat": "chapeau",
    "bag": "sac",
    "neighbour": "voisin",
    "wall": "mur",
    "baker": "boulanger",
    "fish": "poisson",
}
FEMININE = {
    "house": "maison",
    "letter": "lettre",
    "girl": "fille",
    "woman": "femme",
    "queen": "reine",
    "town": "ville",
    "forest": "forêt",
    "cow": "vache",
    "mouse": "souris",
    "door": "porte",
    "window": "fenêtre",
    "flower": "fleur",
    "street": "rue",
    "mountain": "montagne",
    "car": "voiture",
    "potato": "pomme de terre",
}
DETERMINERS = {
    "the": ("le", "la"),
    "your": ("ton", "ta"),
    "this": ("ce", "cette"),
    "my": ("mon", "ma"),
}
BEFORE = {
    "good": ("bon", "bonne"),
    "big": ("grand", "grande"),
    "small": ("petit", "petite"),
    "old": ("vieux", "vieille"),
    "fine": ("bon", "bonne"),
}
AFTER = {
    "black": ("noir", "noire"),
    "white": ("blanc", "blanche"),
    "green": ("vert", "verte"),
    "heavy": ("lourd", "lourde"),
    "quiet": ("calme", "calme"),
    "strange": ("bizarre", "bizarre"),
}
VERBS = {
    "sees": ("see", "voit"),
    "finds": ("find", "trouve"),
    "carries": ("carry", "porte"),
    "watches": ("watch", "regarde"),
    "follows": ("follow", "suit"),
    "knows": ("know", "connaît"),
    "takes": ("take", "prend"),
    "sells": ("sell", "vend"),
    "hides": ("hide", "cache"),
    "draws": ("draw", "dessine"),
    "fears": ("fear", "craint"),
    "loses": ("lose", "perd"),
}
OFTEN = {"often": "souvent", "always": "toujours", "rarely": "rarement"}
PRONOUNS = {"him": "le", "her": "la", "them": "les"}
PLACES = {
    "in": "dans",
    "under": "sous",
    "behind": "derrière",
    "on": "sur",
    "with": "avec",
}
TIMES = {"now": "maintenant", "here": "ici", "today": "aujourd'hui"}
JOINING = {"and": "et", "but": "mais", "because": "car", "so": "donc"}


class Phrase(NamedTuple):
    """Source words, and target words, each with the index of the source word that it translates."""

    source: list[str]
    target: list[tuple[str, int]]


@dataclass(frozen=True)
class Bitext:
    """A sentence, its translation, and their word alignment. Blanks separate the words."""

    text: str
    translation: str
    links: Links


def generate(
    sizes: tuple[int, int, int], clauses: int, seed: int
) -> tuple[list[Bitext], ...]:
    """Training, validation and test sentences of one to `clauses` clauses, without duplicates. `sizes` are the sizes of
    the three sets.

    Raises:
        InputError: there are too few different sentences.
    """
    return disjoint_sets(
        sizes,
        seed,
        lambda part, random: make(random.randint(1, clauses), random),
        "bitext",
    )


def make(clauses: int, random: Random) -> Bitext:
    """Generate one sentence."""
    parts = [clause(random)]
    for _ in range(clauses - 1):
        parts += [word(random, JOINING), clause(random)]
    whole = chained([*parts, Phrase(["."], [(".", 0)])])
    links = frozenset((place, number) for number, (_, place) in enumerate(whole.target))
    return Bitext(
        " ".join(whole.source), " ".join(word for word, _ in whole.target), links
    )


def clause(random: Random) -> Phrase:
    """Subject, verb and object, perhaps a place, perhaps a time, which comes first in French."""
    parts = [noun_phrase(random), verb_phrase(random)]
    if random.random() < 0.5:
        parts.append(chained([word(random, PLACES), noun_phrase(random)]))
    order = list(range(len(parts)))
    if random.random() < 0.4:
        order.insert(0, len(parts))
        parts.append(word(random, TIMES))
    return chained(parts, order)


def verb_phrase(random: Random) -> Phrase:
    """A verb, perhaps negated or with an adverb, and its object: a pronoun before the verb or a noun after it."""
    third, (plain, verb) = random.choice(list(VERBS.items()))
    way = random.choice(("plain", "plain", "often", "not", "never"))
    adverb = random.choice(list(OFTEN))
    source = {
        "plain": [third],
        "often": [adverb, third],
        "not": ["does", "not", plain],
        "never": ["never", third],
    }[way]
    at = len(source) - 1
    before, after = {
        "plain": ([], []),
        "often": ([], [(OFTEN[adverb], 0)]),
        "not": ([("ne", 1)], [("pas", 1)]),
        "never": ([("ne", 0)], [("jamais", 0)]),
    }[way]
    if random.random() < 0.3:
        pronoun = random.choice(list(PRONOUNS))
        return Phrase(
            [*source, pronoun],
            [*before, (PRONOUNS[pronoun], at + 1), (verb, at), *after],
        )
    return chained([Phrase(source, [*before, (verb, at), *after]), noun_phrase(random)])


def noun_phrase(random: Random) -> Phrase:
    """Determiner, perhaps adjectives of either kind, and noun. French forms agree with the noun's gender."""
    nouns, gender = random.choice(((MASCULINE, 0), (FEMININE, 1)))
    noun, determiner = random.choice(list(nouns)), random.choice(list(DETERMINERS))
    first = random.choice(list(BEFORE)) if random.random() < 0.3 else None
    second = random.choice(list(AFTER)) if random.random() < 0.4 else None
    source = [item for item in (determiner, first, second, noun) if item is not None]
    target = [(DETERMINERS[determiner][gender], 0)]
    target += [(BEFORE[first][gender], 1)] if first else []
    target += [(piece, len(source) - 1) for piece in nouns[noun].split()]
    target += [(AFTER[second][gender], len(source) - 2)] if second else []
    return Phrase(source, target)


def word(random: Random, words: dict[str, str]) -> Phrase:
    """A random word of a list."""
    chosen = random.choice(list(words))
    return Phrase([chosen], [(words[chosen], 0)])


def chained(phrases: Sequence[Phrase], order: Sequence[int] | None = None) -> Phrase:
    """Concatenate phrases, in the target in another `order` if given."""
    starts = [
        sum(len(phrase.source) for phrase in phrases[:number])
        for number in range(len(phrases))
    ]
    source = [item for phrase in phrases for item in phrase.source]
    order = range(len(phrases)) if order is None else order
    return Phrase(
        source,
        [
            (item, starts[part] + at)
            for part in order
            for item, at in phrases[part].target
        ],
    )
