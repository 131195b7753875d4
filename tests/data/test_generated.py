"""Generated sentences: their links join the right words."""

import re
import sys
from collections import Counter
from datetime import date
from random import Random
from typing import Any, Literal

import pytest

from regard.data.generated import bitext
from regard.data.generated.dates import (
    MONTHS,
    NUMERIC_PATTERNS,
    PATTERNS,
    WEEKDAYS,
    locale_forms,
    locale_writer,
    write_numeric,
    write_unambiguous,
)
from regard.data.generated.pairs import (
    Bitext,
    Conversations,
    Dates,
    GeneratedQuestions,
    Letters,
    Templates,
    disjoint_sets,
    make,
)
from regard.data.generated.questions import FORMS, SUBJECTS, TEACHERS, TERMS
from regard.data.generated.sentences import NOUNS, STATES, UNSEEN, PronounSentence, make_pronoun_sentence
from regard.data.pairs import Pair
from regard.errors import InputError
from regard.extras import how_to_install
from regard.maps.links import Links
from regard.tasks.tagging.data import Pronouns

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


def test_rows_by_hand():
    row = make(3, "reverse", Random(1))
    assert row.target.split() == row.text.split()[::-1]
    assert row.links == {(2, 0), (1, 1), (0, 2)}
    copied = make(3, "copy", Random(1))
    assert copied.target == copied.text == row.text
    assert copied.links == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("order", ["copy", "reverse"])
def test_lengths_are_as_asked_and_no_row_occurs_twice(order: Literal["copy", "reverse"]):
    splits = Letters(train=200, valid=50, test=50, order=order, least=3, most=7).load()
    pairs = [*splits.train, *splits.valid, *splits.test]
    assert len({pair.source for pair in pairs}) == 300
    assert {len(pair.source.split()) for pair in pairs} == {3, 4, 5, 6, 7}
    assert splits.test[0].place == "letters test 1"


def test_there_are_only_26_rows_of_one_letter():
    with pytest.raises(InputError, match=r"letters: 30 different ones could not be found"):
        Letters(train=10, valid=10, test=10, least=1, most=1).load()


SENTENCES = disjoint_sets((2_000, 50, 300), 1, make_pronoun_sentence, "pronouns")


def test_the_label_is_the_referent():
    for sentence in SENTENCES[0][:300]:
        ((start, end, label),) = sentence.spans
        assert sentence.text[start:end] == "it"
        assert label == sentence.referent != sentence.distractor
        assert {sentence.referent, sentence.distractor} <= {*sentence.text.split()}


def test_the_referent_follows_from_what_is_said_of_it():
    animals, of_animals = ({*words[0].split("|")} for words in (NOUNS, STATES))
    for sentence in SENTENCES[2]:
        state = sentence.text.removesuffix(" .").split(" it was ")[1].split(maxsplit=1)[1]
        assert state in "|".join(STATES).split("|")
        assert (sentence.referent in animals) == (state in of_animals) == (sentence.distractor not in animals)


def test_no_noun_of_the_test_set_is_in_another_set():
    nouns = [{noun for each in part for noun in (each.referent, each.distractor)} for part in SENTENCES]
    assert nouns[2] == {noun for words in NOUNS for noun in words.split("|")[-UNSEEN:]}
    assert not nouns[2] & (nouns[0] | nouns[1])
    assert not {"animal", "street"} & nouns[0]  # those of the sentence that everybody draws
    assert len(nouns[0]) > 1_000  # most are made up


@pytest.mark.parametrize("rule", [min, max], ids=["first noun", "last noun"])
def test_no_place_decides(rule: Any):
    def right(sentence: PronounSentence) -> bool:
        return rule((sentence.referent, sentence.distractor), key=sentence.text.split().index) == sentence.referent

    assert 0.45 < sum(map(right, SENTENCES[0])) / len(SENTENCES[0]) < 0.55


def test_pronouns_have_tags():
    splits = Pronouns(train=20, valid=5, test=5).load()
    tagged = splits.train[0]
    (at,) = (at for at, tag in enumerate(tagged.tags) if tag != "O")
    assert tagged.text[slice(*tagged.words[at])] == "it"
    assert tagged.tags[at].removeprefix("B-") in tagged.text.split()


