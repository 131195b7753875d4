"""Generated sentences: their links join the right words."""

import pytest

from regard.data.generated import bitext
from regard.data.generated.pairs import Bitext
from regard.data.pairs import Pair
from regard.errors import InputError
from regard.maps.links import Links

MASCULINE = set(bitext.MASCULINE.values())
FEMININE = {noun.split()[0] for noun in bitext.FEMININE.values()}
GENDERS = dict.fromkeys(("ce", "mon", "ton"), MASCULINE) | dict.fromkeys(("cette", "ma", "ta"), FEMININE)
LEXICON = {
    **{noun: set(french.split()) for noun, french in (bitext.MASCULINE | bitext.FEMININE).items()},
    **{word: set(forms) for word, forms in (bitext.DETERMINERS | bitext.BEFORE | bitext.AFTER).items()},
    **{form: {french} for third, (plain, french) in bitext.VERBS.items() for form in (third, plain)},
    **{word: {french} for word, french in (bitext.OFTEN | bitext.PRONOUNS | bitext.PLACES).items()},
    **{word: {french} for word, french in (bitext.TIMES | bitext.JOINING).items()},
    "not": {"ne", "pas"},
    "never": {"ne", "jamais"},
    ".": {"."},
}


def made() -> list[Pair]:
    return list(Bitext(train=300, valid=1, test=1, seed=3).load().train)


def test_linked_words_translate_each_other_and_all_target_words_are_linked():
    for sentence in made():
        english, french = sentence.text.split(), sentence.target.split()
        for source, target in sentence.links or ():
            assert french[target] in LEXICON[english[source]], sentence
        assert {target for _, target in sentence.links or ()} == set(range(len(french)))
        unlinked = set(range(len(english))) - {source for source, _ in sentence.links or ()}
        assert {english[place] for place in unlinked} <= {"does"}


def test_a_sentence_by_hand():
    noun = bitext.Phrase(["the", "black", "cat"], [("le", 0), ("chat", 2), ("noir", 1)])
    time = bitext.Phrase(["now"], [("maintenant", 0)])
    whole = bitext.join_phrases([noun, time], [1, 0])
    assert whole.source == ["the", "black", "cat", "now"]
    assert whole.target == [("maintenant", 3), ("le", 0), ("chat", 2), ("noir", 1)]


def test_what_makes_alignment_hard_occurs():
    links: list[Links] = [sentence.links or frozenset() for sentence in made()]
    assert any(source - target >= 5 for each in links for source, target in each)
    each = zip(links, [len(sentence.text.split()) for sentence in made()], strict=True)
    assert {sum(source == place for source, _ in some) for some, size in each for place in range(size)} == {0, 1, 2, 3}


def test_forms_go_by_the_gender_of_the_noun():
    for sentence in made():
        words = sentence.target.split()
        for place, word in enumerate(words):
            if word in GENDERS:
                noun = next(each for each in words[place + 1 :] if each in MASCULINE | FEMININE)
                assert noun in GENDERS[word], sentence


def test_the_source_gives_pairs_with_links():
    splits = Bitext(train=5, valid=2, test=0, clauses=1).load()
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [5, 2, 0]
    assert splits.valid[1].place == "bitext valid 2"
    assert splits.train[0].links
    assert Bitext(train=5, valid=2, test=3).load().test == Bitext(train=9, valid=2, test=3).load().test


@pytest.mark.parametrize("clauses", [0, 11])
def test_too_few_or_too_many_clauses(clauses: int):
    with pytest.raises(InputError, match=rf"clauses is {clauses}; expected 1 to 10"):
        Bitext(clauses=clauses)
