"""Generated English sentences with their French translation and word alignment.

The grammar is small but has what makes alignment hard: adjectives after their noun,
pronouns before their verb, one word for two around a third (not: ne ... pas), words
without counterpart (does), one noun for three words, articles that depend on a later
noun, and words that move from the end of one sentence to the beginning of the other.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from regard.data.pairs import Pair

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
    """Source words, and target words, each with the index of its source word."""

    source: list[str]
    target: list[tuple[str, int]]


def make(clauses: int, random: Random) -> Pair:
    """Generate a sentence of so many clauses with its translation and alignment."""
    parts = [make_clause(random)]
    for _ in range(clauses - 1):
        parts += [make_word(random, JOINING), make_clause(random)]
    source, target = join_phrases([*parts, Phrase(["."], [(".", 0)])])
    links = frozenset((index, number) for number, (_, index) in enumerate(target))
    return Pair(" ".join(source), " ".join(word for word, _ in target), "", links=links)


def make_clause(random: Random) -> Phrase:
    """Generate subject, verb and object, perhaps a place and a time, first in French."""
    parts = [make_noun_phrase(random), make_verb_phrase(random)]
    if random.random() < 0.5:
        place = make_word(random, PLACES)
        parts.append(join_phrases([place, make_noun_phrase(random)]))
    order = list(range(len(parts)))
    if random.random() < 0.4:
        order.insert(0, len(parts))
        parts.append(make_word(random, TIMES))
    return join_phrases(parts, order)


def make_verb_phrase(random: Random) -> Phrase:
    """Generate a verb, perhaps negated or with an adverb, and its object.

    The object is a pronoun before the verb or a noun after it.
    """
    third, (plain, verb) = random.choice(list(VERBS.items()))
    way = random.choice(("plain", "plain", "often", "not", "never"))
    adverb = random.choice(list(OFTEN))
    source = [third]
    before = []
    after = []
    if way == "often":
        source = [adverb, third]
        after = [(OFTEN[adverb], 0)]
    elif way == "not":
        source = ["does", "not", plain]
        before = [("ne", 1)]
        after = [("pas", 1)]
    elif way == "never":
        source = ["never", third]
        before = [("ne", 0)]
        after = [("jamais", 0)]
    translation = (verb, len(source) - 1)
    if random.random() < 0.3:
        pronoun = random.choice(list(PRONOUNS))
        before.append((PRONOUNS[pronoun], len(source)))
        source.append(pronoun)
        return Phrase(source, [*before, translation, *after])
    phrase = Phrase(source, [*before, translation, *after])
    return join_phrases([phrase, make_noun_phrase(random)])


def make_noun_phrase(random: Random) -> Phrase:
    """Generate determiner, perhaps adjectives of either kind, and noun.

    French forms agree with the noun's gender.
    """
    nouns, gender = random.choice(((MASCULINE, 0), (FEMININE, 1)))
    noun = random.choice(list(nouns))
    determiner = random.choice(list(DETERMINERS))
    source = [determiner]
    target = [(DETERMINERS[determiner][gender], 0)]
    if random.random() < 0.3:
        before = random.choice(list(BEFORE))
        source.append(before)
        target.append((BEFORE[before][gender], 1))
    after = None
    if random.random() < 0.4:
        after = random.choice(list(AFTER))
        source.append(after)
    last = len(source)
    source.append(noun)
    for piece in nouns[noun].split():
        target.append((piece, last))
    if after is not None:
        target.append((AFTER[after][gender], last - 1))
    return Phrase(source, target)


def make_word(random: Random, words: dict[str, str]) -> Phrase:
    """Choose a word of a list."""
    word = random.choice(list(words))
    return Phrase([word], [(words[word], 0)])


def join_phrases(
    phrases: Sequence[Phrase], order: Sequence[int] | None = None
) -> Phrase:
    """Join phrases, in the target in another `order` if given."""
    source: list[str] = []
    targets = []
    for phrase in phrases:
        targets.append([(word, len(source) + index) for word, index in phrase.target])
        source += phrase.source
    order = range(len(phrases)) if order is None else order
    return Phrase(source, [item for number in order for item in targets[number]])
