"""Generated dates in free form and their ISO form."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache
from random import Random
from typing import Any, Literal

from regard.data.pairs import Pair
from regard.errors import InputError
from regard.extras import how_to_install

MONTHS = ("January", "February", "March", "April", "May", "June",
          "July", "August", "September", "October", "November", "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
            "Sunday")  # fmt: skip

# {d} 9  {dd} 09  {th} 9th  {month} May  {mon} Sep, Sep. or Sept.  {short} Sep  {m} 5  {mm} 05  {y} 2018  {yy} 18
# {weekday} Saturday  {wd} Sat, Sat. or the like. Commas may be left out.
PATTERNS = (
    "{d} {month} {y}",
    "{dd} {month} {y}",
    "{d} {month}, {y}",
    "{th} {month} {y}",
    "{th} of {month} {y}",
    "the {th} of {month}, {y}",
    "{month} {d}, {y}",
    "{month} {dd}, {y}",
    "{month} {th}, {y}",
    "{month} the {th}, {y}",
    "{d} {mon} {y}",
    "{dd} {mon} {y}",
    "{th} {mon} {y}",
    "{mon} {d}, {y}",
    "{mon} {th}, {y}",
    "{d}-{short}-{y}",
    "{dd}/{short}/{y}",
    "{dd}{short}{y}",
    "{y} {month} {d}",
    "{y}, {mon} {dd}",
    "{y}-{short}-{dd}",
    "{y}-{mm}-{dd}",
    "{y}/{mm}/{dd}",
    "{y}{mm}{dd}",
    "{weekday} {dd} {month} {y}",
    "{weekday}, {d} {month} {y}",
    "{weekday}, {month} {d}, {y}",
    "{weekday}, {th} of {month} {y}",
    "{weekday} the {th} of {month}, {y}",
    "{weekday}, {mon} {th}, {y}",
    "{wd}, {d} {mon} {y}",
    "{wd} {dd} {mon} {y}",
    "{wd}, {month} {d}, {y}",
    "{wd} {th} {month} {y}",
    "{wd}, {y}-{mm}-{dd}",
    "{month} {d}, {y} ({weekday})",
    "{d} {month} {y}, {weekday}",
    "{y}-{mm}-{dd} ({wd})",
)
# Ambiguous without the writer's country or the century
NUMERIC_PATTERNS = (
    "{d}/{m}/{y}",
    "{m}/{d}/{y}",
    "{dd}/{mm}/{y}",
    "{mm}/{dd}/{y}",
    "{dd}.{mm}.{y}",
    "{mm}-{dd}-{y}",
    "{dd}-{mm}-{y}",
    "{d}.{m}.{yy}",
    "{m}/{d}/{yy}",
    "{dd}/{mm}/{yy}",
    "{yy}/{mm}/{dd}",
    "{d} {month} '{yy}",
    "{weekday} {dd}.{mm}.{yy}",
)

_LONGER = {
    "September": ("Sept",),
    "Tuesday": ("Tues",),
    "Thursday": ("Thur", "Thurs"),
}  # alternatives to three letters
_CASES = str, str, str.lower, str.upper
"""As written half of the time."""


Writer = Callable[[date, Random], Pair]
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
Forms = Literal["unambiguous", "all"]
VALID_SHARE = TEST_SHARE = 0.1
"""The shares of the days for validation and test."""


@cache
def split_days(seed: int) -> tuple[list[int], list[int], list[int]]:
    """Return the days of the three sets as ordinals; no two sets have a common day."""
    days = list(range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1))
    Random(f"{seed}/days").shuffle(days)
    first = int(len(days) * (1 - VALID_SHARE - TEST_SHARE))
    second = int(len(days) * (1 - TEST_SHARE))
    return days[:first], days[first:second], days[second:]


def write_day(day: date, random: Random, forms: Forms) -> Pair:
    """Write a day in one of the forms.

    Raises:
        InputError: `forms` is "all" and Babel is not installed.
    """
    if forms != "all":
        return write_unambiguous(day, random)
    writers = write_unambiguous, write_numeric, locale_writer()
    (writer,) = random.choices(writers, (4, 1, 5))
    return writer(day, random)


def _make_pair(day: date, text: str, form: str, is_ambiguous: bool) -> Pair:
    group = "ambiguous" if is_ambiguous else ""
    return Pair(text, day.isoformat(), f"({form})", group)


def write_unambiguous(day: date, random: Random) -> Pair:
    """Write the day in one of PATTERNS, with varied case, commas and abbreviations."""
    pattern = random.choice(PATTERNS)
    return _make_pair(day, _fill_pattern(day, random, pattern), pattern, False)


def write_numeric(day: date, random: Random) -> Pair:
    """Write the day in one of NUMERIC_PATTERNS."""
    pattern = random.choice(NUMERIC_PATTERNS)
    is_ambiguous = "{yy}" in pattern or day_and_month_may_swap(day)
    return _make_pair(day, _fill_pattern(day, random, pattern), pattern, is_ambiguous)


def day_and_month_may_swap(day: date) -> bool:
    """Return whether day and month in digits can be swapped to give another date."""
    return day.day <= 12 and day.day != day.month


def _choose_weekday(day: date, random: Random) -> int:
    """Choose the weekday (Monday is 0): the right one half of the time."""
    shift = random.randint(1, 6) if random.random() < 0.5 else 0
    return (day.weekday() + shift) % 7


def _fill_pattern(day: date, random: Random, pattern: str) -> str:
    month = MONTHS[day.month - 1]
    weekday = WEEKDAYS[_choose_weekday(day, random)]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    text = pattern.format(
        d=day.day,
        dd=f"{day.day:02}",
        th=f"{day.day}{'th' if 11 <= day.day <= 13 else ending}",
        m=day.month,
        mm=f"{day.month:02}",
        month=month,
        mon=_abbreviate(month, random),
        short=month[:3],
        y=day.year,
        yy=f"{day.year % 100:02}",
        weekday=weekday,
        wd=_abbreviate(weekday, random),
    )
    if random.random() < 0.3:
        text = text.replace(",", "")
    return random.choice(_CASES)(text)


def _abbreviate(name: str, random: Random) -> str:
    short = random.choice((name[:3], *_LONGER.get(name, ())))
    return short if short == name else short + random.choice(("", "."))


_LENGTHS = ("short", "medium", "long", "full")
_WIDTHS = {3: "abbreviated", 4: "wide", 5: "narrow"}


@dataclass(frozen=True)
class DateForm:
    """A form of a date in a locale of Babel.

    Attributes:
        locale: The locale.
        label: The name of the form.
        parts: Literal text and (letter, count) fields as in Unicode TR 35.
        letters: The letters of the fields with their counts, in order.
        months: Names of the twelve months; empty when the month is in digits.
    """

    locale: Any
    label: str
    parts: tuple[str | tuple[str, int], ...]
    letters: dict[str, int]
    months: tuple[str, ...]

    @property
    def appearance(self) -> tuple[object, ...]:
        """Everything that determines the form's text."""
        names = self.locale.days["format"]
        weekdays = [tuple(names[width].values()) for width in ("abbreviated", "wide")]
        era = self.locale.eras["abbreviated"][1]
        return (
            self.parts,
            self.months,
            tuple(weekdays) if {"E", "c"} & set(self.letters) else (),
            era if "G" in self.letters else "",
        )

    def is_ambiguous(self, day: date, unclear: set[tuple[str, int]]) -> bool:
        """Return whether the text of a day has two readings."""
        if self.letters["y"] == 2:
            return True
        if self.months:
            return (_plain(self.months[day.month - 1]), day.month) in unclear
        order = [letter for letter in self.letters if letter in "yMLd"]
        return order[0] != "y" and day_and_month_may_swap(day)

    def write(self, day: date, random: Random) -> str:
        """Write a day, with a weekday that is right half of the time."""
        formats = importlib.import_module("babel.dates").DateTimeFormat
        right = formats(day, self.locale)
        monday = date(2001, 1, 1)
        chosen = monday.replace(day=1 + _choose_weekday(day, random))
        weekday = formats(chosen, self.locale)
        text = ""
        for part in self.parts:
            if isinstance(part, tuple):
                letter, count = part
                part = (weekday if letter in "Ec" else right)[letter * count]
            text += part
        return text


