import re
import sys
from collections import Counter
from datetime import date
from random import Random

import pytest

from regard.data.generated.dates import (
    MONTHS,
    NUMERIC_PATTERNS,
    PATTERNS,
    WEEKDAYS,
    locale_forms,
    locale_writer,
    make_writer,
    write_numeric,
    write_unambiguous,
)
from regard.data.generated.pairs import Dates
from regard.data.generated.synthetic import disjoint_sets
from regard.errors import InputError
from regard.extras import how_to_install

SIZES = (5003, 307, 509)


def generate(sizes, forms, seed):
    return disjoint_sets(sizes, seed, make_writer(forms, seed), "dates")


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


def test_row_49_the_absence_of_babel_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    locale_forms.cache_clear()
    assert len(Dates(train=3, valid=2, test=1).load().train) == 3
    with pytest.raises(InputError, match=re.escape(how_to_install("babel"))):
        Dates(train=3, valid=2, test=1, forms="all").load()
