"""Generated sentences with "it": the label is the right noun, and no simple rule finds it."""

from typing import Any

import pytest

from regard.data.generated.sentences import NOUNS, STATES, PronounSentence, generate_pronouns
from regard.errors import InputError
from regard.tasks.tagging.data import Pronouns

SENTENCES = generate_pronouns((2_000, 50, 300), 1)


def test_the_label_is_the_referent():
    for sentence in SENTENCES[0][:300]:
        ((start, end, label),) = sentence.spans
        assert sentence.text[start:end] == "it"
        assert label == sentence.referent != sentence.distractor
        assert {sentence.referent, sentence.distractor} <= {*sentence.text.split()}


def test_the_referent_follows_from_what_is_said_of_it():
    animals, of_animals = ({*words[0].split("|")} for words in (NOUNS, STATES))
    for sentence in SENTENCES[0][:300]:
        state = sentence.text.removesuffix(" .").split(" it was ")[1].split(maxsplit=1)[1]
        assert state in "|".join(STATES).split("|")
        assert (sentence.referent in animals) == (state in of_animals) == (sentence.distractor not in animals)


@pytest.mark.parametrize("rule", [min, max], ids=["first noun", "last noun"])
def test_no_place_decides(rule: Any):
    def right(sentence: PronounSentence) -> bool:
        return rule((sentence.referent, sentence.distractor), key=sentence.text.split().index) == sentence.referent

    assert 0.45 < sum(map(right, SENTENCES[0])) / len(SENTENCES[0]) < 0.55


def test_the_source_has_tags():
    splits = Pronouns(train=20, valid=5, test=5).load()
    tagged = splits.train[0]
    (at,) = (at for at, tag in enumerate(tagged.tags) if tag != "O")
    assert tagged.text[slice(*tagged.words[at])] == "it"
    assert tagged.tags[at].removeprefix("B-") in tagged.text.split()
    with pytest.raises(InputError, match="pronouns: train is 0"):
        Pronouns(train=0)