def test_the_linked_words_are_those_of_the_answer():
    for question in GeneratedQuestions(train=300, valid=1, test=1, seed=3).load().train:
        context, answer = question.text.split(), question.target.split()
        asked = context.index("?") + 1
        assert question.links
        for source, target in question.links or ():
            assert context[source] == answer[target]
            assert source >= asked
        written = " ".join(answer[target] for _, target in sorted(question.links or ()))
        assert written in {*TEACHERS, *SUBJECTS, *TERMS}


@pytest.mark.parametrize("source", ["name", "context"])
def test_a_template_is_filled_with_words_of_the_context(source: Literal["name", "context"]):
    pronouns = {}
    for question in Templates(train=300, valid=1, test=1, pronoun=source).load().train:
        context, answer = question.text.split(), question.target.split()
        links = question.links or frozenset()
        assert {context[i] for i, _ in links} == {answer[j] for _, j in links}
        assert {j for _, j in links} == {*range(source == "name", len(answer))}
        name = context[3]
        first, last = context.index(name, 4), max(i for i, _ in links)
        told = context[first + 1 : last]
        assert "Professor" not in told  # all of them are said of the one who is asked about
        pronouns.setdefault(name, set()).add(answer[0])
    assert {len(each) for each in pronouns.values()} == ({1} if source == "name" else {1, 2})


def test_what_a_conversation_asks_for_was_told_in_an_earlier_turn():
    for turns in (5, 2, 0):
        found = Conversations(train=300, valid=1, test=1, turns=turns).load().train
        for reply in found:
            words, (*_, slot, _) = reply.source.split(), reply.target.split()
            assert words.count("¶") <= max(turns, 1)
            assert all(words[i] == reply.target.split()[j] == slot for i, j in reply.links or ())
        share = sum(bool(reply.links) for reply in found) / len(found)
        assert share == {5: 1.0, 0: 0.0}.get(turns, share)
        assert turns != 2 or 0.1 < share < 0.5


def test_all_forms_occur_and_no_text_twice():
    splits = GeneratedQuestions(train=200, valid=50, test=50, facts=3).load()
    texts = [pair.source for pairs in splits.by_name.values() for pair in pairs]
    assert len(set(texts)) == 300
    assert {text.split()[0] for text in texts} == {form.question.split()[0] for form in FORMS}
    assert GeneratedQuestions(train=3, valid=50, test=50, facts=3).load().test == splits.test


SIZES = (5003, 307, 509)


def generate(sizes, forms, seed):
    data = Dates(forms=forms, seed=seed)
    return disjoint_sets(sizes, seed, data.make_pair, "dates")


@pytest.fixture(scope="module")
def english():
    return generate(SIZES, "unambiguous", 1)


@pytest.fixture(scope="module")
def every_form():
    return generate((1009, 101, 211), "all", 1)


def read(text):
    """The date in an unambiguous English text, by rules that share nothing with the generator."""
    text = text.lower()
    digits = re.match(r"\D*(\d{4})([-/]?)(\d\d)\2(\d\d)(?!\d)", text)
    if digits:
        year, _, month, day = digits.groups()
        return f"{year}-{month}-{day}"
    weekdays = "|".join(f"{name[:3]}[a-z]*" for name in map(str.lower, WEEKDAYS))
    rest = re.sub(rf"\b({weekdays})\b", " ", text)
    (month,) = [number for number, name in enumerate(MONTHS, 1) if name[:3].lower() in rest]
    (year,) = re.findall(r"(?<!\d)\d{4}(?!\d)", rest)
    (day,) = re.findall(r"(?<!\d)\d{1,2}(?!\d)", rest)
    return f"{year}-{month:02}-{int(day):02}"


def test_an_independent_reader_finds_the_same_date(english):
    for part in english:
        for each in part:
            assert read(each.text) == each.target, each
            assert not each.group


def test_the_listed_patterns_all_occur(english):
    assert len(PATTERNS) == len(set(PATTERNS)) >= 25
    counts = Counter(each.place[1:-1] for each in english[0])
    assert set(counts) == set(PATTERNS)
    assert min(counts.values()) > SIZES[0] / len(PATTERNS) / 2


def test_case_commas_ordinals_and_abbreviations_vary(english):
    texts = [each.text for each in english[0]]
    worded = [text for text in texts if re.search("[A-Za-z]{3}", text)]
    assert 0.15 < sum(text == text.lower() for text in worded) / len(worded) < 0.35
    assert 0.15 < sum(text == text.upper() for text in worded) / len(worded) < 0.35
    everything = "\n".join(texts)
    for wanted in (r"Sept\.", r"Sep\. ", "Sept ", "Sep ", "1st", "2nd", "3rd", "11th", "12th", "13th", "22nd", "31ST"):
        assert re.search(rf"(?<![0-9]){wanted}", everything), wanted
    assert not re.search(r"11st|12nd|13rd|\dth\d|May\.", everything)
    from_one = [each.text for each in english[0] if each.place[1:-1] == "{weekday}, {month} {d}, {y}"]
    assert 0.1 < sum("," not in text for text in from_one) / len(from_one) < 0.5