@cache
def locale_writer() -> Writer:
    """Return a writer that chooses a language, then one of its forms.

    Raises:
        InputError: Babel is not installed.
    """
    languages: dict[str, list[DateForm]] = {}
    for form in locale_forms():
        languages.setdefault(form.locale.language, []).append(form)
    groups = [languages[name] for name in sorted(languages)]
    unclear = _find_unclear_names([form for forms in groups for form in forms])

    def write(day: date, random: Random) -> Pair:
        form = random.choice(random.choice(groups))
        text = form.write(day, random)
        return _make_pair(day, text, form.label, form.is_ambiguous(day, unclear))

    return write


def locale_forms() -> tuple[DateForm, ...]:
    """Return every distinct form, in a fixed order.

    Forms that look the same in several locales occur once.
    """
    try:
        babel = importlib.import_module("babel")
        data = importlib.import_module("babel.localedata")
    except ModuleNotFoundError as error:
        raise InputError(
            "dates in all forms need Babel, which is not installed: "
            f"{how_to_install('babel')} (or forms: unambiguous)"
        ) from error
    forms: dict[tuple[object, ...], DateForm] = {}
    for name in sorted(data.locale_identifiers()):
        locale = babel.Locale.parse(name)
        for length in _LENGTHS:
            pattern = locale.date_formats[length].pattern
            form = _parse_form(locale, f"{name} {length}: {pattern}", pattern)
            if form:
                forms.setdefault(form.appearance, form)
    return tuple(forms.values())


def _parse_form(locale: Any, label: str, pattern: str) -> DateForm | None:
    tokenize = importlib.import_module("babel.dates").tokenize_pattern
    parts = tuple(value for _, value in tokenize(pattern))
    letters = dict(part for part in parts if isinstance(part, tuple))
    width = letters.get("M", letters.get("L", 0))
    if not (width and {"d", "y"} <= letters.keys()):
        return None
    months = ()
    if width >= 3:
        names = locale.months["format"][_WIDTHS[width]]
        months = tuple(names[number] for number in range(1, 13))
        if not any(map(str.isalpha, months[0])):
            months = ()
    return DateForm(
        locale,
        label,
        parts,
        letters,
        months,
    )


def _find_unclear_names(forms: list[DateForm]) -> set[tuple[str, int]]:
    """Return (name, month) pairs whose name means another month elsewhere.

    So does listopad in Czech and Croatian. English names count as clear: May is May,
    whatever it means in a rare language.
    """
    meanings: dict[str, set[int]] = {}
    for form in forms:
        for number, name in enumerate(form.months, 1):
            meanings.setdefault(_plain(name), set()).add(number)
    return {
        (name, number)
        for name, numbers in meanings.items()
        for number in numbers
        if len(numbers) > 1
        and name not in (MONTHS[number - 1].lower(), MONTHS[number - 1].lower()[:3])
    }


def _plain(name: str) -> str:
    return name.lower().rstrip(".")
