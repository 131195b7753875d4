"""Dates in other languages: the short, medium, long and full form of every locale in Babel.

Babel writes Gregorian dates only, also for locales with another calendar. Forms without a day, month or year are
skipped. Needs the extra `dates`."""

from dataclasses import dataclass
from datetime import date
from functools import cache
from random import Random

from babel import Locale
from babel.dates import DateTimeFormat, tokenize_pattern
from babel.localedata import locale_identifiers

from regard.data.generated.dates_english import (
    MONTHS,
    DateExample,
    Writer,
    day_and_month_may_swap,
    written_weekday,
)

_LENGTHS = ("short", "medium", "long", "full")
_WIDTHS = {3: "abbreviated", 4: "wide", 5: "narrow"}


@dataclass(frozen=True)
class Form:
    """A form of a date: literal text and (letter, count) fields as in Unicode TR 35."""

    locale: Locale
    label: str
    parts: tuple[str | tuple[str, int], ...]
    months: tuple[str, ...]
    """Names of the twelve months; empty when the month is in digits."""
    short_year: bool
    year_first: bool


def locale_writer() -> Writer:
    """A writer that chooses a language, then one of its forms."""
    languages: dict[str, list[Form]] = {}
    for form in locale_forms():
        languages.setdefault(form.locale.language, []).append(form)
    forms = [languages[name] for name in sorted(languages)]
    unclear = _unclear_names([form for several in forms for form in several])

    def write(day: date, random: Random) -> DateExample:
        form = random.choice(random.choice(forms))
        text = _written(day, form, random)
        return DateExample(
            text, day.isoformat(), form.label, _is_ambiguous(day, form, unclear)
        )

    return write


@cache
def locale_forms() -> tuple[Form, ...]:
    """Every distinct form, in a fixed order. Forms that look the same in several locales occur once."""
    forms: dict[tuple[object, ...], Form] = {}
    for name in sorted(locale_identifiers()):
        locale = Locale.parse(name)
        for length in _LENGTHS:
            pattern = locale.date_formats[length].pattern
            form = _form(locale, f"{name} {length}: {pattern}", pattern)
            if form:
                forms.setdefault(_appearance(form), form)
    return tuple(forms.values())


def _appearance(form: Form) -> tuple[object, ...]:
    """Everything that determines the form's text."""
    letters = {part[0] for part in form.parts if isinstance(part, tuple)}
    weekdays = _weekdays(form.locale) if letters & {"E", "c"} else ()
    return (
        form.parts,
        form.months,
        weekdays,
        form.locale.eras["abbreviated"][1] if "G" in letters else "",
    )


def _form(locale: Locale, label: str, pattern: str) -> Form | None:
    parts = tuple(value for _, value in tokenize_pattern(pattern))
    fields = [part for part in parts if isinstance(part, tuple)]
    counts = dict(fields)
    month = counts.get("M", counts.get("L", 0))
    if not (month and "d" in counts and "y" in counts):
        return None
    names = _month_names(locale, month) if month >= 3 else ()
    order = [letter for letter, _ in fields if letter in "yMLd"]
    return Form(locale, label, parts, names, counts["y"] == 2, order[0] == "y")


def _month_names(locale: Locale, count: int) -> tuple[str, ...]:
    names = locale.months["format"][_WIDTHS[count]]
    found = tuple(names[number] for number in range(1, 13))
    return found if any(letter.isalpha() for letter in found[0]) else ()


def _weekdays(locale: Locale) -> tuple[str, ...]:
    names = locale.days["format"]
    return tuple(
        names[width][number] for width in ("abbreviated", "wide") for number in range(7)
    )


def _unclear_names(forms: list[Form]) -> set[tuple[str, int]]:
    """(Name, month) pairs whose name means another month elsewhere, as listopad does in Czech and Croatian.

    English names count as clear: May is May, whatever it means in a rare language.
    """
    meanings: dict[str, set[int]] = {}
    for form in forms:
        for number, name in enumerate(form.months, 1):
            meanings.setdefault(_plain(name), set()).add(number)
    english = {
        (name[:width].lower(), number)
        for number, name in enumerate(MONTHS, 1)
        for width in (3, None)
    }
    several = {
        (name, number)
        for name, numbers in meanings.items()
        if len(numbers) > 1
        for number in numbers
    }
    return several - english


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _is_ambiguous(day: date, form: Form, unclear: set[tuple[str, int]]) -> bool:
    if form.short_year:
        return True
    if form.months:
        return (_plain(form.months[day.month - 1]), day.month) in unclear
    return not form.year_first and day_and_month_may_swap(day)


def _written(day: date, form: Form, random: Random) -> str:
    right = DateTimeFormat(day, form.locale)
    weekday = DateTimeFormat(
        date(2001, 1, 1 + written_weekday(day, random)), form.locale
    )  # the 1st was a Monday
    written = []
    for part in form.parts:
        if isinstance(part, str):
            written.append(part)
        else:
            letter, count = part
            written.append((weekday if letter in "Ec" else right)[letter * count])
    return "".join(written)