def test_half_of_the_weekdays_are_wrong(english):
    right = wrong = 0
    for each in english[0]:
        named = re.search("|".join(WEEKDAYS), each.text, re.IGNORECASE)
        if named:
            day = date.fromisoformat(each.target)
            right += named[0].lower() == WEEKDAYS[day.weekday()].lower()
            wrong += named[0].lower() != WEEKDAYS[day.weekday()].lower()
    assert right + wrong > SIZES[0] / 8
    assert 0.4 < wrong / (right + wrong) < 0.6


@pytest.mark.parametrize("sets", ["english", "every_form"])
def test_the_sets_share_no_text_and_no_day(sets, request):
    train, valid, test = request.getfixturevalue(sets)
    texts = [each.text for part in (train, valid, test) for each in part]
    assert len(set(texts)) == len(texts)
    days = [{each.target for each in part} for part in (train, valid, test)]
    assert not days[0] & days[1]
    assert not days[0] & days[2]
    assert not days[1] & days[2]


def test_the_seed_decides_and_more_training_data_leaves_the_test_set(english):
    assert generate(SIZES, "unambiguous", 1) == english
    assert generate(SIZES, "unambiguous", 2)[2] != english[2]
    train, valid, test = generate((SIZES[0] + 1009, *SIZES[1:]), "unambiguous", 1)
    assert (valid, test) == english[1:]
    assert train[: SIZES[0]] == english[0]


def test_numeric_forms_know_whether_they_have_two_readings():
    dice = Random(11)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        day = date(2018, dice.randint(1, 12), dice.randint(1, 28))
        each = write_numeric(day, dice)
        numbers = list(map(int, re.findall(r"\d+", each.text)))
        two_digits = "2018" not in each.text
        swaps = not two_digits and max(numbers[:2]) <= 12 and numbers[0] != numbers[1]
        assert bool(each.group) == (two_digits or swaps), each
        seen[bool(each.group)] += 1
    assert min(seen.values()) > 300
    assert not set(NUMERIC_PATTERNS) & set(PATTERNS)


def test_all_forms_hold_english_numeric_and_local_ones(every_form):
    patterns = Counter(
        "english" if each.place[1:-1] in PATTERNS else "numeric" if each.place[1:-1] in NUMERIC_PATTERNS else "local"
        for each in every_form[0]
    )
    assert all(patterns[kind] > len(every_form[0]) / 20 for kind in ("english", "numeric", "local"))
    assert 0.03 < sum(bool(each.group) for each in every_form[0]) / len(every_form[0]) < 0.3
    assert any("\u5e74" in each.text for each in every_form[0])


def test_every_local_form_shows_day_month_and_gregorian_year():
    forms = locale_forms()
    assert len({form.locale.language for form in forms}) > 200
    for form in forms:
        letters = [part[0] for part in form.parts if isinstance(part, tuple)]
        assert sorted(letter for letter in letters if letter not in "EcG") == ["M", "d", "y"], form.label
        assert len(form.months) in (0, 12)


def test_a_clear_text_has_one_date_in_all_languages():
    write, dice = locale_writer(), Random(2)
    readings: dict[str, set[str]] = {}
    clear: set[tuple[str, str]] = set()
    for _ in range(8_000):
        day = date(2018, dice.randint(1, 12), dice.choice((3, 8, 19)))
        each = dice.choice((write, write, write, write_unambiguous, write_numeric))(day, dice)
        assert "2018" in each.text or each.group
        readings.setdefault(each.text.lower(), set()).add(each.target)
        if not each.group:
            clear.add((each.text.lower(), each.target))
    several = {text for text, dates in readings.items() if len(dates) > 1}
    assert several
    assert not {text for text in several if sum((text, iso) in clear for iso in readings[text]) > 1}


def test_the_absence_of_babel_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    locale_writer.cache_clear()
    assert len(Dates(train=3, valid=2, test=1).load().train) == 3
    with pytest.raises(InputError, match=re.escape(how_to_install("babel"))):
        Dates(train=3, valid=2, test=1, forms="all").load()
